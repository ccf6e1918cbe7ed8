package libvirt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// baseRecord is what is recorded about the copy of an image that a disk was made from.
type baseRecord struct {
	Path   string `json:"path"`
	SHA512 string `json:"sha512,omitempty"`
}

// baseRecordName returns the file name of the record of a guest's disk.
func baseRecordName(build int) string { return fmt.Sprintf("base-%d.json", build) }

// recordBase stores in the directory of a guest from which copy of an image its disk is made.
func recordBase(dir string, build int, base imagecache.Base) error {
	text, err := json.Marshal(baseRecord{base.Path, base.SHA512})
	if err == nil {
		err = datafile.Replace(filepath.Join(dir, baseRecordName(build)), append(text, '\n'))
	}
	return fault.Wrap(fault.Unavailable, err)
}

// maxChain is the largest number of disks of a guest that are made from each other, of which restoreBase follows the
// names.
const maxChain = 64

// restoreBase downloads the copy of an image again that the disk of a guest was made from, if the copy has vanished.
// The guest may have snapshots of its disk: each names the file below it.
func restoreBase(ctx context.Context, images Images, disk string, g hypervisor.Guest) error {
	if images == nil || disk == "" {
		return nil
	}
	dir := filepath.Dir(disk)
	for range maxChain {
		below, err := fileBelow(disk)
		if err != nil {
			return fault.New(fault.Unavailable, "the disk %s cannot be read: %w", disk, err)
		}
		if below == "" {
			return nil
		}
		if _, err := os.Stat(below); errors.Is(err, fs.ErrNotExist) {
			return images.Restore(ctx, below, recordedSum(filepath.Join(dir, baseRecordName(g.Build)), below))
		}
		disk = below
	}
	return nil
}

// recordedSum returns the sum of a copy in the record of a disk that was made from it; empty: it is not known.
func recordedSum(file, base string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return sumOf(text, base)
}

// sumOf returns the sum of a copy in the content of a record; empty: the record is not of that copy, or lacks the sum.
func sumOf(text []byte, base string) string {
	var record baseRecord
	if json.Unmarshal(text, &record) != nil || record.Path != base {
		return ""
	}
	return record.SHA512
}

// backingFormat returns the format of the file below a disk: that in the header of the disk, or the suffix of the file.
func backingFormat(ctx context.Context, disk, backing string) (string, error) {
	out, err := exec.CommandContext(ctx, "qemu-img", "info", "-U", "-f", "qcow2", "--output=json", disk).Output()
	var info struct {
		Format string `json:"backing-filename-format"`
	}
	if err == nil {
		err = json.Unmarshal(out, &info)
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, "the header of %s cannot be read: %w", disk, err)
	}
	return cmp.Or(info.Format, strings.TrimPrefix(filepath.Ext(backing), ".")), nil
}
