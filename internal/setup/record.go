package setup

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
)

// record is the file that says what was made, in the order in which it was made.
type record struct {
	Options Options  `json:"options"`
	Made    []string `json:"made"` // ids of things; each is written before the thing is made

	Stopping bool `json:"stopping,omitempty"` // an undo has found no servers, and stops the service

	Joined *join.Joined `json:"joined,omitempty"` // the account of this host in the cloud that it has joined

	path string
	lock *os.File
}

// ReadOptions returns the options of the cloud that an earlier run has made in a data directory; ok is false without
// such a cloud.
func ReadOptions(data string) (o Options, ok bool, err error) {
	r, err := readRecord(data)
	return r.Options, r.Options.Data != "", err
}

// readRecord reads the record of a data directory without its lock.
func readRecord(data string) (record, error) {
	r := record{path: filepath.Join(data, "init.json")}
	err := r.read()
	return r, err
}

// openRecord reads the record, or begins one, and locks it against other runs.
func openRecord(o Options) (*record, error) {
	lock, err := os.OpenFile(o.Data, os.O_RDONLY, 0)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot open the data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fault.New(fault.Conflict, "another `berth init` works in %s: %w; wait for its end", o.Data,
			err), lock.Close())
	}
	r := &record{path: o.recordFile(), lock: lock}
	if err := r.read(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

func (r *record) read() error {
	text, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return fault.New(fault.Forbidden, "cannot read the record of `berth init`: %w; run `berth init` as its owner, who "+
			"is root without other directories", err)
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the record of `berth init`: %s: %w; restore the file", r.path, err)
	}
	return nil
}

func (r *record) close() error { return r.lock.Close() }

func (r *record) has(id string) bool { return slices.Contains(r.Made, id) }

// add records a thing, durably.
func (r *record) add(id string) error {
	if r.has(id) {
		return nil
	}
	r.Made = append(r.Made, id)
	return r.write()
}

// begin records, durably, that things are made, and no longer removed.
func (r *record) begin() error {
	r.Stopping = false
	return r.write()
}

// remove removes a thing from the record; the last one removes the file.
func (r *record) remove(id string) error {
	r.Made = slices.DeleteFunc(r.Made, func(one string) bool { return one == id })
	return r.write()
}

func (r *record) write() error {
	if len(r.Made) == 0 {
		err := os.Remove(r.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return fault.Wrap(fault.Unavailable, err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	return fault.Wrap(fault.Unavailable, datafile.Replace(r.path, append(text, '\n')))
}
