package journal

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/openberth/berth/fault"
)

// acquireLock opens the lock file and takes its flock(2), which the kernel releases when the process ends in any way.
// advice is what the user must do if another process has it.
func acquireLock(path, advice string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot open the lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, readErr := os.ReadFile(path)
		if readErr != nil || len(pid) == 0 {
			pid = []byte("unknown")
		}
		f.Close()
		return nil, fault.New(fault.Conflict, "another agent (process %s) has %s locked; stop it, or %s",
			strings.TrimSpace(string(pid)), path, advice)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		// Only for the message above; the flock is the lock.
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, fault.New(fault.Unavailable, "cannot lock %s: %w", path, err)
	}
	return f, nil
}

// LockHost excludes a second agent of a host on this machine, whatever directory it uses. The kernel releases the lock
// when the process ends. The fault is Conflict and names the process that has it.
func LockHost(dir, host string) (*os.File, error) {
	return acquireLock(filepath.Join(dir, "agent-"+url.PathEscape(host)+".lock"),
		"give this host another name: one agent serves a host")
}
