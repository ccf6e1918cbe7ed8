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

// This file is the part of a port's change that concerns a device of the host.
//
// To attach such a port, ChangePort first claims what it requests in Placement: PortClaimed. The request of the device
// is then assigned to the agent of the host, which picks one and reports it. Now ChangePort is due again and binds the
// port with the device: PortAttached. The agent gives the device to the guest, and reports the port: the change ends.
//
// If the agent has no device, the port cannot be bound, or the hypervisor cannot attach the device, the request is
// withdrawn. When the agent has freed the device, ChangePort releases the allocation and returns the port. Detaching
// begins with the withdrawal. If the hypervisor cannot detach the device, the port stays attached.

// PortClaimed is the result of ChangePort for a port that needs a device: the server has the allocation that the port
// requests, and its agent has to pick the device.
type PortClaimed struct {
	ID     string
	Port   Port
	Device pci.Request
}

// PortRefused is the result of ChangePort if a port that needs a device cannot be bound. Its device and its allocation
// must be released.
type PortRefused struct{ ID, Reason string }

func (PortClaimed) event() {}
func (PortRefused) event() {}

// isReady reports whether ChangePort can continue: it does not wait for the agent.
func (c PortChange) isReady(s Server) bool {
	picked := slices.ContainsFunc(s.Devices, func(p schedule.Picked) bool {
		return c.Device != nil && p.RequestID == c.Device.ID
	})
	switch {
	case c.Device == nil:
		return true
	case c.ends():
		return !picked
	}
	return picked && !c.plugs(s)
}

// ends reports whether the server must lose the port.
func (c PortChange) ends() bool { return c.Detach != "" || c.Refused != "" }

// plugs reports whether the port is bound and the guest is to get its device.
func (c PortChange) plugs(s Server) bool {
	return c.Device != nil && !c.ends() && c.Port != nil &&
		slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == c.Port.ID })
}

// onPortDeviceChange applies the results of ChangePort that concern a device.
func onPortDeviceChange(s Server, e Event, now time.Time) Server {
	if !s.isDue(ChangePort) {
		return s
	}
	switch e := e.(type) {
	case PortClaimed:
		if s.PortChange.ID != e.ID || s.PortChange.Device != nil {
			return s
		}
		change := *s.PortChange
		change.Port, change.Device, s.PortChange = &e.Port, &e.Device, &change
		s.Requests = append(slices.Clone(s.Requests), e.Device)
		return addHistory(s, now, fmt.Sprintf("attaching port %s; waiting for the agent of %s to pick its device",
			e.Port.ID, s.Host))
	case PortRefused:
		if s.PortChange.ID == e.ID && s.PortChange.Device != nil && !s.PortChange.ends() {
			return withdrawPort(s, e.Reason, now)
		}
	}
	return s
}

// onPortPlugged continues the attachment of a port with the report of the agent that the guest has these ports.
func onPortPlugged(s Server, ports []string, now time.Time) Server {
	if s.PortChange == nil || !s.PortChange.plugs(s) || !slices.Contains(ports, s.PortChange.Port.ID) {
		return s
	}
	s = addAmounts(s, *s.PortChange.Device, 1)
	text := "attached port " + s.PortChange.Port.ID + " with its device"
	s.PortChange = nil
	return addHistory(s, now, text)
}

// onPortChangeRefused continues after the agent or its hypervisor has refused the change of a port. ok is false if no
// change of a port waits for it.
func onPortChangeRefused(s Server, reason string, now time.Time) (next Server, ok bool) {
	switch {
	case s.State != Active || s.PortChange == nil || s.PortChange.Device == nil:
		return s, false
	case s.PortChange.Refused != "":
		return s, true // the agent tries again until the guest does not have the device
	case s.PortChange.Detach != "":
		return keepPort(s, reason, now), true
	}
	return withdrawPort(s, reason, now), true
}

