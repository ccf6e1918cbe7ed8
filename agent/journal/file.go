package journal

import (
	"errors"
	"fmt"
	"io/fs"
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
	const op = "journal.Open"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot open the lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, readErr := os.ReadFile(path)
		if readErr != nil || len(pid) == 0 {
			pid = []byte("unknown")
		}
		f.Close()
		return nil, fault.New(fault.Conflict, op, "another agent (process %s) has %s locked; stop it, or %s",
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
		return nil, fault.New(fault.Unavailable, op, "cannot lock %s: %w", path, err)
	}
	return f, nil
}

// readFile reads a journal; a missing file is an empty journal.
func readFile(path string) (content, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{state: State{}.clone()}, nil
	}
	if err != nil {
		return content{}, fault.New(fault.Unavailable, "journal.Open", "cannot read the journal: %w", err)
	}
	return parse(path, data)
}

// appendSynced appends a line and returns when it is on the disk.
func appendSynced(f *os.File, line []byte) error {
	_, err := f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fault.New(fault.Unavailable, "journal.write",
			"cannot write to the journal; check the disk (full? read-only?): %w", err)
	}
	return nil
}

// unfinished is the suffix of a file that is being written.
const unfinished = ".new"

// replaceFile writes data beside path, syncs it, renames it over path and syncs the directory: after a crash the path
// has either the whole old content or the whole new one. It returns the new file open for appending. After a fault it
// leaves no file beside path.
func replaceFile(path string, data []byte) (*os.File, error) {
	fresh := path + unfinished
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "journal.replace", "cannot create a new journal: %w", err)
	}
	if err = appendSynced(f, data); err == nil {
		err = os.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		_ = os.Remove(fresh) // an incomplete file is useless and may fill the disk
		return nil, fault.New(fault.Unavailable, "journal.replace", "cannot replace the journal: %w", err)
	}
	return f, nil
}

// removeUnfinished removes the incomplete new journal of a process that was killed.
func removeUnfinished(path string) error {
	if err := os.Remove(path + unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "journal.Open", "cannot remove an unfinished journal: %w", err)
	}
	return nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// LockHost excludes a second agent of a host on this machine, whatever directory it uses. The kernel releases the lock
// when the process ends. The fault is Conflict and names the process that has it.
func LockHost(dir, host string) (*os.File, error) {
	return acquireLock(filepath.Join(dir, "agent-"+url.PathEscape(host)+".lock"),
		"give this host another name: one agent serves a host")
}
