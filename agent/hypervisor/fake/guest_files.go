package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// file is a stored guest.
type file struct {
	hypervisor.Guest
	Disk string `json:"disk,omitempty"` // its content; empty: blank
}

func (h *Hypervisor) path(id string) string { return filepath.Join(h.dir, id+".json") }

// checkID refuses an id that is not valid as a file name.
func checkID(id string) error {
	if id == "" || filepath.Base(id) != id || strings.HasPrefix(id, ".") {
		return fault.New(fault.Invalid, "%q is not a valid guest id", id)
	}
	return nil
}

// read returns all guests, by id. It leaves out those whose files cannot be decoded, as after a full or failed disk,
// and records them for Capacity.
func (h *Hypervisor) read() ([]hypervisor.Guest, error) {
	entries, err := os.ReadDir(h.dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever built
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	var guests []hypervisor.Guest
	h.damaged = nil
	for _, entry := range entries {
		id, isGuest := strings.CutSuffix(entry.Name(), ".json")
		if !isGuest {
			continue // being written
		}
		g, err := h.readGuest(id)
		if fault.CodeOf(err) == damagedFile {
			h.damaged = append(h.damaged, hypervisor.Remark{Subject: id, Text: fault.TextOf(err)})
			continue
		}
		if err != nil {
			return nil, err
		}
		guests = append(guests, g)
	}
	return guests, nil
}

// readConflicting returns the guests that can conflict with a new one: one with its id, and all others if it has
// devices. A build without devices therefore costs the same on a host with many guests.
func (h *Hypervisor) readConflicting(with hypervisor.Guest) ([]hypervisor.Guest, error) {
	if len(with.Devices) > 0 {
		return h.read()
	}
	g, err := h.readGuest(with.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return []hypervisor.Guest{g}, err
}

// damagedFile is the code of the fault of a file that cannot be decoded.
const damagedFile = "fake.damaged_file"

// readGuest reads the file of a guest.
func (h *Hypervisor) readGuest(id string) (g hypervisor.Guest, err error) {
	name := h.path(id)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return g, fault.Wrap(fault.Unavailable, err)
	}
	var f file
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err = decoder.Decode(&f); err == nil && decoder.More() {
			err = errors.New("text follows the guest")
		}
	}
	if err == nil {
		err = f.CheckDevices()
	}
	if err != nil {
		// Unavailable: the guest may exist, so it is not built again, and not reported as failed.
		return g, fault.New(fault.Unavailable, "%s is not a guest file of this hypervisor, as after a failed disk: %w; "+
			"restore it, or remove it if no guest should run", name, err).WithCode(damagedFile)
	}
	f.ID = id           // the file name decides
	if f.Server == id { // as an empty one
		f.Server = ""
	}
	return f.Guest, nil
}

// unfinished is the suffix of a file that is being written.
const unfinished = ".new"

// write writes the guest's file completely or not at all. disk is the content of its disk.
func (h *Hypervisor) write(g hypervisor.Guest, disk string) error {
	return h.writeTo(h.path(g.ID), g, disk)
}

// writeTo is write with another file name.
func (h *Hypervisor) writeTo(name string, g hypervisor.Guest, disk string) error {
	data, err := json.MarshalIndent(file{Guest: g, Disk: disk}, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	fresh := name + unfinished
	err = os.MkdirAll(h.dir, 0o700)
	if err == nil {
		err = h.change(fresh, func() error { return os.WriteFile(fresh, data, 0o600) })
	}
	if err == nil {
		err = h.change(name, func() error { return os.Rename(fresh, name) })
	}
	if err != nil {
		_ = os.Remove(fresh) // an incomplete file is useless and may fill the disk
		return fault.Wrap(fault.Unavailable, err)
	}
	return nil
}

// change changes a file.
func (h *Hypervisor) change(path string, do func() error) error {
	if h.observe == nil {
		return do()
	}
	h.observe(path)
	defer h.observe(path)
	return do()
}
