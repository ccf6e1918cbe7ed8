package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/openberth/berth/fault"
)

// logFile is [DEFAULT] log_file. On SIGHUP it opens its path again, for logrotate; no other option is read again.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLog opens a log file for the lifetime of the process.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.reopen(); err != nil {
		return nil, fault.New(fault.Invalid, "[DEFAULT] log_file (in log_dir) cannot be opened: %w; create its "+
			"directory with write permission for this user, or remove both options to log to standard error", err)
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if err := l.reopen(); err != nil { // the old file is still open
				_, _ = fmt.Fprintf(l, "level=WARN msg=\"cannot reopen the log file\" error=%q\n", err)
			}
		}
	}()
	return l, nil
}

func (l *logFile) reopen() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	if l.file = file; old == nil {
		return nil
	}
	return old.Close()
}

// Write implements io.Writer.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Write(line)
}
