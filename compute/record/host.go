package record

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// clip shortens a text to at most 60 bytes for an error.
func clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}

// EncodeHost returns the text of the report of a host: what its agent sends, without what compute sets.
func EncodeHost(h schedule.Host) ([]byte, error) {
	return encode("host "+h.Name, host.Report{
		Host: h.Name, Instance: h.Instance, Start: h.Start, LockID: h.LockID, NotFollowed: h.NotFollowed,
		Guests:   each(h.Present, func(p schedule.Present) host.Present { return host.Present(p) }),
		Provider: string(h.Provider), Hypervisor: h.Hypervisor, Down: h.Down, Booted: h.Booted, HostIP: h.HostIP,
		Devices: each(h.Devices, func(d pci.Offered) host.Device { return host.WriteDevice(h.Name, d) }),
		Cells:   host.WriteCells(h.Cells), Nodes: host.WriteNodes(h.Nodes),
		NodesInPlacement: h.NodesInPlacement, Counted: each(h.Counted, writeCounted),
		CPURatio: h.Limits.CPU, MemRatio: h.Limits.Memory, Conditions: h.Conditions, InPlace: h.InPlacement,
		DisabledDevices: each(h.Disabled, host.WriteDisabled),
		NoDiskMoves:     h.NoDiskMoves, MoveAddress: h.MoveAddress, DiskImages: h.DiskImages, NoDiskImages: h.NoDiskImages})
}

// DecodeHost reads the text of the report of the host with this name, without Seen, Guests and Load. The report of
// another host, or of none, is refused. Fields that are not known are ignored, as in a report from an agent, which
// repeats its report within a minute.
func DecodeHost(name string, text []byte) (schedule.Host, error) {
	var report host.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return schedule.Host{}, unreadable("host "+name, err)
	}
	if report.Host != name {
		return schedule.Host{}, foreign("host "+name, report.Host)
	}
	h, err := readHost(report)
	if err != nil {
		return schedule.Host{}, unreadable("host "+name, err)
	}
	return h, nil
}

// FromReport converts a report to compute's state of a host, without Seen, Guests and Load. It returns fault.Invalid
// for a value that is not valid.
func FromReport(r host.Report) (schedule.Host, error) {
	if _, err := uuid.Parse(r.Provider); err != nil {
		return schedule.Host{}, fault.New(fault.Invalid, "provider must be the UUID of the host's root provider; it is %q",
			clip(r.Provider))
	}
	for i, c := range r.Conditions {
		if !c.Level.Valid() {
			return schedule.Host{}, fault.New(fault.Invalid, "conditions[%d].level is %q; use info, warning or error", i,
				clip(string(c.Level)))
		}
	}
	return readHost(r)
}

// readHost is FromReport without the check of the provider, for a report that was accepted before.
func readHost(r host.Report) (schedule.Host, error) {
	h := schedule.Host{Name: r.Host, Instance: r.Instance, Start: r.Start, LockID: r.LockID,
		Provider: provider.ID(r.Provider), Conditions: r.Conditions, InPlacement: r.InPlace,
		NotFollowed: r.NotFollowed,
		HypervisorState: schedule.HypervisorState{Hypervisor: r.Hypervisor, Down: r.Down, Booted: r.Booted,
			HostIP: r.HostIP},
		Disks: schedule.Disks{DiskImages: r.DiskImages, NoDiskImages: r.NoDiskImages, NoDiskMoves: r.NoDiskMoves,
			MoveAddress: r.MoveAddress}}
	for _, g := range r.Counted {
		h.Counted = append(h.Counted, schedule.CountedGuest{ID: g.ID, Cells: host.ReadGuestCells(g.Cells),
			Placed: host.ReadPlaced(g.Placed)})
	}
	for _, g := range r.Guests {
		h.Present = append(h.Present, schedule.Present{ID: g.ID, Server: cmp.Or(g.Server, g.ID), Assigned: g.Assigned})
	}
	for _, d := range r.DisabledDevices {
		disabled, err := d.Read()
		if err != nil {
			return h, fault.New(fault.Invalid, "disabled device %q: %w", clip(d.Address), err)
		}
		h.Disabled = append(h.Disabled, disabled)
	}
	resources := r.Resources()
	h.Cells, h.Nodes, h.Limits = resources.Cells, resources.Nodes, resources.Limits
	h.NodesInPlacement = r.NodesInPlacement
	seen := map[pci.Address]bool{}
	for _, d := range r.Devices {
		device, err := d.Read(r.Host)
		if err != nil {
			return h, fault.New(fault.Invalid, "device %q: %w", clip(d.Address), err)
		}
		if seen[device.Address] {
			return h, fault.New(fault.Invalid, "device %s is in the report twice", device.Address)
		}
		seen[device.Address] = true
		h.Devices = append(h.Devices, device)
	}
	return h, nil
}

