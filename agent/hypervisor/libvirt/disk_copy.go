package libvirt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// incomingDir has the disks that are copied to this host until their guests are defined: for each a file, and the
// record of the copy.
const incomingDir = "incoming"

// syncEvery is how many bytes are copied between two records of the progress.
const syncEvery = 64 << 20

// copyRecord is the stored state of a copy. The names in the tags are its format.
type copyRecord struct {
	Host     string `json:"host"` // from which it is copied
	Guest    string `json:"guest"`
	Path     string `json:"path"` // of the file there
	Size     int64  `json:"size"`
	Changed  string `json:"changed"`            // when the file there was last written
	Copied   int64  `json:"copied"`             // bytes that are durable here
	Verified bool   `json:"verified,omitempty"` // the copy was compared with the file there; it may be changed since
	Backing  string `json:"backing,omitempty"`  // with Verified: the file below it there, if it is an overlay
}

// copier copies one file of a source to this host.
type copier struct {
	from     sourceFile
	record   copyRecord
	to       string // path of the copy; its record has the suffix .json
	progress *transferProgress
}

// run copies the file, or the part that an earlier copier has not copied, and compares the copy with the source. Holes
// stay holes. The fault is Conflict if this host has no room; otherwise Unavailable, and another run continues.
func (c *copier) run(ctx context.Context) error {
	now, err := c.from.state(ctx)
	if err != nil {
		return c.unavailable(err)
	}
	c.record.Size, c.record.Changed = now.Size, now.Changed
	if stored := c.load(); stored.sameFile(c.record) {
		c.record = stored
	}
	if c.record.Verified {
		return nil
	}
	file, err := c.open()
	if err != nil {
		return c.unavailable(err)
	}
	defer file.Close()
	if err := c.copy(ctx, file); err != nil {
		return c.unavailable(err)
	}
	if err := c.compare(ctx, file); err != nil {
		return c.unavailable(err)
	}
	again, err := c.from.state(ctx)
	if err == nil && again != now {
		c.forget()
		err = errors.New("the file has changed while it was copied")
	}
	if err == nil {
		c.record.Backing, err = backingFile(c.to)
	}
	if err != nil {
		return c.unavailable(err)
	}
	c.record.Verified = true
	return c.unavailable(c.store())
}

// open opens the copy. What an earlier copier has left without a record of its content is never written: it may be the
// second name of a disk that is in use by now.
func (c *copier) open() (*os.File, error) {
	if c.record.Copied > 0 {
		return os.OpenFile(c.to, os.O_RDWR, 0)
	}
	if err := remove(c.to); err != nil {
		return nil, err
	}
	return os.OpenFile(c.to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// load returns the stored record; a missing or unreadable one is of no file.
func (c *copier) load() (stored copyRecord) {
	text, err := os.ReadFile(c.to + recordSuffix)
	if err != nil || json.Unmarshal(text, &stored) != nil {
		return copyRecord{}
	}
	if _, err := os.Stat(c.to); err != nil {
		return copyRecord{}
	}
	return stored
}

// recordSuffix is that of the file with the record of a copy.
const recordSuffix = ".json"

// sameFile reports whether two records are of the same file with the same content.
func (r copyRecord) sameFile(as copyRecord) bool {
	r.Copied, r.Verified, r.Backing = as.Copied, as.Verified, as.Backing
	return r == as
}

// unavailable gives an error its kind and names the file.
func (c *copier) unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case isFull(err):
		return fault.New(fault.Conflict, "the disk %s of host %s does not fit on this host: %w; free space in "+
			"[DEFAULT] instances_path", c.record.Path, c.record.Host, err)
	}
	return fault.New(fault.Unavailable, "the disk %s of host %s cannot be copied: %w", c.record.Path,
		c.record.Host, err)
}

// isFull reports whether an error is that of a file system, or of the quota of a user, without space.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// copy writes what is missing.
func (c *copier) copy(ctx context.Context, file *os.File) error {
	if err := file.Truncate(c.record.Copied); err != nil { // what is after it is not known to be complete
		return err
	}
	at, stored := c.record.Copied, c.record.Copied
	c.progress.set(at, c.record.Size, false)
	err := c.from.read(ctx, at, func(p rpc.Piece) error {
		if _, err := file.WriteAt(p.Data, at); err != nil {
			return err
		}
		at += int64(len(p.Data)) + p.Hole
		c.progress.set(at, c.record.Size, false)
		if at-stored < syncEvery {
			return nil
		}
		stored = at
		return c.sync(file, at)
	})
	if err == nil && at != c.record.Size {
		err = fmt.Errorf("it has %d bytes, and %d were received", c.record.Size, at)
	}
	if err != nil {
		return err
	}
	return c.sync(file, at)
}

// sync makes the first bytes of the copy durable, and records that.
func (c *copier) sync(file *os.File, bytes int64) error {
	status, err := file.Stat()
	if err == nil && status.Size() < bytes { // it ends with a hole
		err = file.Truncate(bytes)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return err
	}
	c.record.Copied = bytes
	return c.store()
}

// store writes the record.
func (c *copier) store() error {
	text, err := json.Marshal(c.record)
	if err != nil {
		return err
	}
	return datafile.Replace(c.to+recordSuffix, text)
}

// compare reads the file at the source and its copy again, and returns an error if they differ. A copy that differs is
// made again.
func (c *copier) compare(ctx context.Context, file *os.File) error {
	const dontNeed = 4 // POSIX_FADV_DONTNEED: the copy is read from the disk
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0)
	var at int64
	buffer, zeros := make([]byte, 256<<10), make([]byte, 256<<10)
	different := fmt.Errorf("the copy differs from the file")
	equal := func(want []byte, length int64) error {
		for length > 0 {
			part := buffer[:min(length, int64(len(buffer)))]
			if _, err := file.ReadAt(part, at); err != nil {
				return err
			}
			expected := zeros[:len(part)]
			if want != nil {
				expected, want = want[:len(part)], want[len(part):]
			}
			if !bytes.Equal(part, expected) {
				return different
			}
			at, length = at+int64(len(part)), length-int64(len(part))
		}
		return nil
	}
	err := c.from.read(ctx, 0, func(p rpc.Piece) error {
		if err := equal(p.Data, int64(len(p.Data))); err != nil {
			return err
		}
		if err := equal(nil, p.Hole); err != nil {
			return err
		}
		c.progress.set(at, c.record.Size, true)
		return nil
	})
	if err == nil && at != c.record.Size {
		err = different
	}
	if errors.Is(err, different) {
		c.forget()
	}
	return err
}

// forget lets the next run begin with an empty copy.
func (c *copier) forget() {
	c.record.Copied, c.record.Verified, c.record.Backing = 0, false, ""
	if err := os.Remove(c.to + recordSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = c.store()
	}
}
