package datafile

import (
	"errors"
	"os"
	"path/filepath"
)

// Unfinished ends the name of a file that is being written. A file with it that nothing writes is useless: its process
// was killed.
const Unfinished = ".new"

// Replace writes content to a file that only its owner can use: under its unfinished name, which Complete ends. After
// an error the unfinished file is removed, because it may fill the disk.
func Replace(path string, content []byte) error {
	err := os.WriteFile(path+Unfinished, content, 0o600)
	if err == nil {
		err = Complete(path)
	}
	if err != nil {
		_ = os.Remove(path + Unfinished)
	}
	return err
}

// Complete gives a file that was written as path+Unfinished the name path. It returns after the content and the name
// are on the disk, so that after a power failure path has either the whole old content or the whole new one.
func Complete(path string) error {
	err := Sync(path + Unfinished)
	if err == nil {
		err = os.Rename(path+Unfinished, path)
	}
	if err == nil {
		err = Sync(filepath.Dir(path))
	}
	return err
}

// Sync returns after the content of a file is on the disk, or that of a directory, which is the names in it.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
