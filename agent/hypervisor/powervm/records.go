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

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// record is what the driver stores of a guest.
type record struct {
	guest     hypervisor.Guest
	Name      string // of the partition; no other one has it
	Partition string // UUID in upper case; empty before the server has said it
	System    string // UUID of the managed system that was requested to create it; empty: none yet
	Requested bool   // the server has not answered the request to create it, and may still execute it
	Complete  bool   // the partition was as described once
}

// markDigits is the number of hexadecimal digits at the end of a partition's name that no other partition has.
const markDigits = 12

// recordVersion is the version of the files.
const recordVersion = 1

// file is a stored record. The names in the tags are the format of the file.
type file struct {
	Version   int          `json:"version"`
	Partition string       `json:"partition_uuid,omitempty"`
	Title     string       `json:"partition_name"`
	System    string       `json:"system_uuid,omitempty"`
	Requested bool         `json:"creation_requested,omitempty"`
	Complete  bool         `json:"complete"`
	Server    string       `json:"server,omitempty"`
	Name      string       `json:"name"`
	VCPUs     int          `json:"vcpus"`
	MemoryMB  int          `json:"memory_mb"`
	DiskGB    int          `json:"disk_gb"`
	Devices   []fileDevice `json:"devices"`
	Cells     []fileCell   `json:"cells,omitempty"`
	Stopped   bool         `json:"stopped,omitempty"`
	Build     int          `json:"build,omitempty"`
	// Stored for the agent; partitions get no network.
	Interfaces []fileInterface `json:"interfaces,omitempty"`
}

type fileDevice struct {
	ID        string      `json:"id"`
	Request   string      `json:"request_id"`
	Provider  provider.ID `json:"provider,omitempty"`
	Unmanaged bool        `json:"unmanaged,omitempty"`
}

type fileCell struct {
	VCPUs    []int       `json:"vcpus"`
	MemoryMB int         `json:"memory_mb"`
	PageKB   int         `json:"page_kb,omitempty"`
	Node     int         `json:"node"`
	CPUs     map[int]int `json:"cpus,omitempty"`
	Emulator []int       `json:"emulator,omitempty"`
}

type fileInterface struct {
	Port   string    `json:"port_id"`
	MAC    string    `json:"mac_address"`
	VIF    string    `json:"vif_type"`
	VNIC   string    `json:"vnic_type"`
	Bridge string    `json:"bridge,omitempty"`
	VLAN   int       `json:"vlan,omitempty"`
	MTU    int       `json:"mtu,omitempty"`
	Device device.ID `json:"device,omitzero"`
}

func (h *Hypervisor) path(id string) string { return filepath.Join(h.options.Dir, id+".json") }

// checkID refuses an id that is not valid as a file name.
func checkID(id string) error {
	if id == "" || filepath.Base(id) != id || strings.HasPrefix(id, ".") {
		return fault.New(fault.Invalid, "%q is not a valid guest id", id)
	}
	return nil
}

func find(records []record, id string) (record, bool) {
	i := slices.IndexFunc(records, func(r record) bool { return r.guest.ID == id })
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
		return nil, fault.New(fault.Unavailable, "%w", err)
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

func parseRecord(id string, data []byte) (record, error) {
	var f file
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return record{}, err
	}
	if f.Version != recordVersion || len(f.Title) < markDigits {
		return record{}, errors.New("it has another version, or no valid name of a partition")
	}
	r := record{Partition: f.Partition, Name: f.Title, System: f.System, Requested: f.Requested, Complete: f.Complete,
		guest: hypervisor.Guest{ID: id, Server: f.Server, Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.MemoryMB,
			DiskGB: f.DiskGB, Stopped: f.Stopped, Build: f.Build}}
	for _, c := range f.Cells {
		r.guest.Cells = append(r.guest.Cells, hypervisor.GuestCell(c))
	}
	for _, one := range f.Interfaces {
		r.guest.Interfaces = append(r.guest.Interfaces, hypervisor.Interface(one))
	}
	for _, d := range f.Devices {
		at, err := device.ParseID(d.ID)
		if err != nil {
			return record{}, err
		}
		r.guest.Devices = append(r.guest.Devices, hypervisor.Device{ID: at, Request: d.Request, Provider: d.Provider,
			Unmanaged: d.Unmanaged})
	}
	return r, nil
}

// write writes a record completely or not at all, and durably.
func (h *Hypervisor) write(r record) error {
	g := r.guest
	f := file{Version: recordVersion, Partition: r.Partition, Title: r.Name, System: r.System, Requested: r.Requested,
		Complete: r.Complete, Server: g.Server, Name: g.Name, VCPUs: g.VCPUs,
		MemoryMB: g.MemoryMB, DiskGB: g.DiskGB, Stopped: g.Stopped, Build: g.Build,
		Devices: []fileDevice{}}
	for _, c := range g.Cells {
		f.Cells = append(f.Cells, fileCell(c))
	}
	for _, d := range g.Devices {
		f.Devices = append(f.Devices, fileDevice{ID: d.ID.String(), Request: d.Request, Provider: d.Provider,
			Unmanaged: d.Unmanaged})
	}
	for _, one := range g.Interfaces {
		f.Interfaces = append(f.Interfaces, fileInterface(one))
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	err = os.MkdirAll(h.options.Dir, 0o700)
	if err == nil {
		err = datafile.Replace(h.path(g.ID), data)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the record of guest %s cannot be written: %w", g.ID, err)
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
