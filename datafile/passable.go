package datafile

import "os"

// MakePassable makes a directory that other users can pass through, if it does not exist. It gives an existing one the
// right to pass, if that is missing. The mask of modes of the process, which may be stricter, does not change this.
func MakePassable(path string) error {
	const passable = 0o711
	if err := os.MkdirAll(path, passable); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o011 == 0o011 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()|passable)
}
