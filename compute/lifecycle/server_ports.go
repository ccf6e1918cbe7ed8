package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// This file is the part of a server that the network service has: its ports. Schedule creates and reads them before it
// requests candidates, BindPorts binds them to the host of the claim before the guest is built there, and Release
// unbinds them before it releases the allocation that they refer to.
//
// Ports without devices are bound before the guest is assigned to the host. If a port needs a device, the guest is
// assigned first, with Entry.ClaimOnly: its agent picks the devices and reports them. Then the ports are bound with
// these devices, and the agent builds the guest.
//
// In a live migration BindPorts first adds inactive bindings to the destination, which the result shows by ports
// without a host. If a port needs a device, this is done after the agent of the destination has picked the devices.
// BindPorts makes them active when the guest has arrived. Release removes them if the guest does not arrive.

// PortsBound is the result of BindPorts: these are the server's ports, and each is bound to Host.
type PortsBound struct {
	Host  string
	Ports []Port
	// Lost are ports of an existing guest that are not the server's any more in the network service, and why. Other
	// ports that are missing in Ports are deleted.
	Lost map[string]string
	// Short are ports of an existing guest that have less in Placement than they request, and why.
	Short map[string]string
}

// PortsNotBound is the result of BindPorts if a port cannot be bound to Host.
type PortsNotBound struct{ Host, Reason string }

func (PortsBound) event()    {}
func (PortsNotBound) event() {}

// portDevicesPicked reports whether the agent of Host has picked a device for each port that needs one.
func (s Server) portDevicesPicked() bool {
	return !slices.ContainsFunc(s.Ports, func(p Port) bool {
		picked, needed := s.DeviceOf(p.ID)
		return needed && picked.Address == ""
	})
}

// awaitsPorts reports whether the guest is assigned and must not be built yet, because its ports are not bound.
func (s Server) awaitsPorts() bool { return s.presence() == building && !s.BoundTo(s.Host) }

// StartAwaitsPorts reports whether the guest is started only after its ports are bound to its host: above all one that
// a move has stopped and that goes back. If the network service refuses that, the guest is started without.
func (s Server) StartAwaitsPorts() bool {
	return s.State == Active && s.Move == nil && (s.Task == PoweringOn || s.Task == ResizeReverting) &&
		!s.BoundTo(s.Host) && s.PortsRefused == ""
}

// lacksPortDevice reports whether the record has no device of a port that needs one. If a guest exists, the record was
// restored to before its ports were bound: without the device, its interface would be taken from the guest.
func (s Server) lacksPortDevice() bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool {
		_, needed := s.DeviceOf(p.ID)
		return needed && p.Device == ""
	})
}

// AwaitsBindings reports whether the ports have no inactive bindings with the devices of the destination yet, which the
// live migration needs before the guest leaves.
func (s Server) AwaitsBindings() bool {
	return s.Phase() == PreLiveMigration && s.Move.isLive() && slices.ContainsFunc(s.Ports, func(p Port) bool {
		picked, needed := s.DeviceOf(p.ID)
		return needed && (p.Device == "" || p.Device != picked.Address)
	})
}

// portsClaimed returns the ports with the providers that a choice has for their groups. They are not bound yet.
func portsClaimed(ports []Port, choice schedule.Choice) []Port {
	ports = portsUnbound(ports)
	for i, p := range ports {
		for _, g := range p.Groups {
			if chosen := choice.Mappings[g.Suffix]; len(chosen) > 0 {
				if ports[i].Allocation == nil {
					ports[i].Allocation = map[string]provider.ID{}
				}
				ports[i].Allocation[g.Suffix] = chosen[0]
			}
		}
	}
	return ports
}

// portsUnbound returns the ports without a host and an allocation. They keep the VIF type: the guest of a live
// migration is prepared at the destination before its ports are bound there.
func portsUnbound(ports []Port) []Port {
	ports = slices.Clone(ports)
	for i := range ports {
		ports[i].Host, ports[i].Allocation, ports[i].Device = "", nil, ""
	}
	return ports
}

// portsToRestore returns the ports of a source with their allocation there. They must be bound there again.
func portsToRestore(ports []Port) []Port {
	ports = slices.Clone(ports)
	for i := range ports {
		ports[i].Host, ports[i].Allocation = "", maps.Clone(ports[i].Allocation)
	}
	return ports
}

// recordPorts records the ports that Schedule has read. A move that has not changed anything yet keeps what they have
// at its source, so that a revert restores that.
func recordPorts(s Server, ports []Port, devices []pci.Request) Server {
	if s.Phase() == Planning {
		move := *s.Move
		move.From.Ports = slices.Clone(move.From.Ports)
		for i, old := range move.From.Ports {
			now := slices.IndexFunc(ports, func(p Port) bool { return p.ID == old.ID && p.Host == move.From.Host })
			if now >= 0 {
				move.From.Ports[i] = ports[now]
			}
		}
		s.Move = &move
	}
	s.Ports = portsUnbound(ports)
	s.Requests = append(slices.DeleteFunc(slices.Clone(s.Requests), func(r pci.Request) bool { return r.Port != nil }),
		devices...)
	return s
}

// beginBuild assigns a claimed server to its host, after its ports are bound there. Ports that need devices are bound
// later. why and agent are words of the history.
func beginBuild(s Server, why, agent string, now time.Time) Server {
	if needPortDevices(s.Requests) {
		s.State = Spawning
		return addHistory(s, now, why+"; waiting for "+agent+" to pick the devices of its ports")
	}
	if len(s.Ports) > 0 {
		s.State = BindingPorts
		return addHistory(s, now, fmt.Sprintf("%s; binding %s to %s", why, count(len(s.Ports), "port"), s.Host))
	}
	s.State = Spawning
	return addHistory(s, now, why+"; waiting for "+agent+" to build the guest")
}

// releasedPorts returns the server after Release has unbound its ports, or removed those of a server that ends.
func releasedPorts(s Server) Server {
	s.PortChange = nil
	switch s.State {
	case DeletingAllocation:
		s.Networks, s.Ports, s.DeletedPorts = nil, nil, nil
	case Failing:
		s.Ports = nil
	default:
		s.Ports = portsUnbound(s.Ports)
	}
	return s
}

// hasNetworks reports whether the network service may have ports of the server.
func (s Server) hasNetworks() bool { return len(s.Networks) > 0 || len(s.Ports) > 0 }
