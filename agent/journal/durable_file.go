package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openberth/berth/fault"
)

// readFile reads a journal; a missing file is an empty journal.
func readFile(path string) (content, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{state: emptyState()}, nil
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
