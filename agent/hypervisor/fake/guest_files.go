package fake

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// file is a stored guest. The names in the tags are the format of the file.
type file struct {
	ID       string       `json:"id"` // for people: the file name is the id
	Server   string       `json:"server,omitempty"`
	Name     string       `json:"name"`
	VCPUs    int          `json:"vcpus"`
	MemoryMB int          `json:"memory_mb"`
	DiskGB   int          `json:"disk_gb"`
	Image    string       `json:"image,omitempty"`
	Hardware fileHardware `json:"hardware,omitzero"`
	Devices  []fileDevice `json:"devices"`
	Cells    []fileCell   `json:"parts,omitempty"`
	Stopped  bool         `json:"stopped,omitempty"`
	Build    int          `json:"build,omitempty"`
	Departed bool         `json:"departed,omitempty"`
	Disk     string       `json:"disk,omitempty"` // its content; empty: blank

	Interfaces []fileInterface `json:"interfaces,omitempty"`
}

type fileHardware struct {
	Machine    string `json:"machine_type,omitempty"`
	DiskBus    string `json:"disk_bus,omitempty"`
	NICModel   string `json:"vif_model,omitempty"`
	Video      string `json:"video_model,omitempty"`
	GuestAgent bool   `json:"guest_agent,omitempty"`
	Firmware   string `json:"firmware_type,omitempty"`
	SecureBoot string `json:"secure_boot,omitempty"`
}

type fileInterface struct {
	Port   string `json:"port"`
	MAC    string `json:"mac"`
	VIF    string `json:"vif"`
	VNIC   string `json:"vnic"`
	Bridge string `json:"bridge,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	MTU    int    `json:"mtu,omitempty"`
	Device string `json:"device,omitempty"`
}

type fileDevice struct {
	Address   string      `json:"address"`
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
		return nil, fault.New(fault.Unavailable, "%w", err)
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
			h.damaged = append(h.damaged, fault.TextOf(err))
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
		return g, fault.New(fault.Unavailable, "%w", err)
	}
	var f file
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		// Unavailable: the guest may exist, so it is not built again, and not reported as failed.
		return g, fault.New(fault.Unavailable, "%s is not a guest file of this hypervisor, as after a failed disk: %w; "+
			"restore it, or remove it if no guest should run", name, err).WithCode(damagedFile)
	}
	if f.Server == id { // as an empty one
		f.Server = ""
	}
	g = hypervisor.Guest{ID: id, Server: f.Server, Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, DiskGB: f.DiskGB,
		Image: f.Image, Hardware: hypervisor.Hardware(f.Hardware), Stopped: f.Stopped, Build: f.Build, Departed: f.Departed}
	for _, p := range f.Cells {
		g.Cells = append(g.Cells, hypervisor.GuestCell(p))
	}
	for _, d := range f.Devices {
		deviceID, err := device.ParseID(d.Address)
		if err != nil {
			return g, fault.New(fault.Unavailable, "%s: %w", name, err).WithCode(damagedFile)
		}
		g.Devices = append(g.Devices, hypervisor.Device{ID: deviceID, Request: d.Request, Provider: d.Provider,
			Unmanaged: d.Unmanaged})
	}
	if g.Interfaces, err = readInterfaces(f.Interfaces); err != nil {
		return g, fault.New(fault.Unavailable, "%s: %w", name, err).WithCode(damagedFile)
	}
	return g, nil
}

// unfinished is the suffix of a file that is being written.
const unfinished = ".new"

// write writes the guest's file completely or not at all. disk is the content of its disk.
func (h *Hypervisor) write(g hypervisor.Guest, disk string) error {
	return h.writeTo(h.path(g.ID), g, disk)
}

// writeTo is write with another file name.
func (h *Hypervisor) writeTo(name string, g hypervisor.Guest, disk string) error {
	f := file{ID: g.ID, Server: g.Server, Name: g.Name, VCPUs: g.VCPUs, MemoryMB: g.MemoryMB, DiskGB: g.DiskGB,
		Image: g.Image, Hardware: fileHardware(g.Hardware), Stopped: g.Stopped, Build: g.Build, Departed: g.Departed,
		Disk: disk}
	for _, p := range g.Cells {
		f.Cells = append(f.Cells, fileCell(p))
	}
	for _, d := range g.Devices {
		f.Devices = append(f.Devices, fileDevice{Address: d.ID.String(), Request: d.Request, Provider: d.Provider,
			Unmanaged: d.Unmanaged})
	}
	f.Interfaces = fileInterfaces(g.Interfaces)
	data, err := json.MarshalIndent(f, "", "  ")
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
		return fault.New(fault.Unavailable, "%w", err)
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

// readInterfaces decodes the interfaces of a file.
func readInterfaces(list []fileInterface) (out []hypervisor.Interface, err error) {
	for _, f := range list {
		i := hypervisor.Interface{Port: f.Port, MAC: f.MAC, VIF: f.VIF, VNIC: f.VNIC, Bridge: f.Bridge, VLAN: f.VLAN,
			MTU: f.MTU}
		if f.Device != "" {
			if i.Device, err = device.ParseID(f.Device); err != nil {
				return nil, err
			}
		}
		out = append(out, i)
	}
	return out, nil
}

func fileInterfaces(list []hypervisor.Interface) (out []fileInterface) {
	for _, i := range list {
		f := fileInterface{Port: i.Port, MAC: i.MAC, VIF: i.VIF, VNIC: i.VNIC, Bridge: i.Bridge, VLAN: i.VLAN, MTU: i.MTU}
		if i.Device != (device.ID{}) {
			f.Device = i.Device.String()
		}
		out = append(out, f)
	}
	return out
}
