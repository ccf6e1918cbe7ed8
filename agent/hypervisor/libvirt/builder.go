package libvirt

import (
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// builder builds one guest.
type builder struct {
	d      *Driver
	c      *rpc.Client
	host   domainxml.Host
	guest  hypervisor.Guest // as it must become
	domain domain           // as it is

	incoming bool   // the guest is to arrive by live migration
	copied   copies // for the guest
	made     bool   // the disk of the guest as it must become is complete
}

// checkDevices returns fault.Conflict if the guest cannot have its devices, or has departed.
func checkDevices(g, have hypervisor.Guest, found bool, domains []domain) error {
	switch {
	case found && have.Departed:
		return fault.New(fault.Conflict, "the guest %s runs on another host now", g.ID)
	case found && !have.SameDevices(g):
		return fault.New(fault.Conflict, "the guest %s has other devices: %v, not %v", g.ID, ids(have), ids(g))
	}
	for _, other := range domains {
		if other.guest.ID == g.ID {
			continue
		}
		for _, id := range ids(g) {
			if slices.Contains(ids(other.guest), id) {
				return fault.New(fault.Conflict, "device %s is held by the guest %s", id, other.guest.ID)
			}
		}
	}
	return nil
}

func ids(g hypervisor.Guest) (out []device.ID) {
	for _, d := range g.Devices {
		out = append(out, d.ID)
	}
	return out
}

// stored returns the guest for the metadata. Until the domain has been started, it counts as one that must not run, so
// that the reason for which it does not run is not that its guest has shut down.
func (b *builder) stored() hypervisor.Guest {
	g := b.guest
	g.ShutDown, g.Stopped = false, g.Stopped || !b.domain.running() || b.domain.guest.ID == ""
	return g
}

// freeUUID returns the UUID of a new domain: the guest's id, which its firmware shows; after a rename that may be the
// UUID of another guest's domain, and another one is derived from it.
func freeUUID(id string, used map[uuid.UUID]bool) uuid.UUID {
	first := uuid.MustParse(id)
	out := first
	for n := 1; used[out]; n++ {
		out = uuid.NewSHA1(first, []byte(strconv.Itoa(n)))
	}
	return out
}
