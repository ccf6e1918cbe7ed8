package ports

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// This file heals ports that a server has by its record and that are not bound to its host: the database of the network
// service is older than the record, or an administrator has changed the binding. The guest uses such a port, and
// another server can get it too.

// addLostPorts adds the ports of the server's record that are not bound to its host to a plan, bound as the record has
// them. A port that cannot be bound again is an entry of out, with the reason.
func (h portPlanner) addLostPorts(ctx context.Context, p *portsPlan, out *Healing) error {
	for _, recorded := range p.server.Ports {
		if slices.ContainsFunc(p.before, func(o network.Port) bool { return o.ID == recorded.ID }) {
			continue
		}
		port, err := h.network.Port(ctx, recorded.ID)
		switch {
		case fault.Is(err, fault.NotFound):
			h.notBound(out, recorded.ID, "it does not exist any more; detach it from the server")
		case err != nil:
			return err
		case port.Device != "" && port.Device != p.server.ID:
			h.notBound(out, recorded.ID, "its device is "+port.Device+"; detach it from one of them")
		default:
			bound, found := boundAsRecorded(p.server, p.host, port, recorded)
			if !found {
				h.notBound(out, recorded.ID, "host "+p.host.Name+" does not report its device "+recorded.Device+
					"; migrate the server")
				continue
			}
			p.before, p.bound = append(p.before, port), append(p.bound, bound)
		}
	}
	return nil
}

// notBound records a port that cannot be bound again.
func (h portPlanner) notBound(out *Healing, id, reason string) {
	out.Ports = append(out.Ports, HealedPort{ID: id, Reason: reason})
	out.State, out.Reason = NotAllocated, "port "+id+": "+reason
}

// boundAsRecorded returns a port with the binding that the record of its server has. ok is false if the host does not
// report the device of the port.
func boundAsRecorded(s lifecycle.Server, host schedule.Host, p network.Port, recorded lifecycle.Port) (
	bound network.Port, ok bool) {
	devices := map[string]pci.Offered{}
	for _, d := range host.Devices {
		if recorded.Device != "" && d.Address.String() == recorded.Device {
			devices[p.ID] = d
		}
	}
	now := recorded
	now.Groups, now.Allocation = scheduler.GroupsOf(p), nil
	for _, g := range now.Groups {
		if at := providerOf(recorded, g); at != "" {
			if now.Allocation == nil {
				now.Allocation = map[string]provider.ID{}
			}
			now.Allocation[g.Suffix] = at
		}
	}
	p.Device, p.DeviceOwner, p.Host = s.ID, owner(s), s.Host
	p.Profile = boundProfile(p.Profile, now, devices)
	return p, recorded.Device == "" || len(devices) > 0
}

// writePort changes a port in the network service from old to next: its device, its host and its binding profile. It
// returns fault.Conflict if no agent of the host can bind it.
func (b *Binder) writePort(ctx context.Context, s lifecycle.Server, old, next network.Port) error {
	attributes := map[string]any{}
	if next.Device != old.Device || next.DeviceOwner != old.DeviceOwner {
		attributes[deviceID], attributes[deviceOwner] = next.Device, next.DeviceOwner
	}
	if next.Host != old.Host {
		attributes[hostID] = next.Host
	}
	if len(next.Profile)+len(old.Profile) > 0 && !reflect.DeepEqual(next.Profile, old.Profile) {
		attributes[profile] = map[string]any{}
		if next.Profile != nil {
			attributes[profile] = maps.Clone(next.Profile)
		}
	}
	if len(attributes) == 0 {
		return nil
	}
	p, err := b.Network.UpdatePort(ctx, next.ID, attributes)
	if err == nil && next.Host != old.Host && next.Host != "" && p.VIF == bindingFailed {
		return unbindable(s, p)
	}
	return err
}
