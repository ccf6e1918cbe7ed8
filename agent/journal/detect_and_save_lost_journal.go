package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// watchInterval is how often Watch compares the files with their paths.
const watchInterval = time.Second

// Watch compares the journal and its lock with the files at their paths, once a second, until ctx ends or the journal
// is closed. It returns early when a file was deleted, moved or replaced: from then on all writes fail and Loss gives
// the reason.
func (j *Journal) Watch(ctx context.Context) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.lost:
			return
		case <-ticks.C:
			j.mu.Lock()
			_ = j.check() // a loss closes lost; a failed check is repeated
			j.mu.Unlock()
		}
	}
}

// Loss returns a fault that describes the loss of the journal's files and what the operator must do; nil when there is
// none.
func (j *Journal) Loss() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.loss
}

// check returns a fault once the journal or its lock is no longer the file that this process opened, and saves the
// state. j.mu is held.
func (j *Journal) check() error {
	if j.loss != nil || j.closed {
		return j.loss
	}
	for _, f := range []datafile.File{j.lockFile, j.journalFile} {
		state, err := f.State()
		if err != nil {
			return err
		}
		if state != datafile.Same {
			j.loss = j.explain(f.Path(), state)
			close(j.lost)
			return j.loss
		}
	}
	return nil
}

// explain returns the fault for a lost file, and saves a copy of a lost journal.
func (j *Journal) explain(path string, state datafile.State) error {
	event := fmt.Sprintf("%s was %s while the agent was using it", path, state)
	if path != j.path() {
		return fault.New(fault.Unavailable, "%s, so another agent could start beside this one; make "+
			"sure that none has, and start the agent again", event)
	}
	saved := path + datafile.SavedMark + time.Now().UTC().Format("20060102T150405Z")
	switch err := j.save(saved); {
	case err != nil:
		return fault.New(fault.Unavailable, "%s, and what it recorded could not be saved: %w; put the "+
			"file back if it was moved, or a backup, and start the agent again", event, err)
	case state == datafile.Replaced:
		return fault.New(fault.Unavailable, "%s, and nothing was written to the new file; start the "+
			"agent again to use the new file. To go back, first rename %s to %s: this copy has all that the agent recorded",
			event, saved, path)
	}
	return fault.New(fault.Unavailable, "%s; all that the agent recorded is in the copy %s: rename "+
		"it to %s and start the agent again", event, saved, path)
}

// save writes the state to a new file, which gets its name only once it is complete and on the disk.
func (j *Journal) save(path string) error {
	data, _, err := j.State().encode()
	if err != nil {
		return err
	}
	f, err := replaceFile(path, data)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkSaved refuses to start a new journal in the place of a lost one that has a saved copy.
func checkSaved(path string) error {
	saved, err := datafile.LastSaved(path, datafile.Unfinished)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read the agent's directory: %w", err)
	}
	if saved == "" {
		return nil
	}
	return fault.New(fault.Conflict, "the journal %s is missing, and %s has what the agent recorded "+
		"when it was lost; rename it to %s to continue with it, or move it elsewhere to begin with an empty journal",
		path, saved, path)
}
