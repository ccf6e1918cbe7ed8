package powervm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// record is what the driver stores of a guest.
type record struct {
	Version   int              `json:"version"`
	Guest     hypervisor.Guest `json:"guest"`
	Name      string           `json:"partition_name"`               // no other partition has it
	Partition string           `json:"partition_uuid,omitempty"`     // upper case; empty before the server has said it
	System    string           `json:"system_uuid,omitempty"`        // that was requested to create it; empty: none yet
	Requested bool             `json:"creation_requested,omitempty"` // not answered, and may still be executed
	Complete  bool             `json:"complete"`                     // the partition was as described once
}

// markDigits is the number of hexadecimal digits at the end of a partition's name that no other partition has.
const markDigits = 12

// recordVersion is the version of the files.
const recordVersion = 1

func (h *Hypervisor) path(id string) string { return filepath.Join(h.options.Dir, id+".json") }

// checkID refuses an id that is not valid as a file name.
func checkID(id string) error {
	if id == "" || filepath.Base(id) != id || strings.HasPrefix(id, ".") {
		return fault.New(fault.Invalid, "%q is not a valid guest id", id)
	}
	return nil
}

func find(records []record, id string) (record, bool) {
	i := slices.IndexFunc(records, func(r record) bool { return r.Guest.ID == id })
	if i < 0 {
		return record{}, false
	}
	return records[i], true
}

// Start removes the unfinished files of a process that was killed.
func (h *Hypervisor) Start(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries, err := os.ReadDir(h.options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json"+datafile.Unfinished) {
			err = errors.Join(err, os.Remove(filepath.Join(h.options.Dir, entry.Name())))
		}
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot remove unfinished records of guests: %w", err)
	}
	return nil
}

// recordOf reads the records, and returns them and that of a guest. Unavailable: it cannot be read.
func (h *Hypervisor) recordOf(id string) (records []record, r record, exists bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if records, err = h.read(); err == nil {
		err = h.checkRecord(id)
	}
	r, exists = find(records, id)
	return records, r, exists, err
}

// checkRecord returns Unavailable if the record of a guest could not be read by the last call of read. h.mu is held.
func (h *Hypervisor) checkRecord(id string) error {
	if text, is := h.damaged[id]; is {
		return fault.New(fault.Unavailable, "%s", text)
	}
	return nil
}

// read reads the records, by id. It skips those that cannot be read, and sets h.damaged: their guests may exist, so
// they are neither built nor removed, and no other guest gets their slots, which belong to their partitions. h.mu is
// held.
func (h *Hypervisor) read() (list []record, err error) {
	entries, err := os.ReadDir(h.options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	h.damaged = map[string]string{}
	for _, entry := range entries {
		id, isRecord := strings.CutSuffix(entry.Name(), ".json")
		if !isRecord {
			continue
		}
		var r record
		data, err := os.ReadFile(h.path(id))
		if err == nil {
			r, err = parseRecord(id, data)
		}
		if err != nil {
			h.damaged[id] = fmt.Sprintf("the record %s of a guest cannot be read: %s; restore it from a backup, or delete its "+
				"partition and remove the file", h.path(id), err)
			continue
		}
		list = append(list, r)
	}
	return list, nil
}

func parseRecord(id string, data []byte) (r record, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&r)
	if err == nil {
		err = r.Guest.CheckDevices()
	}
	if err != nil {
		return record{}, err
	}
	if r.Version != recordVersion || len(r.Name) < markDigits {
		return record{}, errors.New("it has another version, or no valid name of a partition")
	}
	r.Guest.ID = id // the file name decides
	return r, nil
}

// write writes a record completely or not at all, and durably.
func (h *Hypervisor) write(r record) error {
	r.Version = recordVersion
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	err = os.MkdirAll(h.options.Dir, 0o700)
	if err == nil {
		err = datafile.Replace(h.path(r.Guest.ID), data)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the record of guest %s cannot be written: %w", r.Guest.ID, err)
	}
	return nil
}

// move changes the id of a record. The content is written afterwards; the name alone decides.
func (h *Hypervisor) move(was, id string) error {
	err := os.Rename(h.path(was), h.path(id))
	if err == nil {
		err = datafile.Sync(h.options.Dir)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the record of guest %s cannot be renamed: %w", was, err)
	}
	return nil
}

// remove removes the record of a guest; a missing one counts as removed.
func (h *Hypervisor) remove(id string) error {
	for _, name := range []string{h.path(id) + datafile.Unfinished, h.path(id)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Unavailable, "the record of guest %s cannot be removed: %w", id, err)
		}
	}
	return nil
}
