package settings

import "github.com/openberth/berth/agent/sysfs"

// Snapshot returns the machine at path as a text archive.
func Snapshot(path string) ([]byte, error) {
	fsys, err := OpenSysfs(path)
	if err != nil {
		return nil, err
	}
	text, err := sysfs.Capture(fsys)
	if err != nil {
		return nil, machineFault(path, err)
	}
	return text, nil
}
