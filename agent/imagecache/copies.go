package imagecache

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// unfinished begins the suffix of a download that is not complete.
const unfinished = "part"

// sumSuffix is the suffix of the file with the SHA-512 sum of an image's copy.
const sumSuffix = "sha512"

// Copy is what a cache has of one image.
type Copy struct {
	Image    string    // UUID
	Files    []string  // their names
	Bytes    int64     // on the disk, without holes
	LastUsed time.Time // by a guest, or by a call of Get
	Complete bool      // false: its download was interrupted or is in progress
	Used     bool      // a disk of a guest refers to it
}

// Copies returns what the cache in a directory has, the least recently used first. used reports whether a guest uses a
// copy with a file name.
func Copies(dir string, used func(name string) bool) ([]Copy, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	found := map[string]*Copy{}
	for _, e := range entries {
		id, suffix, ok := ownFile(e.Name())
		if !ok {
			continue
		}
		status, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err)
		}
		one := found[id]
		if one == nil {
			one = &Copy{Image: id}
			found[id] = one
		}
		one.Files = append(one.Files, e.Name())
		one.Bytes += allocated(status)
		one.Used = one.Used || used(e.Name())
		one.Complete = one.Complete || suffix == string(diskimage.QCOW2) || suffix == string(diskimage.Raw)
		if status.ModTime().After(one.LastUsed) {
			one.LastUsed = status.ModTime()
		}
	}
	all := make([]Copy, 0, len(found))
	for _, one := range found {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Copy) int {
		if order := a.LastUsed.Compare(b.LastUsed); order != 0 {
			return order
		}
		return strings.Compare(a.Image, b.Image)
	})
	return all, nil
}

// ownFile splits the name of a file of the cache; ok is false for another file.
func ownFile(name string) (id, suffix string, ok bool) {
	id, suffix, _ = strings.Cut(name, ".")
	known := strings.HasPrefix(suffix, unfinished) || suffix == sumSuffix || suffix == string(diskimage.QCOW2) ||
		suffix == string(diskimage.Raw)
	return id, suffix, known && uuid.Validate(id) == nil
}

// allocated returns how many bytes of the disk a file takes.
func allocated(status fs.FileInfo) int64 {
	if system, ok := status.Sys().(*syscall.Stat_t); ok {
		return system.Blocks * 512
	}
	return status.Size()
}
