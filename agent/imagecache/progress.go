package imagecache

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// Download is a download or an upload in progress.
type Download struct {
	Image       string // UUID
	Bytes, Size int64  // received or sent, also by earlier attempts, and in all; Size 0: not known
	Upload      bool   // the data are sent to the image service
}

// progress counts the bytes of a download.
type progress struct {
	io.Writer
	size     int64
	upload   bool
	received atomic.Int64
}

// Write writes and counts.
func (p *progress) Write(data []byte) (int, error) {
	n, err := p.Writer.Write(data)
	p.received.Add(int64(n))
	return n, err
}

// count returns a writer that counts what is received of an image, from an offset on, until done is called.
func (c *Cache) count(to io.Writer, id string, size, from int64) (counted io.Writer, done func()) {
	p := &progress{Writer: to, size: size}
	p.received.Store(from)
	return p, c.track(id, p)
}

// track shows a transfer until done is called.
func (c *Cache) track(id string, p *progress) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downloads[id] = p
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.downloads, id)
	}
}

// Downloads returns the downloads and uploads in progress, by image.
func (c *Cache) Downloads() (list []Download) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.downloads {
		list = append(list, Download{id, p.received.Load(), p.size, p.upload})
	}
	slices.SortFunc(list, func(a, b Download) int { return strings.Compare(a.Image, b.Image) })
	return list
}
