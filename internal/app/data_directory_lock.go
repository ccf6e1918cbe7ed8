package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/openberth/berth/fault"
)

// Lock locks the state of services in a data directory for one process, by a file for each service, because two
// processes would execute every step of a server twice. It creates the directory if necessary. Close releases the
// locks; so does the kernel when the process ends. The fault is Conflict if another process has one of them; then none
// is held.
func Lock(dir string, names ...string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot create the data directory: %w", err)
	}
	held := locks{id: lockID(dir)}
	for _, name := range names {
		f, err := lockFile(dir, name)
		if err != nil {
			return nil, errors.Join(err, held.Close())
		}
		held.files = append(held.files, f)
		if name == ComputeLock {
			computeLocks.add(held.id, 1)
		}
	}
	return held, nil
}

// locks are the locked files of a directory.
type locks struct {
	id    string
	files []*os.File
}

// Close releases the locks.
func (l locks) Close() error {
	var failed []error
	for _, f := range l.files {
		if filepath.Base(f.Name()) == ComputeLock {
			computeLocks.add(l.id, -1)
		}
		failed = append(failed, f.Close())
	}
	return errors.Join(failed...)
}

// computeLocks are the locks of this process for the state of compute.
var computeLocks lockCounts

// lockCounts counts the locks of this process by lockID.
type lockCounts struct {
	mu    sync.Mutex
	locks map[string]int
}

func (p *lockCounts) add(id string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.locks == nil {
		p.locks = map[string]int{}
	}
	if p.locks[id] += n; p.locks[id] <= 0 {
		delete(p.locks, id)
	}
}

// only returns the id if there is exactly one, or an empty string.
func (p *lockCounts) only() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.locks {
		if len(p.locks) == 1 {
			return id
		}
	}
	return ""
}

// lockFile locks one file of a data directory.
func lockFile(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot lock the data directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, readErr := io.ReadAll(io.LimitReader(f, 100))
		return nil, errors.Join(fault.New(fault.Conflict, "the data directory %s has the state of the service %s, which "+
			"is in use by another berth (%s); stop that process first, or choose another directory with --data-dir",
			dir, strings.TrimSuffix(name, filepath.Ext(name)), strings.TrimSpace(string(holder))), readErr, f.Close())
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintf(f, "process %d\n", os.Getpid())
		}
	}
	if err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "cannot lock %s: %w", path, err), f.Close())
	}
	return f, nil
}
