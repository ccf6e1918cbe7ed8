// Package imagecache keeps one copy of each image that guests of a host are built from, and uploads disks of guests.
//
// A copy is complete, verified and inspected, or it does not exist: an image is downloaded to a file with another name.
// An interrupted download continues where it ended. Package diskimage refuses images that refer to other files.
package imagecache

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// Source is an image service. NotFound: there is no such image, or it has no data.
type Source interface {
	Image(ctx context.Context, id string) (image.Image, error)
	// Download reads the data from an offset on; from is the offset at which it really begins.
	Download(ctx context.Context, id string, offset int64) (body io.ReadCloser, from int64, err error)
}

// Base is an image on this host. Its file does not change.
type Base struct {
	Path   string
	SHA512 string // of the file
	diskimage.Info
}

// Cache keeps images in a directory.
type Cache struct {
	dir    string
	source Source // nil: no image service is configured
	log    *slog.Logger
	part   string // suffix of a download that is not complete

	mu   sync.Mutex
	busy map[string]chan struct{} // by image; closed when the download ends

	downloads map[string]*progress // by image; uploads, too
	uploading chan struct{}        // has an element for each upload in progress
	conflicts map[string]int       // consecutive refusals of uploads, by image
}

// NoUploads returns why disks cannot be uploaded; empty: they can.
func (c *Cache) NoUploads() string {
	if _, able := c.source.(Target); !able {
		return "its agent has no image service; configure [glance]"
	}
	return ""
}

// New returns the cache in a directory, which Get makes. source may be nil.
func New(dir string, source Source, log *slog.Logger) *Cache {
	return &Cache{dir: dir, source: source, log: log, part: unfinished, busy: map[string]chan struct{}{},
		downloads: map[string]*progress{}, uploading: make(chan struct{}, uploads), conflicts: map[string]int{}}
}

// Share lets several hosts keep their images in the same directory: unfinished downloads have the name of this host.
func (c *Cache) Share(host string) *Cache {
	if host != "" {
		c.part = unfinished + "-" + host
	}
	return c
}

// Get returns an image, and downloads it if the host does not have it. Callers that need the same image wait for one
// download. Faults: Unavailable when a later call may succeed; Invalid for an image that cannot be used; NotFound;
// Conflict when no image service is configured.
func (c *Cache) Get(ctx context.Context, id string) (Base, error) {
	if _, err := uuid.Parse(id); err != nil {
		return Base{}, fault.New(fault.Invalid, "%q is not the id of an image: %w", id, err)
	}
	if err := c.acquire(ctx, id); err != nil {
		return Base{}, err
	}
	defer c.release(id)
	for _, format := range []diskimage.Format{diskimage.QCOW2, diskimage.Raw} {
		base, err := c.inspect(c.path(id, string(format)), format)
		if err == nil {
			base.SHA512, err = c.sum(id, base.Path)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Base{}, fault.New(fault.KindOf(err), "the copy %s of an image cannot be used: %w; remove it, and it is "+
				"downloaded again", c.path(id, string(format)), err)
		}
		if err == nil {
			c.touch(base.Path)
			return base, nil
		}
	}
	meta, err := c.lookUp(ctx, id)
	if err != nil {
		return Base{}, err
	}
	wanted := c.recorded(id) // disks may have been made from a copy that has vanished
	base, err := c.fetch(ctx, meta, wanted)
	if wanted != "" && fault.Is(err, fault.Conflict) {
		return base, fault.New(fault.Conflict, "%w; if no disk of this host was made from that, remove %s", err,
			c.path(id, sumSuffix))
	}
	return base, err
}

// lookUp returns what the image service has about an image.
func (c *Cache) lookUp(ctx context.Context, id string) (image.Image, error) {
	if c.source == nil {
		return image.Image{}, fault.New(fault.Conflict, "the image %s cannot be read: the host has no image service; "+
			"configure [glance]", id)
	}
	meta, err := c.source.Image(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return image.Image{}, fault.New(fault.NotFound, "the image %s does not exist any more: %w; rebuild the server "+
			"from another one", id, err)
	}
	return meta, err
}

// acquire waits until no other call works on an image.
func (c *Cache) acquire(ctx context.Context, id string) error {
	for {
		c.mu.Lock()
		other := c.busy[id]
		if other == nil {
			c.busy[id] = make(chan struct{})
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, context.Cause(ctx))
		case <-other:
		}
	}
}

func (c *Cache) release(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.busy[id])
	delete(c.busy, id)
}

// path returns the path of an image's file.
func (c *Cache) path(id, suffix string) string { return c.file(id + "." + suffix) }

// file returns the path of a file of the cache.
func (c *Cache) file(name string) string { return filepath.Join(c.dir, name) }

