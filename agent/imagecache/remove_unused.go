package imagecache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// RemoveUnused removes the copies, and the interrupted downloads, that no guest has used for an age. used reports
// whether a guest uses a copy with this file name; then its time of last use becomes now. Files that the cache has not
// made remain. It returns the names of the removed files.
func (c *Cache) RemoveUnused(used func(name string) bool, now time.Time, age time.Duration) (removed []string,
	err error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	var failed []error
	for _, e := range entries {
		id, suffix, ok := ownFile(e.Name())
		if !ok || !c.tryAcquire(id) {
			continue
		}
		inUse := used(e.Name())
		if suffix == sumSuffix {
			inUse = used(id+"."+string(diskimage.QCOW2)) || used(id+"."+string(diskimage.Raw))
		}
		gone, err := c.removeOne(e.Name(), inUse, now, age)
		c.release(id)
		if gone {
			removed = append(removed, e.Name())
		}
		failed = append(failed, err)
	}
	return removed, fault.Wrap(fault.Unavailable, errors.Join(failed...))
}

// removeOne removes a file that was last used before an age, and reports whether it did.
func (c *Cache) removeOne(name string, used bool, now time.Time, age time.Duration) (removed bool, err error) {
	path := filepath.Join(c.dir, name)
	if used {
		return false, os.Chtimes(path, now, now)
	}
	status, err := os.Stat(path)
	if err != nil || now.Sub(status.ModTime()) < age {
		return false, err
	}
	err = os.Remove(path)
	return err == nil, err
}

// tryAcquire is acquire without waiting. It reports whether no other call works on the image.
func (c *Cache) tryAcquire(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[id] != nil {
		return false
	}
	c.busy[id] = make(chan struct{})
	return true
}
