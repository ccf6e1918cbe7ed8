package journal

import (
	"os"
	"path/filepath"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// defaultSlack is the number of superseded lines in a file before it is rewritten.
const defaultSlack = 1000

// Open reads the journal in dir, creates both when they do not exist, and excludes every other agent until Close.
// Faults: Conflict when another agent has it; Internal when a complete line is damaged; Unavailable when the disk
// fails.
func Open(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot create the agent's directory: %w", err)
	}
	lock, err := acquireLock(filepath.Join(dir, lockName), "give this one a directory of its own")
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, lock: lock, slack: defaultSlack, lost: make(chan struct{})}
	if err := j.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

// load reads the file and opens it for appending, without a torn line and without superseded lines.
func (j *Journal) load() error {
	if err := removeUnfinished(j.path()); err != nil {
		return err
	}
	if err := checkSaved(j.path()); err != nil {
		return err
	}
	var err error
	if j.lockFile, err = datafile.At(j.lock.Name()); err != nil {
		return err
	}
	content, err := readFile(j.path())
	if err != nil {
		return err
	}
	j.state.Store(&content.state)
	if !content.exists || content.torn || content.lines > content.state.size() {
		return j.replace(content.state)
	}
	j.lines = content.lines
	j.file, err = os.OpenFile(j.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot write to the journal: %w", err)
	}
	j.journalFile, err = datafile.At(j.path())
	return err
}

// Read returns the state of the journal in dir without a lock and without a change, for dry runs beside a running
// agent. A directory without a journal gives the empty state.
func Read(dir string) (State, error) {
	content, err := readFile(filepath.Join(dir, fileName))
	return content.state, err
}

// Close releases the lock. What was written stays; a later write returns a fault. Close may be called twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
		j.file = nil
	}
	// Closing releases the flock.
	if lockErr := j.lock.Close(); err == nil {
		err = lockErr
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	return nil
}

// Write makes entries durable, in order, and then applies them to the state. After a fault the state is as before, and
// the next write replaces the file, because it is unknown how much of the failed write is on the disk. A crash in
// between leaves the first entries: each is synced before the next is written, so that a power failure can
// damage the last line of the file only. Nothing is written without entries.
func (j *Journal) Write(entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	lines := make([][]byte, len(entries))
	for i, e := range entries {
		line, err := e.encode()
		if err != nil {
			return err
		}
		lines[i] = line
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fault.New(fault.Internal, "%s is closed", j.path())
	}
	if err := j.check(); err != nil {
		return err
	}
	state := j.State().With(entries...)
	var err error
	if j.file == nil || j.lines > state.size()+j.slack {
		err = j.replace(state)
	} else {
		err = j.appendLines(lines)
	}
	if err != nil {
		return err
	}
	j.state.Store(&state)
	return j.check() // an entry in a file that was lost meanwhile is not durable
}

// appendLines appends lines and syncs each. After a fault the file is closed. j.mu is held.
func (j *Journal) appendLines(lines [][]byte) error {
	for _, line := range lines {
		if err := appendSynced(j.file, line); err != nil {
			j.file.Close()
			j.file = nil
			return err
		}
		j.lines++
	}
	return nil
}

// replace writes a state to a new file and renames it over the old one. j.mu is held, or no other goroutine has j.
func (j *Journal) replace(state State) error {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
	data, lines, err := state.encode()
	if err != nil {
		return err
	}
	file, err := replaceFile(j.path(), data)
	at, fileErr := datafile.At(j.path()) // also when it failed after the rename
	if fileErr == nil {
		j.journalFile = at
	}
	if err != nil {
		return err
	}
	j.file, j.lines = file, lines
	return fileErr
}
