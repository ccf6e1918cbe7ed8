package store

import (
	"crypto/md5" // the Image API shows it beside SHA-512
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// Received returns how many bytes of an image have been received: all of them once it has its data.
func (s *Store) Received(id string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.get(id)
	if err != nil || i.HasData() {
		return i.Size, err
	}
	info, err := os.Stat(s.path(id, partialSuffix))
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	return info.Size(), nil
}

func ignoreNotFound(err error) error {
	if err = ignoreMissing(err); err != nil {
		return failed("read the data of an image", err)
	}
	return nil
}

// Upload is data of an image that a client sends.
type Upload struct {
	Data   io.Reader
	From   int64 // the first byte that Data has; what was received before is kept up to it
	Total  int64 // size of the whole image in bytes; -1: it ends with Data
	Limits Limits
	SHA512 string // of the whole image, if the client has it; empty: not checked
}

// Upload receives data of an image without data. When it is complete, the format is checked, and the image is Active.
// If Data ends early or fails, the image is Queued, and what was received is kept, so that the client can continue: the
// error is that of Data, or fault.Unavailable. It is removed if the disk is full. If the data is not valid, or more
// than the limits permit, it is removed, and the error is fault.Invalid.
// fault.Conflict: the image has data, or another upload is in progress, or From is beyond what was received.
func (s *Store) Upload(id string, u Upload) (Image, error) {
	i, err := s.beginUpload(id, func(i *Image) error { return i.begin(Saving) })
	if err != nil {
		return Image{}, err
	}
	done, err := s.receive(i, u, inspect)
	return s.endUpload(id, func(i *Image) error {
		if err == nil {
			return s.activate(i, done)
		}
		i.Status = Queued
		return err
	})
}

// endUpload records the result of what was begun with beginUpload: end changes the image, which is written also if it
// returns an error.
func (s *Store) endUpload(id string, end func(*Image) error) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, id)
	i, err := s.get(id)
	if err != nil {
		return Image{}, err
	}
	err = end(&i)
	i, other := s.put(i)
	if other != nil { // what is on the disk counts, as after a restart
		other = errors.Join(other, s.readRecord(id), s.deactivate(id))
	}
	if err = errors.Join(err, other); err != nil {
		return Image{}, err
	}
	return i, nil
}

// activate makes what was received the data of the image. The caller has the lock and writes the record.
func (s *Store) activate(i *Image, done Data) error {
	if err := os.Rename(s.path(i.ID, partialSuffix), s.path(i.ID, dataSuffix)); err != nil {
		i.Status = Queued
		return failed("store the data of an image", err)
	}
	i.Status, i.Data, i.Staged = Active, done, false
	return nil
}

// deactivate makes the data of an image of which the record does not say that it has them what was received, as they
// were before activate. The caller has the lock.
func (s *Store) deactivate(id string) error {
	partial, data := s.path(id, partialSuffix), s.path(id, dataSuffix)
	if _, err := os.Stat(partial); s.images[id].HasData() || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := ignoreMissing(os.Rename(data, partial)); err != nil {
		return failed("keep the data of an image", err)
	}
	return nil
}

// beginUpload sets the status of an image whose data is received or imported until endUpload, and returns the image.
// begin checks and changes it.
func (s *Store) beginUpload(id string, begin func(*Image) error) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.get(id)
	_, uploading := s.uploads[id]
	switch {
	case err != nil:
		return Image{}, err
	case uploading:
		return Image{}, fault.New(fault.Conflict, "the data of image %s is being received or imported already; wait until "+
			"that ends", id)
	}
	if err := begin(&i); err != nil {
		return Image{}, err
	}
	if i, err = s.put(i); err == nil {
		s.uploads[id] = 0
	}
	return i, err
}

// begin sets the status of an image without data.
func (i *Image) begin(status Status) error {
	switch {
	case i.HasData():
		return fault.New(fault.Conflict, "image %s has data already; create another image", i.ID)
	case i.Staged:
		return fault.New(fault.Conflict, "the data of image %s is staged already; import it", i.ID)
	case status == Uploading: // its formats may be set until it is imported
	case i.DiskFormat == "" || i.ContainerFormat == "":
		return i.withoutFormat()
	}
	i.Status = status
	return nil
}

