// Package datafile is for files that hold durable state. It replaces them durably, and checks whether a path still
// leads to the file that was opened, and whether only its owner can use it. The checks open no file, because closing a
// file that SQLite has open would release SQLite's locks.
package datafile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/openberth/berth/fault"
)

// State is the file at a path, compared with the file that was there before.
type State string

// The states.
const (
	Same     State = "unchanged"
	Missing  State = "deleted or moved"
	Replaced State = "replaced by another file"
)

// File identifies a file that the process has open. The zero value has no file and is always Same.
type File struct {
	path string
	was  fs.FileInfo
}

// At returns the file at path. The caller must have the file open: otherwise another file can get its inode.
func At(path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return File{}, fault.New(fault.Unavailable, "cannot look at the file: %w", err)
	}
	return File{path, info}, nil
}

// Path returns the path of the file, or "" for the zero value.
func (f File) Path() string { return f.path }

// State compares device and inode of the file with those of the file at its path. It returns an error if they cannot
// be read.
func (f File) State() (State, error) {
	if f.was == nil {
		return Same, nil
	}
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return Missing, nil
	case err != nil:
		return Same, fault.New(fault.Unavailable, "cannot look at the file: %w", err)
	case !os.SameFile(f.was, now):
		return Replaced, nil
	}
	return Same, nil
}
