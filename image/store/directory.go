package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The suffixes of the files of an image.
const (
	recordSuffix  = ".json"
	dataSuffix    = ".data"
	partialSuffix = ".partial"
	deletedSuffix = ".deleted"
	newSuffix     = datafile.Unfinished // of a record that is being written
)

// Store is an open directory. It is safe for concurrent use.
type Store struct {
	dir string
	now func() time.Time

	mu      sync.Mutex
	images  map[string]Image
	uploads map[string]int64 // images whose data is being received, and the bytes that these may have
	damaged map[string]bool  // images whose files cannot be read, and are left alone
}

// Open reads the records of a directory, which is created. It removes what a crash has left: unfinished records, and
// data of images that were deleted or never recorded. Data that were complete before their record said so count as
// received. An image with a damaged file is logged, and is Unavailable until
// the file is restored. It returns fault.Invalid for a record of another version.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failed("open", err)
	}
	s := &Store{dir: dir, now: time.Now, images: map[string]Image{}, uploads: map[string]int64{},
		damaged: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, failed("open", err)
	}
	for _, entry := range entries {
		if id, ok := strings.CutSuffix(entry.Name(), recordSuffix); ok && uuid.Validate(id) == nil {
			err := s.readRecord(id)
			if fault.CodeOf(err) == damagedFile {
				s.damaged[id] = true
				log.Error("image left out", "error", err)
				continue
			}
			if err == nil {
				err = s.deactivate(id)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if entries, err = os.ReadDir(dir); err != nil {
		return nil, failed("open", err)
	}
	for _, entry := range entries {
		if s.isLeftover(entry.Name()) {
			log.Warn("file of no image removed", "path", filepath.Join(dir, entry.Name()))
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return nil, failed("open", err)
			}
		}
	}
	return s, nil
}

// damagedFile is the code of the fault of an image whose record or data cannot be read.
const damagedFile = "image.damaged_file"

// readRecord reads the record of an image. The error is fs.ErrNotExist if there is none.
func (s *Store) readRecord(id string) error {
	path := s.path(id, recordSuffix)
	var i Image
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	if err == nil && i.ID != id {
		err = errors.New("it has another id")
	}
	if err != nil {
		return fault.New(fault.Unavailable, "%s is not the record of image %s: %w; restore it from a backup, "+
			"or delete it to delete the image", path, id, err).WithCode(damagedFile)
	}
	if i.Version != recordVersion {
		return fault.New(fault.Invalid, "%s has version %d, and this program reads version %d; use the program "+
			"that has written it", path, i.Version, recordVersion)
	}
	i.interrupt()
	if i.HasData() {
		if info, err := os.Stat(s.path(id, dataSuffix)); err != nil || info.Size() != i.Size {
			return fault.New(fault.Unavailable, "%s does not have the %d bytes of image %s; restore it from a "+
				"backup, or delete %s to delete the image", s.path(id, dataSuffix), i.Size, id, path).WithCode(damagedFile)
		}
	}
	s.images[id] = i
	return nil
}

// interrupt sets the state of an image whose data was being received or imported when the process ended, or when the
// result could not be recorded.
func (i *Image) interrupt() {
	switch i.Status {
	case Saving, Uploading, Importing:
		i.Status = Queued
		if i.Staged {
			i.Status = Uploading
		}
	}
	if i.Import != nil && i.Import.Status == ImportRuns {
		i.Import.Status, i.Import.Ended = ImportFailed, i.Updated
		i.Import.Message = "the image service was restarted, or has not recorded the result; import the image again"
	}
}

// isLeftover reports whether a file belongs to an image that does not exist, or to a write that was not finished. Other
// files are not Berth's.
func (s *Store) isLeftover(name string) bool {
	base, ext, _ := strings.Cut(name, ".")
	if uuid.Validate(base) != nil {
		return false
	}
	i, known := s.images[base]
	if s.damaged[base] {
		return false
	}
	switch "." + ext {
	case recordSuffix + newSuffix:
		return true
	case dataSuffix:
		return !known || !i.HasData()
	case partialSuffix:
		return !known || i.HasData()
	}
	return false
}

func (s *Store) path(id, suffix string) string { return filepath.Join(s.dir, id+suffix) }

// List returns all images, the newest first.
func (s *Store) List() []Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.damaged {
		s.readDamaged(id)
	}
	all := make([]Image, 0, len(s.images))
	for _, i := range s.images {
		all = append(all, i.clone())
	}
	slices.SortFunc(all, func(a, b Image) int {
		if order := b.Created.Compare(a.Created); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Get returns an image, or fault.NotFound.
func (s *Store) Get(id string) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(id)
}

// get is Get; the caller has the lock.
func (s *Store) get(id string) (Image, error) {
	s.readDamaged(id)
	if s.damaged[id] {
		return Image{}, fault.New(fault.Unavailable, "a file of image %s is damaged; the log of the image "+
			"service names it", id)
	}
	i, ok := s.images[id]
	if !ok {
		return Image{}, fault.New(fault.NotFound, "there is no image %s", id)
	}
	return i.clone(), nil
}

// readDamaged reads an image whose file was damaged again: it may be restored, or deleted. The caller has the lock.
func (s *Store) readDamaged(id string) {
	if !s.damaged[id] {
		return
	}
	if err := s.readRecord(id); err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(s.damaged, id)
	}
}

// Create stores a new image without data. It returns fault.Conflict if one with the id exists or has existed: servers
// and templates of other users may still name it. The code is OverLimit
// if its project has as many images as the limits permit.
func (s *Store) Create(i Image, limits Limits) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(i, limits); err != nil {
		return Image{}, err
	}
	if _, exists := s.images[i.ID]; exists || s.damaged[i.ID] {
		return Image{}, fault.New(fault.Conflict, "image %s exists already; use another id", i.ID)
	}
	if uuid.Validate(i.ID) != nil {
		return Image{}, fault.New(fault.Invalid, "%q is not a UUID; leave the id out, or write one", i.ID)
	}
	if _, err := os.Lstat(s.path(i.ID, deletedSuffix)); !errors.Is(err, fs.ErrNotExist) {
		return Image{}, fault.New(fault.Conflict, "image %s has existed and was deleted; use another id", i.ID)
	}
	i.Status, i.Created = Queued, s.now().UTC()
	return s.put(i)
}