func (i *Image) withoutFormat() error {
	return fault.New(fault.Invalid, "image %s has no disk_format or no container_format; set them before the upload",
		i.ID)
}

// inspection returns what follows from the whole data of an image.
type inspection func(file *os.File, size int64, i Image, sums sums) (Data, error)

// receive appends the data to the file of what was received, and inspects the whole data.
func (s *Store) receive(i Image, u Upload, inspect inspection) (done Data, err error) {
	if err := s.reserve(i.ID, max(u.Total, u.From), u.Limits); err != nil {
		return done, err
	}
	file, err := os.OpenFile(s.path(i.ID, partialSuffix), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return done, failed("store the data of an image", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return done, failed("store the data of an image", err)
	}
	if u.From > info.Size() {
		return done, fault.New(fault.Conflict, "image %s has received %d bytes, and the data begins at byte "+
			"%d; continue at byte %d", i.ID, info.Size(), u.From, info.Size())
	}
	if err := file.Truncate(u.From); err != nil {
		return done, failed("store the data of an image", err)
	}
	sums := newSums()
	if _, err := io.Copy(sums, io.NewSectionReader(file, 0, u.From)); err != nil {
		return done, failed("read the data of an image", err)
	}
	size, err := s.appendData(i.ID, file, sums, u)
	if err != nil {
		return done, err
	}
	if err := file.Sync(); err != nil {
		return done, failed("store the data of an image", err)
	}
	done, err = inspect(file, size, i, sums)
	if err == nil && u.SHA512 != "" && u.SHA512 != done.SHA512 {
		err = fault.New(fault.Invalid, "the data has the SHA-512 sum %s instead of %s: it was changed on its "+
			"way; upload it again", done.SHA512, u.SHA512)
	}
	if err != nil { // nothing of it can be used
		return done, errors.Join(err, ignoreNotFound(os.Remove(file.Name())))
	}
	return done, nil
}

// appendData writes the data at its place, without its zeros, and returns the size of the whole image.
func (s *Store) appendData(id string, file *os.File, sums io.Writer, u Upload) (size int64, err error) {
	sparse := &diskimage.SparseWriter{To: file, Offset: u.From}
	sink := &diskWriter{file: sparse}
	data := &limitedReader{from: u.Data, size: u.From, reserved: max(u.Total, u.From), reserve: func(size int64) error {
		return s.reserve(id, size, u.Limits)
	}}
	n, err := io.Copy(io.MultiWriter(sink, sums), data)
	size = u.From + n
	if sink.failed == nil {
		sink.failed = file.Truncate(size)
	}
	switch {
	case errors.Is(sink.failed, syscall.ENOSPC), errors.Is(sink.failed, syscall.EDQUOT): // others need the space
		return 0, errors.Join(failed("store the data of an image", sink.failed), ignoreNotFound(os.Remove(file.Name())))
	case sink.failed != nil:
		return 0, failed("store the data of an image", sink.failed)
	case data.refused != nil:
		return 0, errors.Join(data.refused, ignoreNotFound(os.Remove(file.Name())))
	case err != nil:
		return 0, errors.Join(err, file.Sync())
	case u.Total >= 0 && size != u.Total:
		return 0, errors.Join(fault.New(fault.Unavailable, "the data ended after %d of %d bytes; continue "+
			"the upload", size, u.Total), file.Sync())
	}
	return size, nil
}

// diskWriter separates errors of the disk from those of the client.
type diskWriter struct {
	file   io.Writer
	failed error
}

// Write implements io.Writer.
func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.failed = err
	return n, err
}

// sums are the checksums of the data.
type sums struct {
	io.Writer
	md5, sha512 hash.Hash
}

func newSums() sums {
	s := sums{md5: md5.New(), sha512: sha512.New()}
	s.Writer = io.MultiWriter(s.md5, s.sha512)
	return s
}

// inspect checks the format and the structure of complete data.
func inspect(file *os.File, size int64, i Image, sums sums) (Data, error) {
	info, err := diskimage.Inspect(file, size, i.DiskFormat)
	if err != nil {
		return Data{}, err
	}
	return Data{Size: size, VirtualSize: info.VirtualSize, MD5: hex.EncodeToString(sums.md5.Sum(nil)),
		SHA512: hex.EncodeToString(sums.sha512.Sum(nil))}, nil
}
