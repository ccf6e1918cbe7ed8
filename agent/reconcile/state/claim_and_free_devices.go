package state

import (
	"reflect"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// ReadRequests converts the PCI requests of an assignment. The fault is Invalid for a device type that this version of
// the agent does not support.
func ReadRequests(list []host.Request) ([]pci.Request, error) {
	var out []pci.Request
	for _, r := range list {
		p := r.PCIRequest()
		switch p.Requirement.Type {
		case "", pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
		default:
			return nil, fault.New(fault.Invalid,
				"request %s wants a device of type %q, which this agent does not know", r.ID, r.Type)
		}
		out = append(out, p)
	}
	return out, nil
}

// Claim claims all devices and places all NUMA cells of a server, or none. It may be repeated. A server that holds
// devices which are no longer asked for is refused, unless keep says that they stay; nil: none do.
func (c *Core) Claim(want host.Server, requests []pci.Request, keep func(device.Claim) bool) ([]device.Claim,
	device.Refusal) {
	set, picked, cells, refusal := c.place(want, requests)
	if refusal != "" {
		return nil, refusal
	}
	for _, h := range set.Held(resource.ConsumerID(want.ID)) {
		switch asked := slices.ContainsFunc(picked, func(p device.Claim) bool { return p.ID() == h.ID() }); {
		case asked:
		case keep == nil || !keep(h):
			return nil, "it holds devices that are no longer asked for"
		default:
			picked = append(picked, h)
		}
	}
	if written, taken := c.State.Of(want.ID); !taken || !SameClaims(written, picked) ||
		!reflect.DeepEqual(c.State.Cells(want.ID), cells) {
		c.Record(journal.Put(want.ID, picked, cells...))
		if len(picked) > 0 || len(cells) > 0 {
			c.ReportChanged()
		}
	}
	c.Set = set
	return picked, ""
}

// place selects devices and host NUMA nodes for a server. Devices and cells claimed before stay where they are.
func (c *Core) place(want host.Server, requests []pci.Request) (device.Set, []device.Claim, []journal.GuestCell,
	device.Refusal) {
	guestCells := host.ReadGuestCells(want.Topology)
	cells := c.usedCells(want.ID)
	var at []numa.Placed
	if was := c.State.Cells(want.ID); sameCells(was, guestCells) {
		_, at = ReadCells(was)
	}
	room := numa.Host{Cells: cells, Nodes: c.Nodes,
		Limits: numa.Limits{CPU: c.Config.CPUs.CPURatio, Memory: c.Config.CPUs.MemoryRatio},
		Pack:   c.Config.CPUs.Pack}
	set, picked, placed, refusal := c.Set.Place(resource.ConsumerID(want.ID), requests, guestCells, at, room)
	if refusal != "" {
		return set, nil, nil, refusal
	}
	return set, picked, writeCells(guestCells, placed), ""
}

// Allocate changes the server's claims to allocated. When the guest runs, its devices for one-time use are marked used.
func (c *Core) Allocate(want host.Server) []device.Claim {
	holder := resource.ConsumerID(want.ID)
	set, changes := c.Set.Allocate(holder)
	held := set.Held(holder)
	if written, taken := c.State.Of(want.ID); !taken || !SameClaims(written, held) {
		c.Record(journal.Put(want.ID, held, c.State.Cells(want.ID)...))
	}
	c.Set = set
	if len(changes) > 0 {
		c.ReportChanged()
	}
	if want.Power != host.Off {
		c.MarkUsed(want.ID)
	}
	return held
}

// Free frees the devices of a server that has no guest here.
func (c *Core) Free(id string) {
	set, changes := c.Set.Free(resource.ConsumerID(id))
	if len(c.State.Cells(id)) > 0 { // its CPUs and huge pages are free now
		c.Freed, c.Wake = true, true
		c.ReportChanged()
	}
	c.Record(journal.Gone(id))
	c.Set = set
	delete(c.Acked, id)
	ApplyFreed(c, id, changes)
	c.Log("server released", "server", id, "devices", len(changes))
}

// ApplyFreed continues after devices were freed: servers that wait for devices try again, and compute gets a report.
func ApplyFreed(c *Core, id string, changes []device.Change) {
	if len(changes) > 0 {
		c.Freed, c.Wake = true, true
		c.ReportChanged()
	}
	for _, change := range changes {
		if e, _ := c.Set.At(change.ID); change.Now == pci.Removed || e.Disabled {
			c.WantSync, c.ReleasedAt = true, c.Now // its provider can be reduced, or the device must be reserved now
		}
	}
	if c.Postponed[resource.ConsumerID(id)] {
		c.WantSync, c.ReleasedAt = true, c.Now // the providers of its devices can be created now
	}
}

// SameClaims reports whether two lists of claims are equal in the fields that the journal must have.
func SameClaims(a, b []device.Claim) bool {
	return slices.EqualFunc(a, b, func(a, b device.Claim) bool {
		return a.ID() == b.ID() && a.RequestID == b.RequestID && a.Provider == b.Provider &&
			a.State == b.State
	})
}

// PickedDevices converts claims to the form of the host API.
func PickedDevices(claims []device.Claim) []host.Picked {
	var out []host.Picked
	for _, c := range claims {
		out = append(out, host.Picked{RequestID: c.RequestID, Address: c.ID().String(),
			Provider: string(c.Provider)})
	}
	return out
}
