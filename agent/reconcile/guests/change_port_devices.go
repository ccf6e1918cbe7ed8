package guests

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// This file attaches ports with devices to guests that exist, and detaches them. To attach one, compute first assigns
// the request of its device: the device is claimed and reported, and the guest stays as it is. When compute has bound
// the port it assigns the interface: the VF is configured, and the guest gets the interface with its device. To detach
// one, compute assigns neither: the guest loses the interface, its VF is reset, and then the claim is freed and no
// longer reported. So each device that a guest may have is in the journal at any time.

// lacksPortDevices reports whether a port of an assignment needs a device that is not claimed.
func lacksPortDevices(c *state.Core, want host.Server) bool {
	held := c.Set.Held(resource.ConsumerID(want.ID))
	return slices.ContainsFunc(want.Requests, func(r host.Request) bool {
		return r.Port != nil && !slices.ContainsFunc(held, func(h device.Claim) bool { return h.RequestID == r.ID })
	})
}

// claimPortDevices claims devices for ports of a guest that exists. A refusal is reported, and the guest stays as it
// is. The fault is Unavailable while the devices are held by servers that are about to leave. The guest keeps the
// devices of other ports until it loses their interfaces, which compute can only assign when all ports have their
// devices: both change at once if compute's database was restored to a time with other ports.
func claimPortDevices(w *Works, j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	if !a.verified {
		return state.ReadAllocation{Work: want.ID}, nil
	}
	requests, err := state.ReadRequests(want.Requests)
	if err != nil {
		a.refusal = err
		return w.ensure(j)
	}
	interfaces := w.Guests[want.ID].Interfaces
	ofInterface := func(c device.Claim) bool { return serves(interfaces, c.ID()) }
	if _, refusal := w.Claim(want, append(requests, a.slots...), ofInterface); refusal != "" {
		if j.waitingSince.IsZero() {
			j.waitingSince = w.Now
		}
		if err := w.WaitFor(refusal, j.waitingSince); err != nil {
			return nil, err
		}
		a.refusal = fault.New(fault.Conflict, "%s", refusal)
	}
	return w.ensure(j)
}

// devicesOf returns the claims on devices that an existing guest must have with other interfaces: those that it has
// otherwise than as an interface, and those of the interfaces.
func devicesOf(have hypervisor.Guest, interfaces []hypervisor.Interface, held []device.Claim) []device.Claim {
	return slices.DeleteFunc(slices.Clone(held), func(c device.Claim) bool {
		return !serves(interfaces, c.ID()) && (!hasDevice(have, c.ID()) || serves(have.Interfaces, c.ID()))
	})
}

// withoutUnboundPorts returns the claims without those for ports that have no interface yet: a port is being attached,
// and its guest was lost. Without the interface, the guest would keep the device when the port is not attached.
func withoutUnboundPorts(want host.Server, held []device.Claim) []device.Claim {
	return slices.DeleteFunc(slices.Clone(held), func(c device.Claim) bool {
		forPort := func(r host.Request) bool { return r.ID == c.RequestID && r.Port != nil }
		return slices.ContainsFunc(want.Requests, forPort) &&
			!slices.ContainsFunc(want.Interfaces, func(i host.Interface) bool { return i.Device == c.ID().String() })
	})
}

// serves reports whether a device is that of one of the interfaces.
func serves(list []hypervisor.Interface, id device.ID) bool {
	return slices.ContainsFunc(list, func(i hypervisor.Interface) bool { return i.Device == id })
}

func hasDevice(g hypervisor.Guest, id device.ID) bool {
	return slices.ContainsFunc(g.Devices, func(d hypervisor.Device) bool { return d.ID == id })
}

// releaseDetached frees the devices that an existing guest does not have and that no assigned request has any more.
// The effect, which must come first, resets their VFs, or waits until compute has a report of the free devices; nil if
// there is nothing to do.
func releaseDetached(w *Works, j *work, g hypervisor.Guest) state.Effect {
	a, want := j.attempt, j.attempt.want
	var kept, left []device.Claim
	for _, c := range w.Set.Held(resource.ConsumerID(want.ID)) {
		assigned := slices.ContainsFunc(want.Requests, func(r host.Request) bool { return r.ID == c.RequestID })
		if assigned || hasDevice(g, c.ID()) {
			kept = append(kept, c)
		} else {
			left = append(left, c)
		}
	}
	reset := state.ResetVFs{Work: want.ID, ID: want.ID, Devices: vfsOf(left), Detached: true}
	if w.Config.ConfigureVFs && !a.vfsReset[resetKey(reset)] && len(reset.Devices) > 0 {
		return reset
	}
	if len(left) > 0 {
		freeDevices(w.Core, want.ID, kept, left)
		a.freed = true
	}
	if a.freed && w.mustAwaitReport(a) {
		return state.AwaitReport{}
	}
	return nil
}

// resetKey returns the key of an effect in the VFs that an attempt has reset.
func resetKey(e state.ResetVFs) string {
	if e.Detached {
		return "detached from " + e.ID
	}
	return e.ID
}

// freeDevices frees some of a server's devices.
func freeDevices(c *state.Core, id string, kept, freed []device.Claim) {
	set := c.Set
	var changes []device.Change
	for _, f := range freed {
		var some []device.Change
		set, some = set.FreeOne(resource.ConsumerID(id), f.ID())
		changes = append(changes, some...)
	}
	c.Record(journal.Put(id, kept, c.State.Cells(id)...))
	c.Set = set
	state.ApplyFreed(c, id, changes)
	c.Log("devices of detached ports released", "server", id, "devices", len(freed))
}
