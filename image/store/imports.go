package store

import (
	"io"
	"os"

	"github.com/openberth/berth/fault"
)

// Stage receives data of an image that an import makes its data later. What is said of Upload applies, but the data is
// not checked, and the status is Uploading while it is received and afterwards.
func (s *Store) Stage(id string, u Upload) (Image, error) {
	i, err := s.beginUpload(id, func(i *Image) error { return i.begin(Uploading) })
	if err != nil {
		return Image{}, err
	}
	_, err = s.receive(i, u, func(_ *os.File, size int64, i Image, _ sums) (Data, error) {
		if size == 0 {
			return Data{}, fault.New(fault.Invalid, "the data of image %s is empty", i.ID)
		}
		return Data{}, nil
	})
	return s.endUpload(id, func(i *Image) error {
		if i.Staged = err == nil; !i.Staged {
			i.Status = Queued
		}
		return err
	})
}

// BeginImport sets the status Importing until ImportStaged or ImportFrom has ended, which the caller must call then.
// staged: the data must be staged; otherwise the image must have no data. fault.Conflict: that is not so, or the data
// is being received. fault.Invalid: the image has no format.
func (s *Store) BeginImport(id string, staged bool, imported Import) (Image, error) {
	return s.beginUpload(id, func(i *Image) error {
		switch {
		case staged && !i.Staged:
			return fault.New(fault.Conflict, "image %s has status %s and no staged data; stage its data first (PUT "+
				"/v2/images/%s/stage)", id, i.Status, id)
		case staged && (i.DiskFormat == "" || i.ContainerFormat == ""):
			return i.withoutFormat()
		case !staged:
			if err := i.begin(Importing); err != nil {
				return err
			}
		}
		imported.Status, imported.Began = ImportRuns, s.now().UTC()
		i.Status, i.Import = Importing, &imported
		return nil
	})
}

// ImportStaged checks the staged data, and makes it the data of the image. If it is not valid, it is removed, and the
// image is Queued. After another error, and if stopped is one, the data stays staged.
func (s *Store) ImportStaged(id string, stopped error) (Image, error) {
	i, err := s.Get(id)
	var done Data
	if err == nil {
		err = stopped
	}
	if err == nil {
		done, err = s.checkStaged(i)
	}
	return s.endImport(id, done, err)
}

// checkStaged checks the staged data of an image.
func (s *Store) checkStaged(i Image) (done Data, err error) {
	file, err := os.Open(s.path(i.ID, partialSuffix))
	if err != nil {
		return done, failed("read the staged data of an image", err)
	}
	defer file.Close()
	sums := newSums()
	size, err := io.Copy(sums, file)
	if err != nil {
		return done, failed("read the staged data of an image", err)
	}
	return inspect(file, size, i, sums)
}

// ImportFrom receives the whole data of the image. open is called to get it. What arrives is removed if the import
// fails.
func (s *Store) ImportFrom(id string, open func() (Upload, error)) (Image, error) {
	var done Data
	i, err := s.Get(id)
	if err == nil {
		var u Upload
		if u, err = open(); err == nil {
			done, err = s.receive(i, u, inspect)
		}
	}
	return s.endImport(id, done, err)
}

// endImport records the result of an import.
func (s *Store) endImport(id string, done Data, err error) (Image, error) {
	return s.endUpload(id, func(i *Image) error {
		if err == nil {
			err = s.activate(i, done)
		}
		i.Import.Ended, i.Import.Status = s.now().UTC(), ImportSucceeded
		if err == nil {
			return nil
		}
		i.Import.Status, i.Import.Message = ImportFailed, fault.TextOf(err)
		if i.Staged && !fault.Is(err, fault.Invalid) { // nothing is wrong with the data
			i.Status = Uploading
			return err
		}
		i.Status, i.Staged = Queued, false
		if left := ignoreNotFound(os.Remove(s.path(id, partialSuffix))); left != nil {
			return left
		}
		return err
	})
}
