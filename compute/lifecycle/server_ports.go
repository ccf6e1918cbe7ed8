package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
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

// NetworkRequest is one entry of `networks` of a request to create a server: a port, or a network in which Schedule
// creates a port.
type NetworkRequest struct {
	Port    string // UUID; empty: a port is created
	Network string // UUID
	FixedIP string // of the port to create; empty: any
	Tag     string // device tag of the guest's interface
}

// Port is a port of a server as compute has last read it.
type Port struct {
	ID, Network, NetworkName string
	MAC, VNIC                string
	Tag                      string
	FixedIPs                 []FixedIP
	Created                  bool                   // by compute, which deletes it with the server
	Groups                   []resource.Group       // what it requests from Placement; the suffix is the id of the group
	SameSubtree              []string               // suffixes
	Allocation               map[string]provider.ID // the provider that was chosen for each group; nil: none
	Host                     string                 // the host that it is bound to; empty: none, or not known
	VIF                      string                 // binding:vif_type on Host, or on the last one
	Bridge                   string                 // that the network service names for its interface; empty: none
	Device                   string                 // address of the device that it is bound with; empty: none
	VLAN                     int                    // tag that the device or the bridge adds; 0: none; or Untagged
}

// Untagged is the VLAN of a port whose bridge adds no tag, and drops frames with a tag.
const Untagged = -1

// FixedIP is an address of a port.
type FixedIP struct{ Subnet, Address string }

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

// BoundTo reports whether all ports of the server are bound to a host, each with the device that the agent has picked.
func (s Server) BoundTo(host string) bool {
	return !slices.ContainsFunc(s.Ports, func(p Port) bool {
		picked, needed := s.DeviceOf(p.ID)
		return p.Host != host || needed && p.Device != picked.Address
	})
}

// DeviceOf returns the device that the agent of Host has picked for a port; its address is empty before that. needed is
// false if the port needs no device.
func (s Server) DeviceOf(port string) (picked schedule.Picked, needed bool) {
	for _, r := range s.Requests {
		if r.Port == nil || r.Port.ID != port {
			continue
		}
		for _, d := range s.Devices {
			if d.RequestID == r.ID {
				return d, true
			}
		}
		return schedule.Picked{RequestID: r.ID}, true
	}
	return picked, false
}

// portsWithPicked returns the ports of a source with the devices that its agent has picked: if the agent has lost its
// journal, it may pick other ones than the ports were bound with. The guest is built with these devices; if the server
// returns to the source, its ports are bound again.
func portsWithPicked(source Residence) []Port {
	ports := slices.Clone(source.Ports)
	at := Server{Requests: source.Requests, Devices: source.Devices}
	for i, p := range ports {
		if picked, needed := at.DeviceOf(p.ID); needed && picked.Address != "" {
			ports[i].Device = picked.Address
		}
	}
	return ports
}

// needPortDevices reports whether one of the requests is that of a port.
func needPortDevices(requests []pci.Request) bool {
	return slices.ContainsFunc(requests, func(r pci.Request) bool { return r.Port != nil })
}

// portDevicesPicked reports whether the agent of Host has picked a device for each port that needs one.
func (s Server) portDevicesPicked() bool {
	return !slices.ContainsFunc(s.Ports, func(p Port) bool {
		picked, needed := s.DeviceOf(p.ID)
		return needed && picked.Address == ""
	})
}

// awaitsPorts reports whether the guest is assigned and must not be built yet, because its ports are not bound.
func (s Server) awaitsPorts() bool { return s.presence() == building && !s.BoundTo(s.Host) }

// StartAwaitsPorts reports whether the guest, which a move has stopped at the source, is started only after its ports
// are bound there again. If the network service refuses that, the guest is started without.
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

// withdraws reports whether the guest is to be removed from Host before anything is built, because a port cannot be
// bound there.
func (s Server) withdraws() bool {
	return s.PortsRefused != "" &&
		(s.State == Spawning || s.Phase() == SpawningDestination || s.Phase() == PreLiveMigration)
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

// onPortsBound continues after all ports are bound to the host.
func onPortsBound(s Server, e PortsBound, now time.Time) Server {
	if e.Host != s.Host {
		return s // late
	}
	adds := s.AwaitsBindings() && !s.withdraws()
	for _, p := range s.Ports {
		bound := slices.ContainsFunc(e.Ports, func(b Port) bool { return b.ID == p.ID })
		switch reason, lost := e.Lost[p.ID]; {
		case bound || slices.Contains(s.DeletedPorts, p.ID):
		case lost:
			s = onPortLost(s, p.ID, reason, now)
		default: // its deletion was not reported
			s = recordDeletedPort(s, p.ID, "the network service has deleted port "+p.ID, now)
		}
	}
	s.Ports = slices.Clone(e.Ports)
	if s.State == Active {
		s.PortsRefused = ""
	}
	s = addHistory(s, now, fmt.Sprintf("%s bound to %s", count(len(s.Ports), "port"), s.Host))
	s = onPortsShort(s, e.Short, now)
	switch {
	case adds && s.AwaitsBindings():
		return s // the agent has picked other devices meanwhile
	case adds:
		return advance(s, destinationPrepared{s.Host}, now)
	case s.Move != nil:
		return advance(s, portsBound{s.Host}, now)
	case s.State == BindingPorts:
		s.State = Spawning
	}
	return s
}

// onPortsShort records the ports that have not got what their policy, which has changed, requests.
func onPortsShort(s Server, short map[string]string, now time.Time) Server {
	for _, port := range slices.Sorted(maps.Keys(short)) {
		text := fmt.Sprintf("Port %s keeps the guarantee that it had before its policy changed: %s. Choose a smaller "+
			"policy, or make room or migrate the server; `berth heal ports` then allocates what the policy requests.", port,
			trimStop(short[port]))
		s.Refusal = &Fault{Code: 409, Message: text, Created: now}
		s = addHistory(s, now, text)
	}
	return s
}

// removeUnbound begins to remove what the host has of a guest whose ports cannot be bound there.
func removeUnbound(s Server, reason string, now time.Time) Server {
	s.PortsRefused = reason
	return addHistory(s, now, "removing the guest on "+s.Host+", which is not built: "+reason)
}

// onUnboundRemoved tries another host after the agent has removed what it had of the guest.
func onUnboundRemoved(s Server, now time.Time) Server {
	reason := s.PortsRefused
	s.PortsRefused = ""
	return onGuestFailed(s, reason, now)
}

// onPortsNotBound tries another host, after the agent of this one has freed the devices of the guest. A guest that has
// returned to the source of a move is started there; the binding is retried.
func onPortsNotBound(s Server, e PortsNotBound, now time.Time) Server {
	switch {
	case e.Host != s.Host:
		return s // late
	case s.awaitsPorts(), s.AwaitsBindings() && !s.withdraws():
		return removeUnbound(s, e.Reason, now)
	case s.Move != nil:
		lastReason := unlessAgain(s, lastFailure(s, e.Reason))
		return advance(s, destinationFailed{host: s.Host, message: e.Reason, lastReason: lastReason}, now)
	case s.State == BindingPorts:
		return reschedule(s, e.Reason, now)
	case s.StartAwaitsPorts():
		s.PortsRefused = e.Reason
		return addHistory(s, now, "starting the guest on "+s.Host+" without its ports, which are tried again: "+e.Reason)
	}
	return s
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
