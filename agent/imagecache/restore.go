package imagecache

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// Restore downloads the copy of an image again if its file, which a guest's disk names, has vanished. sha512 is the sum
// of the copy that the disk was made from; if it is empty, the sum that the cache has recorded counts, and without that
// the one of the image service. A file that the cache would not make is left alone. The copy is never replaced by other
// data: the disk would be damaged. Faults as those of Get; Conflict also if the image service has other data.
func (c *Cache) Restore(ctx context.Context, path, sha512 string) error {
	id, suffix, _ := strings.Cut(filepath.Base(path), ".")
	format := diskimage.Format(suffix)
	if filepath.Dir(path) != filepath.Clean(c.dir) || uuid.Validate(id) != nil ||
		format != diskimage.QCOW2 && format != diskimage.Raw {
		return nil
	}
	if err := c.acquire(ctx, id); err != nil {
		return err
	}
	defer c.release(id)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(fault.Unavailable, err)
	}
	if sha512 == "" {
		sha512 = c.recorded(id)
	}
	err := c.restore(ctx, id, format, sha512)
	if err == nil {
		c.log.Warn("missing copy of an image downloaded again", "image", id, "file", path)
		return nil
	}
	return fault.New(fault.KindOf(err), "the copy %s of an image, which the guest's disk needs, is "+
		"missing and cannot be downloaded again: %w; copy the file from another host or from a backup%s", path, err,
		withSum(sha512))
}

// withSum names the sum of a file, if it is known.
func withSum(sha512 string) string {
	if sha512 == "" {
		return ""
	}
	return "; its SHA-512 sum is " + sha512
}

// restore downloads an image that must have a format and a sum.
func (c *Cache) restore(ctx context.Context, id string, format diskimage.Format, sha512 string) error {
	meta, err := c.lookUp(ctx, id)
	switch {
	case err != nil:
		return err
	case meta.DiskFormat != string(format):
		return fault.New(fault.Conflict, "the image service has the image %s in the format %q", id,
			meta.DiskFormat)
	}
	_, err = c.fetch(ctx, meta, sha512)
	return err
}

// otherData is the fault of an image that is not the one of which a disk was made.
func otherData(id, have, wanted string) error {
	return fault.New(fault.Conflict, "the image service has other data of the image %s, with the "+
		"SHA-512 sum %s instead of %s", id, have, wanted)
}

// SumFile returns the path of the file with the SHA-512 sum of a copy of an image.
func SumFile(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + "." + sumSuffix
}

// record stores the sum of an image's copy.
func (c *Cache) record(id, sha512 string) error {
	return datafile.Replace(c.path(id, sumSuffix), []byte(sha512+"\n"))
}

// sum returns the recorded sum of an image's copy. That of a copy without one, such as of an earlier version, is
// computed and recorded: disks are made from this file, whatever the image service has.
func (c *Cache) sum(id, path string) (string, error) {
	if sum := c.recorded(id); sum != "" {
		return sum, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	defer file.Close()
	own := sha512.New()
	if _, err := io.Copy(own, file); err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	sum := hex.EncodeToString(own.Sum(nil))
	return sum, fault.Wrap(fault.Unavailable, c.record(id, sum))
}

// recorded returns the recorded sum of an image's copy; empty: it is not known.
func (c *Cache) recorded(id string) string {
	text, err := os.ReadFile(c.path(id, sumSuffix))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
