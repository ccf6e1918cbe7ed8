package libvirt

import (
	"sync/atomic"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
)

// sizeKnownFor is how long the result of a measurement is returned: the file system of the images may be stalled since.
const sizeKnownFor = 5 * time.Minute

// imageSize is the result of the last measurement of the images.
type imageSize struct {
	last atomic.Pointer[measured] // nil: they have not been measured
}

// measured is the size of the images at a time.
type measured struct {
	hypervisor.ImageCache
	at time.Time
}

// ImageCache implements hypervisor.ImageCacher. The limit is 0 if no copies are removed.
func (s *imageSize) ImageCache() (size hypervisor.ImageCache, known bool) {
	last := s.last.Load()
	if last == nil || time.Since(last.at) > sizeKnownFor {
		return size, false
	}
	return last.ImageCache, true
}
