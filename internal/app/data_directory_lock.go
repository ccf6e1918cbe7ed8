package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/openberth/berth/fault"
)

// Lock locks a data directory for one process, because two processes would execute every step of a server twice. It
// creates the directory if necessary. Close releases the lock; so does the kernel when the process ends.
func Lock(dir string) (io.Closer, error) {
	const op = "app.Lock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot create the data directory: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot lock the data directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, readErr := io.ReadAll(io.LimitReader(f, 100))
		return nil, errors.Join(fault.New(fault.Conflict, op, "the data directory %s is in use by another berth (%s); stop "+
			"that process first, or choose another directory with --data-dir",
			dir, strings.TrimSpace(string(holder))), readErr, f.Close())
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintf(f, "process %d\n", os.Getpid())
		}
	}
	if err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, op, "cannot lock %s: %w", path, err), f.Close())
	}
	return f, nil
}