// writeCounted converts a guest that an agent has on its NUMA nodes for a report.
func writeCounted(g schedule.CountedGuest) host.CountedGuest {
	return host.CountedGuest{ID: g.ID, Cells: host.WriteGuestCells(g.Cells), Placed: host.WritePlaced(g.Placed)}
}

// powers are the power states of guests by their words on the wire. An absent one is On.
var powers = map[host.Power]lifecycle.Power{host.On: lifecycle.On, host.Off: lifecycle.Off,
	host.Paused: lifecycle.Paused, host.Suspended: lifecycle.Suspended}

// ToGuestEvent converts the report of a guest, known as id to the agent of the host, to the event of its server. It
// returns fault.Invalid for a value that is not valid.
func ToGuestEvent(name, id string, g host.Guest) (lifecycle.Event, error) {
	var devices []schedule.Picked
	for _, d := range g.Devices {
		if _, err := pci.ParseAddress(d.Address); err != nil {
			return nil, err
		}
		devices = append(devices, schedule.Picked{RequestID: d.RequestID, Address: d.Address,
			Provider: provider.ID(d.Provider)})
	}
	cells := host.ReadPlaced(g.Cells)
	switch g.Phase {
	case host.Claimed:
		return lifecycle.GuestClaimed{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build}, nil
	case host.Running:
		return lifecycle.GuestRunning{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Ports: g.Ports, Happened: g.Happened, Upload: (*lifecycle.DiskUpload)(g.Upload),
			Paused: g.Power == host.Paused, Rescue: g.Rescue}, nil
	case host.Stopped:
		return lifecycle.GuestStopped{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Ports: g.Ports, ShutDown: g.ShutDown, Happened: g.Happened,
			Upload: (*lifecycle.DiskUpload)(g.Upload), Suspended: g.Power == host.Suspended,
			Rescue: g.Rescue}, nil
	case host.Refused:
		return lifecycle.GuestRefused{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Power: powers[g.Power], Rescue: g.Rescue, Message: g.Message, RetryIn: time.Duration(g.RetryIn) * time.Second}, nil
	case host.Departed:
		return lifecycle.GuestMigrated{Host: name, Consumer: id}, nil
	case host.Failed:
		return lifecycle.GuestFailed{Host: name, Consumer: id, Message: g.Message, Removed: g.Removed}, nil
	case host.Gone:
		return lifecycle.GuestGone{Host: name, Consumer: id, Removed: g.Removed}, nil
	}
	return nil, fault.New(fault.Invalid, "phase is %q; it must be one of %s, %s, %s, %s, %s, %s, %s", g.Phase,
		host.Claimed, host.Running, host.Stopped, host.Refused, host.Departed, host.Failed, host.Gone)
}

// ToAssignment converts a guest that must be on a host, and its server, for the agent.
func ToAssignment(e lifecycle.Entry, s lifecycle.Server) host.Server {
	f := e.Flavor
	out := host.Server{ID: e.Consumer, PreviousID: e.PreviousConsumer, Name: s.Name, Project: s.Project,
		VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, DiskGB: f.DiskGB, Image: s.Image,
		Hardware: host.Hardware(flavor.HardwareOf(f, s.SourceImage())),
		Requests: make([]host.Request, 0, len(e.Requests)), Topology: host.WriteGuestCells(e.Topology),
		Build: s.Builds, Incoming: e.Incoming, ClaimOnly: e.ClaimOnly,
		ShelvedDisk: host.ShelvedDisk{DiskImage: e.DiskImage, UploadTo: e.UploadTo, Rescue: e.Rescue,
			Copy: e.CopyDisk, Quiesce: e.CopyDisk && flavor.RequiresQuiesce(s.SourceImage())}}
	if e.Consumer != s.ID {
		out.Server = s.ID
	}
	for word, power := range powers {
		if power == e.Power && e.Power != lifecycle.On {
			out.Power = word
		}
	}
	if e.Outgoing != "" {
		out.Outgoing = &host.Outgoing{Host: e.Outgoing, Devices: e.DeviceMap, Abort: e.Live.Aborted,
			Force: e.Live.Forced && !e.Live.Aborted}
	}
	if e.DiskFrom != nil {
		out.DiskFrom = &host.DiskFrom{Host: e.DiskFrom.Host, ID: e.DiskFrom.Guest}
	}
	for _, p := range e.Ports {
		if !e.ClaimOnly {
			out.Interfaces = append(out.Interfaces, host.Interface{Port: p.ID, MAC: p.MAC, VIF: p.VIF, VNIC: p.VNIC,
				Bridge: p.Bridge, Device: p.Device, VLAN: p.VLAN})
		}
	}
	for _, r := range e.Requests {
		out.Requests = append(out.Requests, host.WriteRequest(r))
	}
	return out
}