// inspect returns the image in a file. The error is os.ErrNotExist if there is none.
func (c *Cache) inspect(path string, format diskimage.Format) (Base, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Base{}, err
	}
	if err != nil {
		return Base{}, fault.Wrap(fault.Unavailable, err)
	}
	defer f.Close()
	status, err := f.Stat()
	if err != nil {
		return Base{}, fault.Wrap(fault.Unavailable, err)
	}
	info, err := diskimage.Inspect(f, status.Size(), format)
	return Base{Path: path, Info: info}, err
}

// fetch downloads, verifies and inspects an image. A file that is not the image, or does not have the SHA-512 sum
// wanted, is removed; wanted may be empty.
func (c *Cache) fetch(ctx context.Context, meta image.Image, wanted string) (Base, error) {
	if meta.Status != image.Active {
		return Base{}, fault.New(fault.Invalid, "the image %s is not active: its status is %s", meta.ID, meta.Status)
	}
	if wanted != "" && meta.HashAlgo == sumSuffix && meta.HashValue != "" && !strings.EqualFold(meta.HashValue, wanted) {
		return Base{}, otherData(meta.ID, meta.HashValue, wanted)
	}
	if format := diskimage.Format(meta.DiskFormat); format != diskimage.QCOW2 && format != diskimage.Raw {
		return Base{}, fault.New(fault.Invalid, "guests cannot boot the image %s: its format is %q; convert it with "+
			"qemu-img to qcow2 or raw", meta.ID, meta.DiskFormat)
	}
	if err := datafile.MakePassable(c.dir); err != nil { // for QEMU
		return Base{}, fault.New(fault.Unavailable, "the directory for images cannot be made: %w", err)
	}
	part := c.path(meta.ID, c.part)
	c.log.Info("image download begun", "image", meta.ID, "bytes", meta.Size)
	if err := c.download(ctx, meta, part); err != nil {
		return Base{}, err
	}
	base, err := c.accept(meta, part, wanted)
	if err != nil {
		return Base{}, errors.Join(err, os.Remove(part))
	}
	c.log.Info("image downloaded", "image", meta.ID, "format", base.Format, "disk", base.VirtualSize)
	return base, nil
}

// accept checks a complete file and gives it the name of an image.
func (c *Cache) accept(meta image.Image, part, wanted string) (Base, error) {
	sum, err := verify(meta, part)
	if err != nil {
		return Base{}, err
	}
	if wanted != "" && sum != wanted {
		return Base{}, otherData(meta.ID, sum, wanted)
	}
	base, err := c.inspect(part, diskimage.Format(meta.DiskFormat))
	if err != nil {
		return Base{}, fault.New(fault.KindOf(err), "the image %s cannot be used: %w", meta.ID, err)
	}
	base.Path, base.SHA512 = c.path(meta.ID, string(base.Format)), sum
	err = os.Link(part, base.Path) // never over the copy of another host that shares the directory
	if err == nil {
		err = c.record(meta.ID, sum)
	} else if errors.Is(err, os.ErrExist) {
		if base.SHA512, err = c.sum(meta.ID, base.Path); err == nil && base.SHA512 != sum {
			err = otherData(meta.ID, sum, base.SHA512)
		}
	}
	if err == nil {
		err = os.Remove(part)
	}
	return base, fault.Wrap("", err)
}

// download completes a file with the data of an image.
func (c *Cache) download(ctx context.Context, meta image.Image, part string) error {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer f.Close()
	if err := f.Chmod(0o644); err != nil { // QEMU reads it, whatever the mask of modes of the service is
		return fault.Wrap(fault.Unavailable, err)
	}
	offset, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if meta.Size > 0 && offset >= meta.Size {
		offset = 0 // it is complete and was not accepted, or belongs to another version
	}
	body, from, err := c.source.Download(ctx, meta.ID, offset)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := f.Truncate(from); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	limit := int64(1) << 62
	if meta.Size > 0 {
		limit = meta.Size - from + 1 // one more shows that the image is larger than declared
	}
	sparse := &diskimage.SparseWriter{To: f, Offset: from}
	counted, done := c.count(sparse, meta.ID, meta.Size, from)
	defer done()
	_, err = io.Copy(counted, io.LimitReader(body, limit))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.New(fault.Unavailable, "the image %s does not fit on this host's disk: %w; free space in %s",
			meta.ID, errors.Join(err, os.Remove(part)), c.dir)
	}
	if size := f.Truncate(sparse.Offset); err == nil {
		err = size
	}
	if err == nil {
		err = f.Sync()
	}
	return fault.Wrap(fault.Unavailable, err) // what is there is kept: the next call continues
}

// touch makes now the time of the last use of a copy.
func (c *Cache) touch(path string) {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		c.log.Warn("time of the last use of an image not recorded", "file", path, "error", err)
	}
}
