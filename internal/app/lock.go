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

// Lock takes a data directory for one process: two that carry out the same servers' steps would do everything twice. It makes the directory
// if need be. The kernel gives the lock back when the process ends, however it ends; Close does so earlier.
func Lock(dir string) (io.Closer, error) {
	const op = "app.Lock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot make the data directory: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot lock the data directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, readErr := io.ReadAll(io.LimitReader(f, 100))
		return nil, errors.Join(fault.New(fault.Conflict, op, "the data directory %s is in use by another berth (%s); end it first, or give this one another with --data-dir",
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
