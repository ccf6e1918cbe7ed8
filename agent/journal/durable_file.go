package journal

import (
	"errors"
	"io/fs"
	"os"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// readFile reads a journal; a missing file is an empty journal.
func readFile(path string) (content, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{state: emptyState()}, nil
	}
	if err != nil {
		return content{}, fault.New(fault.Unavailable, "cannot read the journal: %w; let the agent read it, "+
			"or restore it from a backup", err)
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
		return fault.New(fault.Unavailable, "cannot write to the journal; check the disk (full? read-only?): %w", err)
	}
	return nil
}

// replaceFile replaces the file at path durably, and returns it open for appending.
func replaceFile(path string, data []byte) (f *os.File, err error) {
	if err = datafile.Replace(path, data); err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot replace the journal; check the disk (full? read-only?): %w", err)
	}
	return f, nil
}

// removeUnfinished removes the incomplete new journal of a process that was killed.
func removeUnfinished(path string) error {
	if err := os.Remove(path + datafile.Unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "cannot remove an unfinished journal: %w", err)
	}
	return nil
}
