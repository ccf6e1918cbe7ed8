package sqldb

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/openberth/berth/backoff"
)

// afterWrite is when Written calls: a commit is visible to others only after its part of the log has been written and
// is on the disk.
var afterWrite = []time.Duration{2 * time.Millisecond, 8 * time.Millisecond, 40 * time.Millisecond}

// Written calls each some times soon after a commit to an SQLite database in a file, by this process or another, until
// ctx ends. It returns at once for other databases, and where the file system does not report writes.
func (db *DB) Written(ctx context.Context, each func()) {
	if db.file == "" {
		return
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer context.AfterFunc(ctx, func() { events.Close() })()
	if _, err := syscall.InotifyAddWatch(fd, db.guard.log, syscall.IN_MODIFY); err != nil {
		events.Close()
		return
	}
	buffer := make([]byte, 4096)
	for {
		if _, err := events.Read(buffer); err != nil {
			return // closed
		}
		for _, pause := range afterWrite {
			if backoff.Sleep(ctx, pause) != nil {
				return
			}
			each()
		}
	}
}
