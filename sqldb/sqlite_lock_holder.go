package sqldb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/openberth/berth/fault"
)

// isBusy reports whether SQLite gave up waiting for the lock of a file.
func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// holder is a process that holds a lock for writing on a SQLite file.
type holder struct {
	pid     int
	name    string // of its program; empty if unknown
	stopped bool   // by SIGSTOP or a debugger: it does not release the lock
}

// findHolder finds the process in /proc/locks that writes a SQLite file: it holds a lock on the file itself or, in
// WAL mode, on the -shm file. The pid is 0 if no process is found, as on systems without /proc and for processes of
// another container.
func findHolder(file string) (h holder) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return h
	}
	for _, path := range []string{file, file + "-shm"} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(locks)); lines.Scan(); {
			if pid, inode := writeLock(lines.Text()); pid > 0 && inode == info.Sys().(*syscall.Stat_t).Ino &&
				hasOpen(pid, info) {
				return describe(pid)
			}
		}
	}
	return h
}

// writeLock parses a line of /proc/locks, such as "3: POSIX ADVISORY WRITE 4711 fe:00:1234 120 120". The pid is 0 for
// locks that are not for writing, and for processes that wait for one.
func writeLock(line string) (pid int, inode uint64) {
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[3] != "WRITE" {
		return 0, 0
	}
	place := strings.Split(fields[5], ":")
	inode, err := strconv.ParseUint(place[len(place)-1], 10, 64)
	if err != nil {
		return 0, 0
	}
	pid, err = strconv.Atoi(fields[4])
	if err != nil {
		return 0, 0
	}
	return pid, inode
}

// hasOpen reports whether a process has a file open. It returns true if the process's files cannot be read.
func hasOpen(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	for _, entry := range entries {
		if info, err := os.Stat(dir + entry.Name()); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// describe reads name and state of a process.
func describe(pid int) holder {
	h := holder{pid: pid}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return h
	}
	// "4711 (name) T …": the name may contain parentheses.
	if from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')'); from >= 0 && to > from &&
		to+2 < len(stat) {
		h.name = string(stat[from+1 : to])
		h.stopped = stat[to+2] == 'T' || stat[to+2] == 't'
	}
	return h
}

// locked returns the fault for a SQLite file that another process, or another part of this one, is writing. It names
// the process and what to do.
func (h holder) locked(file string, err error) error {
	who, what := "another process", "find it with `fuser "+file+"` and wait until it ends its transaction, or end it"
	if h.pid > 0 {
		who = fmt.Sprintf("process %d (%s)", h.pid, h.name)
		what = fmt.Sprintf("wait until it ends its transaction, or end it with `kill %d`", h.pid)
	}
	if h.stopped {
		who += ", which is stopped,"
		what = fmt.Sprintf("continue it with `kill -CONT %d` or end it with `kill -KILL %d`", h.pid, h.pid)
	}
	return fault.New(fault.Unavailable, "the SQLite file %s is locked: %s is writing; %s: %w",
		file, who, what, err)
}
