package datafile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// GiveAs gives a file the owner and the group of another file or directory, if they differ.
func GiveAs(path, like string) error {
	var own, other syscall.Stat_t
	if err := errors.Join(syscall.Stat(path, &own), syscall.Stat(like, &other)); err != nil {
		return err
	}
	if own.Uid == other.Uid && own.Gid == other.Gid {
		return nil
	}
	return os.Chown(path, int(other.Uid), int(other.Gid))
}

// ReplaceKept replaces the content of a file durably, and keeps its owner, its group and its mode. A new file gets this
// mode, and the owner and the group of its directory. The target of a symbolic link is replaced, not the link.
func ReplaceKept(path string, content []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	like := filepath.Dir(path)
	if info, err := os.Stat(path); err == nil {
		like, mode = path, info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := path + Unfinished
	_ = os.Remove(unfinished) // of a process that was killed; its mode would remain
	err := os.WriteFile(unfinished, content, 0o600)
	if err == nil {
		err = GiveAs(unfinished, like)
	}
	if err == nil {
		err = os.Chmod(unfinished, mode)
	}
	if err == nil {
		err = Complete(path)
	}
	if err != nil {
		_ = os.Remove(unfinished)
	}
	return err
}
