package datafile

import (
	"os"

	"github.com/openberth/berth/fault"
)

// Narrow removes all rights of group and others from a file or directory; changed reports whether there were any.
// fault.Forbidden: the rights cannot be changed, because another user owns the file.
func Narrow(path string) (changed bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fault.New(fault.Unavailable, "cannot look at the file: %w", err)
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return false, nil
	}
	if err := os.Chmod(path, mode&^0o077); err != nil {
		return false, fault.New(fault.Forbidden, "other users may use %s (mode %04o), and this process cannot "+
			"change that: %w; "+
			"give it to the user that Berth runs as, or run `chmod go= %s` as its owner", path, mode, err, path)
	}
	return true, nil
}
