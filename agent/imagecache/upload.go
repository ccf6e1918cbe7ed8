package imagecache

import (
	"context"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"os"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
)

// Target is an image service that accepts data. Received returns how many bytes it has of an image without data, if it
// can continue an upload. Conflict: another upload is in progress.
type Target interface {
	Received(ctx context.Context, id string) (int64, error)
	Upload(ctx context.Context, id string, data io.Reader, from, total int64) error
}

const (
	uploads = 2 // at a time; the others wait
	// how often an image service may refuse data because it receives them from another upload: one that has ended without
	// its notice. A Glance that was killed never accepts them again.
	conflicts = 10
)

// Upload makes a file the data of an image that has none, and returns them when the image service has recorded their
// size and checksum. With resume, the file is the one of an earlier call, and the upload continues. The file must not
// change. Faults: Unavailable when a later call may succeed; all others are final.
func (c *Cache) Upload(ctx context.Context, id, path string, resume bool) (hypervisor.ImageData, error) {
	none := hypervisor.ImageData{}
	target, able := c.source.(Target)
	if !able {
		return none, fault.New(fault.Conflict, "the host has no image service; configure [glance]")
	}
	select {
	case c.uploading <- struct{}{}:
		defer func() { <-c.uploading }()
	case <-ctx.Done():
		return none, fault.Wrap(fault.Unavailable, context.Cause(ctx))
	}
	f, err := os.Open(path)
	if err != nil {
		return none, fault.Wrap(fault.Unavailable, err)
	}
	defer f.Close()
	local, md5sum, err := sumsOf(ctx, f)
	if err != nil {
		return none, fault.Wrap(fault.Unavailable, err)
	}
	meta, err := c.source.Image(ctx, id)
	if err == nil && meta.Status != image.Active {
		if meta.Status != "queued" && meta.Status != "saving" {
			return none, fault.New(fault.Conflict, "the image %s has the status %s", id, meta.Status)
		}
		if err = c.send(ctx, target, f, local, id, resume); err == nil {
			meta, err = c.source.Image(ctx, id)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return none, fault.New(fault.NotFound, "the image %s for its disk was deleted meanwhile: %w", id, err)
	}
	if err != nil {
		return none, err
	}
	return local, compare(meta, local, md5sum)
}

// send sends a file to an image without data.
func (c *Cache) send(ctx context.Context, target Target, f *os.File, local hypervisor.ImageData, id string,
	resume bool) (err error) {
	from := int64(0)
	if resume {
		if from, err = target.Received(ctx, id); err != nil {
			return err
		}
	}
	if from >= local.Bytes { // all of it, and the answer was lost; or what another file had
		from = 0
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	c.log.Info("disk upload begun", "image", id, "bytes", local.Bytes, "from", from)
	sent := &progress{Writer: io.Discard, size: local.Bytes, upload: true}
	sent.received.Store(from)
	defer c.track(id, sent)()
	err = target.Upload(ctx, id, io.TeeReader(f, sent), from, local.Bytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !fault.Is(err, fault.Conflict) {
		delete(c.conflicts, id)
		return err
	}
	if c.conflicts[id]++; c.conflicts[id] >= conflicts {
		delete(c.conflicts, id)
		return err
	}
	return fault.New(fault.Unavailable, "the image service does not accept the data yet: %w", err)
}

// sumsOf returns the size and the checksums of a file.
func sumsOf(ctx context.Context, f *os.File) (all hypervisor.ImageData, md5sum string, err error) {
	long, short := sha512.New(), md5.New()
	all.Bytes, err = io.Copy(io.MultiWriter(long, short), readerUntil{ctx, f})
	all.SHA512 = hex.EncodeToString(long.Sum(nil))
	return all, hex.EncodeToString(short.Sum(nil)), err
}

// readerUntil is a reader that fails when its context has ended.
type readerUntil struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r readerUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// compare returns fault.Conflict unless the image service has recorded the size and a checksum of the data.
func compare(meta image.Image, local hypervisor.ImageData, md5sum string) error {
	algorithm, has, want := meta.HashAlgo, meta.HashValue, local.SHA512
	if algorithm != "sha512" || has == "" {
		algorithm, has, want = "md5", meta.Checksum, md5sum
	}
	switch {
	case meta.Status != image.Active:
		return fault.New(fault.Unavailable, "the image %s has the status %s after its upload", meta.ID, meta.Status)
	case meta.Size != local.Bytes:
		return fault.New(fault.Conflict, "the image %s has %d bytes, and the disk has %d", meta.ID, meta.Size,
			local.Bytes)
	case !strings.EqualFold(has, want):
		return fault.New(fault.Conflict, "the image %s has the %s checksum %q, and the disk has %s", meta.ID,
			algorithm, has, want)
	}
	return nil
}
