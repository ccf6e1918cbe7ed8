package reconcile

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

// readRequests converts the PCI requests of an assignment. The fault is Invalid for a device type that this version of
// the agent does not support.
func readRequests(list []host.Request) ([]pci.Request, error) {
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

// claim claims all devices and places all NUMA cells of a server, or none. It may be repeated.
func (c *core) claim(want host.Server, requests []pci.Request) ([]device.Claim, device.Refusal) {
	holder := resource.ConsumerID(want.ID)
	set, picked, cells, refusal := c.place(want, requests)
	if refusal == "" && len(set.Held(holder)) > len(picked) {
		refusal = "it holds devices that are no longer asked for"
	}
	if refusal != "" {
		return nil, refusal
	}
	if written, taken := c.state.Of(want.ID); !taken || !sameClaims(written, picked) ||
		!reflect.DeepEqual(c.state.Cells(want.ID), cells) {
		c.record(journal.Put(want.ID, picked, cells...))
		if len(picked) > 0 || len(cells) > 0 {
			c.reportChanged()
		}
	}
	c.set = set
	return picked, ""
}

// place selects devices and host NUMA nodes for a server. Devices and cells claimed before stay where they are.
func (c *core) place(want host.Server, requests []pci.Request) (device.Set, []device.Claim, []journal.GuestCell,
	device.Refusal) {
	guestCells := host.ReadGuestCells(want.Topology)
	cells := c.usedCells(want.ID)
	var at []numa.Placed
	if was := c.state.Cells(want.ID); sameCells(was, guestCells) {
		_, at = readCells(was)
	}
	room := numa.Host{Cells: cells, Limits: numa.Limits{CPU: c.config.CPUs.CPURatio, Memory: c.config.CPUs.MemoryRatio},
		Pack: c.config.CPUs.Pack}
	set, picked, placed, refusal := c.set.Place(resource.ConsumerID(want.ID), requests, guestCells, at, room)
	if refusal != "" {
		return set, nil, nil, refusal
	}
	return set, picked, writeCells(guestCells, placed), ""
}

// allocate changes the server's claims to allocated. When the guest runs, its devices for one-time use are marked used.
func (c *core) allocate(want host.Server) []device.Claim {
	holder := resource.ConsumerID(want.ID)
	set, changes := c.set.Allocate(holder)
	held := set.Held(holder)
	if written, taken := c.state.Of(want.ID); !taken || !sameClaims(written, held) {
		c.record(journal.Put(want.ID, held, c.state.Cells(want.ID)...))
	}
	c.set = set
	if len(changes) > 0 {
		c.reportChanged()
	}
	if want.Power != host.Off {
		c.markUsed(want.ID)
	}
	return held
}

// free frees the devices of a server that has no guest here.
func (c *core) free(id string) {
	set, changes := c.set.Free(resource.ConsumerID(id))
	if len(c.state.Cells(id)) > 0 { // its CPUs and huge pages are free now
		c.freed, c.wake = true, true
		c.reportChanged()
	}
	c.record(journal.Gone(id))
	c.set = set
	delete(c.acked, id)
	applyFreed(c, id, changes)
	c.log("server released", "server", id, "devices", len(changes))
}

// applyFreed continues after devices were freed: servers that wait for devices try again, and compute gets a report.
func applyFreed(c *core, id string, changes []device.Change) {
	if len(changes) > 0 {
		c.freed, c.wake = true, true
		c.reportChanged()
	}
	for _, change := range changes {
		if change.Now == pci.Removed {
			c.wantSync = true // the device is gone, and its provider can be reduced now
		}
	}
	if c.postponed[resource.ConsumerID(id)] {
		c.wantSync = true // the providers of its devices can be created now
	}
}

// sameClaims reports whether two lists of claims are equal in the fields that the journal must have.
func sameClaims(a, b []device.Claim) bool {
	return slices.EqualFunc(a, b, func(a, b device.Claim) bool {
		return a.ID() == b.ID() && a.RequestID == b.RequestID && a.Provider == b.Provider &&
			a.State == b.State
	})
}

// pickedDevices converts claims to the form of the host API.
func pickedDevices(claims []device.Claim) []host.Picked {
	var out []host.Picked
	for _, c := range claims {
		out = append(out, host.Picked{RequestID: c.RequestID, Address: c.ID().String(),
			Provider: string(c.Provider)})
	}
	return out
}