// Change changes an image. If change returns an error, nothing is changed, and Change returns the error. The status is
// changed only between Active and Deactivated.
func (s *Store) Change(id string, change func(*Image) error) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.get(id)
	if err != nil {
		return Image{}, err
	}
	if err := change(&i); err != nil {
		return Image{}, err
	}
	return s.put(i)
}

// put writes a record; the caller has the lock.
func (s *Store) put(i Image) (Image, error) {
	i.Version, i.Updated = recordVersion, s.now().UTC()
	text, err := json.MarshalIndent(i, "", "  ")
	if err == nil {
		err = datafile.Replace(s.path(i.ID, recordSuffix), append(text, '\n'))
	}
	if err != nil {
		return Image{}, failed("write the record of an image", err)
	}
	s.images[i.ID] = i.clone()
	return i, nil
}

// Delete removes an image. It returns fault.NotFound if there is none, and fault.Conflict while its data is received or
// imported.
func (s *Store) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.get(id); err != nil {
		return err
	}
	if _, is := s.uploads[id]; is {
		return fault.New(fault.Conflict, "the data of image %s is being received; end the upload first", id)
	}
	// Without the record the other files are leftovers. It becomes the mark of the id, which needs no space.
	mark := s.path(id, deletedSuffix)
	if err := os.Rename(s.path(id, recordSuffix), mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("delete an image", err)
	}
	delete(s.images, id)
	_ = os.Truncate(mark, 0) // the content has no use
	for _, suffix := range []string{dataSuffix, partialSuffix} {
		if err := os.Remove(s.path(id, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed("delete the data of an image", err)
		}
	}
	if err := datafile.Sync(s.dir); err != nil {
		return failed("delete an image", err)
	}
	return nil
}

// Data opens the data of an image. It returns fault.NotFound if the image has none.
func (s *Store) Data(id string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.get(id)
	if err != nil {
		return nil, err
	}
	if !i.HasData() {
		return nil, fault.New(fault.NotFound, "image %s has no data yet; upload it first", id)
	}
	file, err := os.Open(s.path(id, dataSuffix))
	if err != nil {
		return nil, failed("read the data of an image", err)
	}
	return file, nil
}

// Check returns fault.Unavailable if the directory takes no writes.
func (s *Store) Check() error {
	file, err := os.CreateTemp(s.dir, ".check-")
	if err == nil {
		err = errors.Join(file.Close(), os.Remove(file.Name()))
	}
	if err != nil {
		return failed("write to the directory of images", err)
	}
	return nil
}

// Free returns the bytes that the file system of the directory has left for this process.
func (s *Store) Free() (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &disk); err != nil {
		return 0, failed("read the free space of "+s.dir, err)
	}
	return int64(disk.Bavail) * disk.Bsize, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// failed returns a fault for an error of the file system.
func failed(what string, err error) error {
	return fault.New(fault.Unavailable, "cannot %s: %w; check the directory of images and its free space", what,
		err)
}
