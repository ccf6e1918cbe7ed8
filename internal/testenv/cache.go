package testenv

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Fill fills an empty directory with files that take long to make and are always equal, such as a database with its
// tables. make makes them there; all later calls with the same key, also of other processes, copy what it made, with
// owners and modes. The key must name the program that makes them, its arguments and what else they depend on: Fill
// adds the version of the program. It returns the error of make.
func Fill(dir, program string, key []string, make func() error) error {
	cache, unlock, err := lockCache(program, key)
	if err != nil { // the files are made as without a cache
		return make()
	}
	defer unlock()
	if exec.Command("cp", "-a", cache+"/.", dir).Run() == nil {
		return nil
	}
	if err := make(); err != nil {
		return err
	}
	draft := cache + ".new"
	if os.RemoveAll(draft) != nil || exec.Command("cp", "-a", dir, draft).Run() != nil {
		return nil // the next call makes them again
	}
	_ = os.Rename(draft, cache) // as above
	return nil
}

// Shared returns a path for a file that all tests of the machine share, and locks it for this process until unlock is
// called. The file may not exist.
func Shared(name string) (path string, unlock func(), err error) {
	parent, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	parent = filepath.Join(parent, "berth-tests")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	path = filepath.Join(parent, name)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	unlock = func() { _ = lock.Close() } // nothing was written
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		unlock()
		return "", nil, err
	}
	return path, unlock, nil
}

// lockCache returns the directory for files of a program, which may not exist, and locks it for this process.
func lockCache(program string, key []string) (dir string, unlock func(), err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", nil, err
	}
	version, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	name := sha256.Sum256(fmt.Append(nil, path, version.Size(), version.ModTime(), strings.Join(key, "\n")))
	return Shared(fmt.Sprintf("%s-%x", filepath.Base(program), name[:8]))
}
