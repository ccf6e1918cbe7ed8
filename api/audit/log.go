package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	patience    = 100 * time.Millisecond // how long a request waits for its event to be written
	retryTime   = 10 * time.Second       // between attempts to report lost events
	closingTime = 5 * time.Second        // how long Close waits for the disk
	maxPending  = 8 << 20                // bytes of events that wait to be written
	beginning   = "audit-"               // of the name of a file
	ending      = ".jsonl"
)

// The disk is slower than the events.
var (
	errFull = errors.New("too many events wait to be written")
	errSlow = errors.New("the disk does not answer in time")
)

// Log writes events as JSON lines: to one file for each day (UTC) in a directory, or to a log. Processes may share the
// directory. It is safe for concurrent use.
//
// A request waits until its event is in the file, but not for long: on a stalled or full disk requests continue, and
// the lost events are counted, logged, and reported by an event of their own when the disk works again.
// Close writes what waits.
type Log struct {
	dir  string // empty: to the log
	days int    // how many days a file is kept; 0: forever
	log  *slog.Logger
	now  func() time.Time
	open func(path string) (file, error)

	retry   time.Duration // until the report of lost events is tried again
	closing time.Duration // the longest time of Close

	mu      sync.Mutex
	pending []byte
	events  int64         // in pending
	batch   chan struct{} // closed when pending has been written
	writing bool
	idle    chan struct{} // closed when write has ended
	again   *time.Timer   // of the report; nil: none
	closed  bool
	unknown unknownCallers
	lost    int64 // since the last event that reported it
	why     error
	cleaned string // the day on which old files were removed
}

// New returns a Log. It creates nothing before the first event.
func New(dir string, days int, log *slog.Logger) *Log {
	idle := make(chan struct{})
	close(idle)
	return &Log{dir: dir, days: days, log: log, now: time.Now, open: openFile, retry: retryTime, closing: closingTime,
		batch: make(chan struct{}), idle: idle, unknown: unknownCallers{requests: map[refused]int64{}}}
}

// Record writes an event.
func (l *Log) Record(e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		l.log.Error("audit event not encoded", "error", err) // does not occur: an event has only texts
		return
	}
	if l.dir == "" {
		l.log.LogAttrs(context.Background(), slog.LevelInfo, "audit", slog.String("event", string(line)))
		return
	}
	written := l.enqueue(append(line, '\n'))
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-written:
	case <-late.C:
	}
}

// enqueue adds a line to the next batch and returns what is closed when the batch has been written, or has been lost.
func (l *Log) enqueue(line []byte) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending)+len(line) > maxPending {
		l.lose(1, errFull)
		done := make(chan struct{})
		close(done)
		return done
	}
	l.pending = append(l.pending, line...)
	l.events++
	l.start()
	return l.batch
}

// lose counts lost events. The caller holds mu.
func (l *Log) lose(n int64, why error) {
	if l.lost == 0 {
		l.log.Error("audit events lost", "events", n, "error", why)
	}
	l.lost, l.why = l.lost+n, why
}

// start starts write if it does not run. The caller holds mu.
func (l *Log) start() {
	if !l.writing {
		l.writing, l.idle = true, make(chan struct{})
		go l.write()
	}
}

// write writes batches until no event waits and no loss is to be reported, or until a write of the report alone has
// failed, which is tried again later.
func (l *Log) write() {
	for failed := false; ; {
		l.mu.Lock()
		if len(l.pending) == 0 && (l.lost == 0 || failed) {
			l.writing = false
			if close(l.idle); l.lost > 0 && !l.closed {
				stop(l.again)
				l.again = time.AfterFunc(l.retry, l.report)
			}
			l.mu.Unlock()
			return
		}
		lines, events, batch, lost := l.pending, l.events, l.batch, l.lost
		if lost > 0 {
			if line, err := json.Marshal(lostEvent(lost, l.why, l.now())); err == nil {
				lines = append(append(line, '\n'), lines...)
			}
		}
		l.pending, l.events, l.batch = nil, 0, make(chan struct{})
		l.mu.Unlock()
		written, err := l.append(lines)
		failed = err != nil
		l.mu.Lock()
		if lost > 0 && written > 0 { // the first line is the report
			l.log.Info("audit events written again", "lost", lost)
			l.lost -= lost
			written--
		}
		if missing := events - written; missing > 0 {
			l.lose(missing, err)
		}
		l.mu.Unlock()
		close(batch)
	}
}

// report writes the report of lost events.
func (l *Log) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 && !l.closed {
		l.start()
	}
}

// stop stops a timer; nil: there is none.
func stop(timer *time.Timer) {
	if timer != nil {
		timer.Stop()
	}
}

// Close writes what waits, and the reports of lost events and unknown callers. It waits at most for some seconds, and
// returns an error if events are lost or still wait then. Services that share the Log may record until each of them has
// called Close.
func (l *Log) Close() error {
	l.summarise()
	l.mu.Lock()
	l.closed = true
	stop(l.again)
	if l.lost > 0 {
		l.start()
	}
	idle := l.idle
	l.mu.Unlock()
	late := time.NewTimer(l.closing)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if missing := l.lost + l.events; missing > 0 || l.writing {
		return fault.New(fault.Unavailable, "cannot write all audit events to %s, at least %d are lost: %w; make room, or "+
			"repair the disk", l.dir, missing, cmp.Or(l.why, errSlow))
	}
	return nil
}

// append appends lines to the file of this day. It returns how many of them are in the file as a whole: with an error,
// the first ones.
func (l *Log) append(lines []byte) (written int64, err error) {
	day := l.now().UTC().Format(time.DateOnly)
	l.clean(day)
	file, err := l.open(filepath.Join(l.dir, beginning+day+ending))
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err)
	}
	defer func() {
		if failed := file.Close(); failed != nil { // what was written may not be stored
			written, err = 0, errors.Join(err, failed)
		}
	}()
	if err := lock(file); err != nil {
		return 0, fault.Wrap(fault.Unavailable, err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err)
	}
	last, before := make([]byte, 1), 0
	if size > 0 {
		if _, err := file.ReadAt(last, size-1); err == nil && last[0] != '\n' { // a process was killed, or the disk full
			lines, before = append([]byte{'\n'}, lines...), 1
		}
	}
	n, err := file.Write(lines)
	return int64(bytes.Count(lines[min(before, n):n], []byte{'\n'})), fault.Wrap(fault.Unavailable, err)
}

// file is what append needs of an *os.File.
type file interface {
	io.WriteSeeker
	io.ReaderAt
	io.Closer
	Fd() uintptr
}

// lock locks a file until it is closed: a line that another process is writing must not look like one that it has not
// finished.
func lock(f file) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// clean removes the files that are too old, once a day. Errors are logged: they prevent no event.
func (l *Log) clean(day string) {
	if l.days == 0 || l.cleaned == day { // only write uses cleaned
		return
	}
	l.cleaned = day
	oldest := l.now().UTC().AddDate(0, 0, -l.days).Format(time.DateOnly)
	found, err := os.ReadDir(l.dir)
	for _, entry := range found {
		name, isAudit := strings.CutPrefix(entry.Name(), beginning)
		date, isFile := strings.CutSuffix(name, ending)
		if _, wrong := time.Parse(time.DateOnly, date); isAudit && isFile && wrong == nil && date < oldest {
			err = errors.Join(err, os.Remove(filepath.Join(l.dir, entry.Name())))
		}
	}
	if err != nil {
		l.log.Error("old audit files not removed", "error", err)
	}
}
