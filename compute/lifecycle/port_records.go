package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

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

// HasPort reports whether the server has a port, or the device of one.
func (s Server) HasPort(id string) bool {
	_, hasDevice := s.DeviceOf(id)
	return hasDevice || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == id })
}

// RefusePortChange returns why no port can be attached or detached now, in the words of the Compute API; empty if one
// can. what is attach_interface or detach_interface.
func (s Server) RefusePortChange(what string) string {
	vm, task := s.VMState(), s.TaskState()
	switch {
	case s.State != Active || !slices.Contains([]string{"active", "stopped"}, vm):
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", what, s.ID, vm)
	case task != "":
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", what, s.ID, task)
	case s.PortChange != nil || !s.BoundTo(s.Host):
		return fmt.Sprintf("Cannot '%s' instance %s while its ports are being changed", what, s.ID)
	}
	return ""
}

// attachesPort reports whether a port is being attached, or a port of a network whose id is not known yet.
func (s Server) attachesPort(id string) bool {
	c := s.PortChange
	switch {
	case c == nil || c.ends():
		return false
	case c.Port != nil:
		return c.Port.ID == id
	}
	return c.Request.Port == id || c.Request.Port == ""
}

// detachPort begins the change that detaches a port. BindPorts may have left out a port that was deleted; its device
// and its allocation are released then.
func detachPort(s Server, change, id string, now time.Time) Server {
	port := Port{ID: id}
	if at := slices.IndexFunc(s.Ports, func(p Port) bool { return p.ID == id }); at >= 0 {
		port = s.Ports[at]
		s.Ports = slices.Delete(slices.Clone(s.Ports), at, at+1) // its agent detaches it
	}
	s.PortChange = &PortChange{ID: change, Detach: id, Request: requestOf(s, port), Port: &port}
	for _, r := range s.Requests {
		if r.Port != nil && r.Port.ID == id {
			return detachDevice(s, r, now)
		}
	}
	return addHistory(s, now, "detaching port "+id)
}

// requestOf returns the entry of Networks that a port belongs to.
func requestOf(s Server, p Port) NetworkRequest {
	for _, r := range s.Networks {
		if r.Port == p.ID || r.Port == "" && p.Created && r.Network == p.Network &&
			(r.FixedIP == "" || slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool { return ip.Address == r.FixedIP })) {
			return r
		}
	}
	return NetworkRequest{Port: p.ID, Network: p.Network}
}

// needPortDevices reports whether one of the requests is that of a port.
func needPortDevices(requests []pci.Request) bool {
	return slices.ContainsFunc(requests, func(r pci.Request) bool { return r.Port != nil })
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

// BoundTo reports whether all ports of the server are bound to a host, each with the device that the agent has picked.
func (s Server) BoundTo(host string) bool {
	return !slices.ContainsFunc(s.Ports, func(p Port) bool {
		picked, needed := s.DeviceOf(p.ID)
		return p.Host != host || needed && p.Device != picked.Address
	})
}
