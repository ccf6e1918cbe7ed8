package audit

import (
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
	patience   = 100 * time.Millisecond // how long a request waits for its event to be written
	maxPending = 8 << 20                // bytes of events that wait to be written
	beginning  = "audit-"               // of the name of a file
	ending     = ".jsonl"
)

// errFull reports that the disk is slower than the events.
var errFull = errors.New("too many events wait to be written")

// Log writes events as JSON lines: to one file for each day (UTC) in a directory, or to a log. Processes may share the
// directory. It is safe for concurrent use.
//
// A request waits until its event is in the file, but not for long: on a stalled or full disk requests continue, and
// the lost events are counted, logged, and reported by an event of their own when the disk works again.
type Log struct {
	dir  string // empty: to the log
	days int    // how many days a file is kept; 0: forever
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	pending []byte
	events  int64         // in pending
	batch   chan struct{} // closed when pending has been written
	writing bool
	lost    int64 // since the last event that reported it
	why     error
	cleaned string // the day on which old files were removed
}

// New returns a Log. It creates nothing before the first event.
func New(dir string, days int, log *slog.Logger) *Log {
	return &Log{dir: dir, days: days, log: log, now: time.Now, batch: make(chan struct{})}
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
	if !l.writing {
		l.writing = true
		go l.write()
	}
	return l.batch
}

// lose counts lost events. The caller holds mu.
func (l *Log) lose(n int64, why error) {
	if l.lost == 0 {
		l.log.Error("audit events lost", "events", n, "error", why)
	}
	l.lost, l.why = l.lost+n, why
}

// write writes batches until no event waits.
func (l *Log) write() {
	for {
		l.mu.Lock()
		lines, events, batch, lost := l.pending, l.events, l.batch, l.lost
		if len(lines) == 0 {
			l.writing = false
			l.mu.Unlock()
			return
		}
		if lost > 0 {
			if line, err := json.Marshal(lostEvent(lost, l.why, l.now())); err == nil {
				lines = append(append(line, '\n'), lines...)
			}
		}
		l.pending, l.events, l.batch = nil, 0, make(chan struct{})
		l.mu.Unlock()
		err := l.append(lines)
		l.mu.Lock()
		if err != nil {
			l.lose(events, err)
		} else if lost > 0 {
			l.log.Info("audit events written again", "lost", lost)
			l.lost -= lost
		}
		l.mu.Unlock()
		close(batch)
	}
}

// append appends lines to the file of this day. After an error some of them may be there.
func (l *Log) append(lines []byte) (err error) {
	day := l.now().UTC().Format(time.DateOnly)
	l.clean(day)
	file, err := os.OpenFile(filepath.Join(l.dir, beginning+day+ending), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// A line that another process is writing must not look like one that it has not finished. Close releases the lock.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	last := make([]byte, 1)
	if size > 0 {
		if _, err := file.ReadAt(last, size-1); err == nil && last[0] != '\n' { // a process was killed, or the disk full
			lines = append([]byte{'\n'}, lines...)
		}
	}
	_, err = file.Write(lines)
	return fault.Wrap(fault.Unavailable, err)
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
