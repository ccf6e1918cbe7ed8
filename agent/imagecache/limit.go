package imagecache

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// restTime is how long a copy remains after its last use, whatever the limit is: another host that shares the directory
// may be making a disk from it.
const restTime = 10 * time.Minute

// Bytes returns how much of the disk the cache takes.
func (c *Cache) Bytes() (sum int64, err error) {
	all, err := Copies(c.dir, func(string) bool { return false })
	for _, one := range all {
		sum += one.Bytes
	}
	return sum, err
}

// Shrink removes copies, the least recently used first, until the cache takes at most most bytes. A copy that a guest
// uses, that another call works on or that was used within restTime remains, so the cache may take more afterwards.
// used is that of RemoveUnused. It returns the names of the removed files, and what the cache takes.
func (c *Cache) Shrink(used func(name string) bool, now time.Time, most int64) (removed []string, left int64,
	err error) {
	all, err := Copies(c.dir, used)
	for _, one := range all {
		left += one.Bytes
	}
	for _, one := range all {
		if left <= most || err != nil {
			break
		}
		if one.Used || now.Sub(one.LastUsed) < restTime || !c.tryAcquire(one.Image) {
			continue
		}
		err = c.removeCopy(one)
		c.release(one.Image)
		if err == nil {
			removed, left = append(removed, one.Files...), left-one.Bytes
		}
	}
	return removed, left, fault.Wrap(fault.Unavailable, err)
}

// removeCopy removes the files of a copy. The sum is the last one: without the copy it says of which data disks were
// made.
func (c *Cache) removeCopy(one Copy) error {
	slices.SortFunc(one.Files, func(a, b string) int {
		sumOf := func(name string) int {
			if strings.HasSuffix(name, "."+sumSuffix) {
				return 1
			}
			return 0
		}
		return sumOf(a) - sumOf(b)
	})
	for _, name := range one.Files {
		if err := os.Remove(c.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
