package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// limitCheck is the time between two measurements of the images, which are compared with their limit.
const limitCheck = time.Minute

// Maintain measures the copies of images, until ctx ends, and removes those that no guest uses any more: those that
// have been unused for long after each interval, and more whenever all copies take more than their limit.
func (d *Driver) Maintain(ctx context.Context) {
	if d.o.Images == nil {
		return
	}
	removes, pause := d.o.Cleanup.Every > 0, limitCheck
	if removes {
		pause = min(d.o.Cleanup.Every, limitCheck)
	}
	measureImages(d, time.Now())
	due := time.Now().Add(d.o.Cleanup.Every)
	for backoff.Sleep(ctx, pause) == nil {
		over := measureImages(d, time.Now())
		full := removes && !time.Now().Before(due)
		if !full && !over {
			continue
		}
		if full {
			due = time.Now().Add(d.o.Cleanup.Every)
		}
		if err := removeUnusedImages(d, time.Now()); err != nil {
			d.o.Log.Warn("unused images not removed, will retry", "error", err)
		}
		measureImages(d, time.Now())
	}
}

// measureImages records the size of the images, and reports whether they take more than their limit. Without a result
// the last one remains; the next search for unused images reports the error.
func measureImages(d *Driver, now time.Time) (over bool) {
	bytes, err := d.o.Images.Bytes()
	if err != nil {
		return false
	}
	size := hypervisor.ImageCache{Bytes: bytes}
	if d.o.Cleanup.Every > 0 { // otherwise no copies are removed
		size.Limit = d.o.Cleanup.Most
	}
	d.last.Store(&measured{size, now})
	return size.Limit > 0 && bytes > size.Limit
}

// removeUnusedImages removes copies that are not the backing file of a disk. While a disk is being made, it removes
// nothing: the disk may not have its backing file yet.
func removeUnusedImages(d *Driver, now time.Time) error {
	if !d.making.TryLock() {
		return nil
	}
	defer d.making.Unlock()
	used, err := UsedImages(d)
	if err != nil {
		return err
	}
	removed, err := d.o.Images.RemoveUnused(used, now, d.o.Cleanup.Age)
	for _, name := range removed {
		d.o.Log.Info("unused image removed", "file", name)
	}
	if err != nil || d.o.Cleanup.Most <= 0 {
		return err
	}
	removed, left, err := d.o.Images.Shrink(used, now, d.o.Cleanup.Most)
	for _, name := range removed {
		d.o.Log.Info("image removed, all took more than the limit", "file", name)
	}
	if left > d.o.Cleanup.Most {
		d.o.Log.Debug("images take more than the limit, and are used", "bytes", left, "limit", d.o.Cleanup.Most)
	}
	return err
}

// UsedImages returns a function that reports whether the disk of a guest refers to a copy of an image, by its file
// name. It calls no service.
func UsedImages(d *Driver) (used func(name string) bool, err error) {
	backing, err := backingFiles(d)
	return func(name string) bool { return strings.Contains(backing, name) }, err
}

// backingFiles returns the names of the backing files of all disks of guests, each on a line, also of other hosts that
// share the copies of images. The disks are what counts, not the definitions: a rebuild makes a disk before it changes
// the definition, and an administrator may have made snapshots.
func backingFiles(d *Driver) (string, error) {
	hosts, err := d.allDirs()
	if err != nil {
		return "", err
	}
	var files []string
	for _, host := range hosts {
		dirs, err := match(host, "*")
		for _, dir := range dirs {
			some, failed := match(dir, "*")
			if !errors.Is(failed, syscall.ENOTDIR) && !errors.Is(failed, syscall.ELOOP) { // it has no disk of a guest
				err = errors.Join(err, failed)
			}
			files = append(files, some...)
		}
		if err != nil {
			return "", fault.Wrap(fault.Unavailable, err)
		}
	}
	var all strings.Builder
	for _, file := range files {
		name, err := backingFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its guest was destroyed meanwhile
		}
		if err != nil {
			return "", fault.New(fault.Unavailable, "the backing file of %s cannot be read: %w", file,
				err)
		}
		all.WriteString(name + "\n")
	}
	return all.String(), nil
}

// fileBelow returns the path of the backing file of a disk; empty for a file without one.
func fileBelow(disk string) (string, error) {
	name, err := backingFile(disk)
	return besides(disk, name), err
}

// besides returns the path of a backing file whose name in the header of a disk may be relative to that.
func besides(disk, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(disk), name)
}

// backingFile returns the name of the backing file in the header of a qcow2 file; empty for a file without one, and for
// a file of another format.
func backingFile(path string) (string, error) {
	// To open a FIFO would wait for its writer.
	if status, err := os.Stat(path); err != nil || !status.Mode().IsRegular() {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 20) // magic, version, offset and length of the name
	if _, err := f.ReadAt(head, 0); errors.Is(err, io.EOF) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	const longest = 1023
	length := binary.BigEndian.Uint32(head[16:])
	if string(head[:4]) != "QFI\xfb" || length == 0 {
		return "", nil
	}
	if length > longest {
		return "", errors.New("the name in its header is longer than 1023 bytes")
	}
	name := make([]byte, length)
	_, err = f.ReadAt(name, int64(binary.BigEndian.Uint64(head[8:])))
	return string(name), err
}
