package settings

import (
	"io/fs"
	"os"

	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/fault"
)

// SampleSysfs is the path that selects the captured machine in the binary.
const SampleSysfs = "sample"

// OpenSysfs opens the value of [berth] sysfs: a directory with the layout of /sys, or a captured machine.
func OpenSysfs(path string) (fs.FS, error) {
	if path == SampleSysfs {
		return sysfs.Sample()
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.NotFound, "cannot read %s: %w", path, err)
	}
	if info.IsDir() {
		fsys := os.DirFS(path)
		return fsys, sysfs.Check(fsys, path)
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot read the captured machine: %w", err)
	}
	return sysfs.Load(archive)
}