// withdrawPort begins to undo the attachment of a port: the guest and its agent have to give back the device.
func withdrawPort(s Server, reason string, now time.Time) Server {
	change := *s.PortChange
	change.Refused, s.PortChange = reason, &change
	s.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p Port) bool { return p.ID == change.Port.ID })
	s.Requests = withoutRequest(s.Requests, change.Device.ID)
	return addHistory(s, now, fmt.Sprintf("port %s is not attached, waiting for the agent of %s to free its device: %s",
		change.Port.ID, s.Host, reason))
}

// detachDevice begins to detach a port that has a device.
func detachDevice(s Server, device pci.Request, now time.Time) Server {
	s.PortChange.Device = &device
	s.Requests = withoutRequest(s.Requests, device.ID)
	s = addAmounts(s, device, -1)
	return addHistory(s, now, fmt.Sprintf("detaching port %s; waiting for the agent of %s to free its device",
		s.PortChange.Detach, s.Host))
}

// keepPort ends a detachment that the hypervisor has refused: the server keeps the port.
func keepPort(s Server, reason string, now time.Time) Server {
	change := *s.PortChange
	s.PortChange = nil
	s.Ports = append(slices.Clone(s.Ports), *change.Port)
	s.Requests = append(slices.Clone(s.Requests), *change.Device)
	s = addAmounts(s, *change.Device, 1)
	text := fmt.Sprintf("The port %s cannot be detached on %s: %s; it is attached as before. Stop the server and try "+
		"again.", change.Detach, s.Host, trimStop(reason))
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// portChangeOnDeadHost continues a change that waits for the agent of a dead host: nothing has the device any more.
func portChangeOnDeadHost(s Server, now time.Time) Server {
	if s.PortChange == nil || s.PortChange.Device == nil {
		return s
	}
	id := s.PortChange.Device.ID
	s.Devices = slices.DeleteFunc(slices.Clone(s.Devices), func(p schedule.Picked) bool { return p.RequestID == id })
	if !s.PortChange.ends() {
		s = withdrawPort(s, "host "+s.Host+" "+hostDead, now)
	}
	return s
}

// withoutRequest returns requests without one.
func withoutRequest(requests []pci.Request, id string) []pci.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r pci.Request) bool { return r.ID == id })
}

// addAmounts adds the devices of a request to the claimed allocation, or with sign -1 subtracts them.
func addAmounts(s Server, r pci.Request, sign int) Server {
	if len(r.Providers) == 0 || len(s.Choices) == 0 {
		return s
	}
	all := maps.Clone(s.Choices[0].Allocation)
	if all == nil {
		all = resource.Allocation{}
	}
	for _, p := range r.Providers {
		all[p] = maps.Clone(all[p])
		if all[p] == nil {
			all[p] = resource.Amounts{}
		}
		if all[p][r.Requirement.Class] += sign; all[p][r.Requirement.Class] <= 0 {
			delete(all[p], r.Requirement.Class)
		}
		if len(all[p]) == 0 {
			delete(all, p)
		}
	}
	s.Choices = slices.Clone(s.Choices)
	s.Choices[0].Allocation = all
	return s
}

// DeviceAmounts returns what the ports of the server have in Placement for their devices: on the providers of their
// requests, or on those that the agent has reported for them.
func (s Server) DeviceAmounts() resource.Allocation {
	all := resource.Allocation{}
	add := func(p provider.ID, class resource.Class) {
		if p == "" {
			return
		}
		if all[p] == nil {
			all[p] = resource.Amounts{}
		}
		all[p][class]++
	}
	for _, r := range s.Requests {
		if r.Port == nil {
			continue
		}
		for _, p := range r.Providers {
			add(p, r.Requirement.Class)
		}
		for _, d := range s.Devices {
			if len(r.Providers) == 0 && d.RequestID == r.ID {
				add(d.Provider, r.Requirement.Class)
			}
		}
	}
	return all
}
