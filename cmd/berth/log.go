package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/openberth/berth/fault"
)

// logFile is [DEFAULT] log_file. SIGHUP makes it open its path anew, for logrotate; nothing else is read again.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLog opens a log that lives as long as the process.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.reopen(); err != nil {
		return nil, fault.New(fault.Invalid, "", "[DEFAULT] log_file (in log_dir) cannot be opened: %w; make its directory and let this user write there, or leave both out: then the log goes to standard error", err)
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if err := l.reopen(); err != nil { // the old file is still open, and tells it
				_, _ = fmt.Fprintf(l, "level=WARN msg=\"the log file cannot be opened again\" error=%q\n", err)
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
