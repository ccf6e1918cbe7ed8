package store

import (
	"io"
	"os"

	"github.com/openberth/berth/fault"
)

// Limits bound the images of a project, so that one project does not use the disk of all. 0: no limit.
type Limits struct {
	Size    int64 // of one image, in bytes
	Project int64 // of the data of all images of a project together, in bytes
	Count   int   // of the images of a project
}

// OverLimit is the code of the fault.Invalid for data or an image that the limits do not permit.
const OverLimit = "image.over_limit"

// reserveStep is how many bytes an upload of unknown size reserves at a time. Each time the images of its project are
// summed up.
const reserveStep = 64 << 20

// admit refuses a new image of a project that has as many as the limits permit. The caller has the lock.
func (s *Store) admit(i Image, limits Limits) error {
	count := 0
	for _, other := range s.images {
		if other.Owner == i.Owner {
			count++
		}
	}
	if limits.Count > 0 && count >= limits.Count {
		return fault.New(fault.Invalid, "project %s has %d images, and images_per_project permits %d; delete images "+
			"that are not needed", i.Owner, count, limits.Count).WithCode(OverLimit)
	}
	return nil
}

// reserve permits an image whose data is being received to have size bytes, or refuses that because of its own size or
// of that of all images of its project.
func (s *Store) reserve(id string, size int64, limits Limits) error {
	if limits.Size > 0 && size > limits.Size {
		return fault.New(fault.Invalid, "the image has %d bytes or more, and image_size_cap permits %d", size,
			limits.Size).WithCode(OverLimit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.get(id)
	if err != nil {
		return err
	}
	if limits.Project > 0 {
		others := s.othersOf(i)
		if size > limits.Project-others {
			return fault.New(fault.Invalid, "the image has %d bytes or more, the other images of project %s have %d, "+
				"and user_storage_quota permits %d together; delete images that are not needed", size, i.Owner, others,
				limits.Project).WithCode(OverLimit)
		}
	}
	s.uploads[id] = max(s.uploads[id], size)
	return nil
}

// othersOf returns how many bytes the other images of an image's project have, or may have when their uploads end. The
// caller has the lock.
func (s *Store) othersOf(i Image) (sum int64) {
	for id, other := range s.images {
		switch {
		case other.Owner != i.Owner || id == i.ID:
		case other.HasData():
			sum += other.Size
		default:
			received := s.uploads[id]
			if info, err := os.Stat(s.path(id, partialSuffix)); err == nil {
				received = max(received, info.Size())
			}
			sum += received
		}
	}
	return sum
}

// limitedReader reads data of an image as far as its limits permit.
type limitedReader struct {
	from     io.Reader
	size     int64 // of the image up to what was read
	reserved int64 // what the image may have
	reserve  func(size int64) error
	refused  error // of the limits
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	l.size += int64(n)
	if l.size <= l.reserved {
		return n, err
	}
	if l.reserve(l.size+reserveStep) == nil {
		l.reserved = l.size + reserveStep
		return n, err
	}
	if l.refused = l.reserve(l.size); l.refused != nil {
		return 0, l.refused
	}
	l.reserved = l.size
	return n, err
}
