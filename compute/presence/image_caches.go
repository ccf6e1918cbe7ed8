package presence

import (
	"sync"

	"github.com/openberth/berth/api/host"
)

// imageCaches are the sizes of the copies of images on hosts, from the last sign of life of each.
type imageCaches struct {
	mu    sync.Mutex
	sizes map[string]host.ImageCache // by host; absent: not known
}

// SetImageCache records the size of the copies of images on a host, from a sign of life; nil: it is not known.
func (c *imageCaches) SetImageCache(name string, size *host.ImageCache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size == nil {
		delete(c.sizes, name)
		return
	}
	if c.sizes == nil {
		c.sizes = map[string]host.ImageCache{}
	}
	c.sizes[name] = *size
}

// ImageCache returns the size of the copies of images on a host; known is false if the last sign of life of its agent
// did not have it, or if the agent has sent none to this process.
func (c *imageCaches) ImageCache(name string) (size host.ImageCache, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, known = c.sizes[name]
	return size, known
}
