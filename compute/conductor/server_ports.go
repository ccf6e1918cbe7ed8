package conductor

import (
	"context"
	"fmt"
	"reflect"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// preparePorts creates the missing ports of a server, reserves the others for it, and reads them all. A port has the
// server as its device, so after a crash a created one is found again. It returns why the server cannot have its ports.
func (d *portBinder) preparePorts(ctx context.Context, s lifecycle.Server) (all scheduler.Ports, refusal string,
	err error) {
	return d.scheduler.CollectPorts(ctx, s, d.portOf)
}

// portsOf is the method of reading, for what writes.
func (d *portBinder) portsOf(ctx context.Context, s lifecycle.Server) ([]network.Port, error) {
	return d.scheduler.PortsOf(ctx, s)
}

// portOf returns the port of a requested network: an existing one of the server, or one that is created or reserved
// now. Ports in used belong to other requests.
func (d *portBinder) portOf(ctx context.Context, s lifecycle.Server, r lifecycle.NetworkRequest,
	existing []network.Port, used map[string]bool) (network.Port, error) {
	if r.Port != "" {
		return d.reserve(ctx, s, r.Port)
	}
	if p, found := scheduler.PortOfRequest(r, existing, used); found {
		return p, nil
	}
	attributes := map[string]any{"network_id": r.Network, "project_id": s.Project, deviceID: s.ID,
		deviceOwner: owner(s), "admin_state_up": true}
	if r.FixedIP != "" {
		attributes["fixed_ips"] = []map[string]string{{"ip_address": r.FixedIP}}
	}
	return d.Network.CreatePort(ctx, attributes)
}

// reserve makes the server the device of an existing port, so that no other server gets it.
func (d *portBinder) reserve(ctx context.Context, s lifecycle.Server, id string) (network.Port, error) {
	p, err := d.Network.Port(ctx, id)
	switch {
	case err != nil || p.Device == s.ID:
		return p, err
	case p.Device != "":
		return p, scheduler.PortInUse(p)
	}
	return d.Network.UpdatePort(ctx, id, map[string]any{deviceID: s.ID})
}

// bindPorts binds the ports of a server to its host. It repeats what is done already without effect. In state Active a
// port that cannot be bound is an error, which is retried: the guest exists. If its start waits for the ports, this is
// reported first. A port that does not exist any more, or that has another device than the server, is left out then;
// one that does not exist also if its deletion was reported and it needs no device.
func (d *portBinder) bindPorts(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if d.Network == nil {
		_, err := d.portsOf(ctx, s)
		return nil, err
	}
	if addsBindings(s) {
		return d.addBindings(ctx, s)
	}
	bound := lifecycle.PortsBound{Host: s.Host, Lost: map[string]string{}, Short: map[string]string{}}
	devices, err := d.devicesOfPorts(ctx, s)
	if err != nil {
		return nil, err
	}
	held, err := d.placement.Allocation(ctx, resource.ConsumerID(s.ID))
	if err != nil {
		return nil, err
	}
	claimed := resource.Allocation{}
	for _, p := range s.Ports {
		claimed = claimed.Add(guaranteesOf(p))
	}
	active := s.State == lifecycle.Active
	b := portBinding{portBinder: d, server: s, devices: devices, guest: active, short: bound.Short,
		verify: !portClassesOf(held.Allocation).Equal(claimed)}
	for i := range s.Ports {
		p, err := b.bind(ctx, s.Ports[i])
		switch {
		case err == nil:
			bound.Ports = append(bound.Ports, p)
		case fault.Is(err, fault.NotFound) && (active || leftOut(s, s.Ports[i].ID)):
			d.Log.Warn("port of server is gone", "server", s.ID, "port", s.Ports[i].ID)
		case fault.CodeOf(err) == otherDevice && active:
			d.Log.Warn("port of server has another device", "server", s.ID, "port", s.Ports[i].ID, "error", err)
			bound.Lost[s.Ports[i].ID] = fault.TextOf(err)
		case active && !s.StartAwaitsPorts() || !scheduler.RefusedByNetwork(err):
			return nil, err
		default:
			return lifecycle.PortsNotBound{Host: s.Host, Reason: fault.TextOf(err)}, nil
		}
	}
	return bound, nil
}

// bindTries is how often the binding of a port is tried while other clients change the port.
const bindTries = 5

// bind binds one port of a record, with its device if it needs one. It returns fault.Conflict if the network service
// cannot bind it to the host. If another client changes the port meanwhile, such as its policy, it begins again with
// what the port is now.
func (b portBinding) bind(ctx context.Context, record lifecycle.Port) (bound lifecycle.Port, err error) {
	for attempt := range bindTries {
		if attempt > 0 {
			b.Pause(ctx, attempt)
			b.verify = true // the attempt before has set the amounts of a policy that the port does not have any more
		}
		if bound, err = b.bindOnce(ctx, record); fault.CodeOf(err) != network.PortChanged {
			return bound, err
		}
	}
	return bound, fault.Wrap(fault.Unavailable, err)
}

// checkUnchanged returns a fault with the code PortChanged if a port that needs no update is not as it was read any
// more. The network service may have changed its amounts meanwhile, before those of the former policy were written.
func (b portBinding) checkUnchanged(ctx context.Context, read network.Port) error {
	now, err := b.Network.Port(ctx, read.ID)
	if err == nil && now.Revision != read.Revision {
		err = fault.New(fault.Conflict, "port %s has changed while its amounts were written; they are "+
			"written again", read.ID).WithCode(network.PortChanged)
	}
	return err
}

func (b portBinding) bindOnce(ctx context.Context, record lifecycle.Port) (want lifecycle.Port, err error) {
	s := b.server
	p, err := b.ownPort(ctx, s, record.ID)
	if err != nil {
		return record, err
	}
	if p, err = b.switchBinding(ctx, s, p); err != nil {
		return record, err
	}
	if want, err = b.claimPolicy(ctx, record, p); err != nil {
		return record, err
	}
	binding := boundProfile(p.Profile, want, b.devices)
	if p.Host != s.Host || p.DeviceOwner != owner(s) || !reflect.DeepEqual(binding, p.Profile) {
		p, err = b.Network.UpdatePortAt(ctx, want.ID, p.Revision, map[string]any{deviceID: s.ID, deviceOwner: owner(s),
			hostID: s.Host, profile: binding})
		if err != nil {
			return want, err
		}
	} else if err := b.checkUnchanged(ctx, p); err != nil {
		return want, err
	}
	if p.VIF == bindingFailed {
		return want, unbindable(s, p)
	}
	if mac, given := binding[network.ProfileMAC]; given && p.MAC != mac { // Neutron answers with the address from before
		if p, err = b.Network.Port(ctx, want.ID); err != nil {
			return want, err
		}
	}
	want.Host, want.VIF, want.MAC, want.FixedIPs = s.Host, p.VIF, p.MAC, nil
	want.Device = network.SlotOf(binding)
	want = scheduler.WithDetails(want, p)
	for _, ip := range p.FixedIPs {
		want.FixedIPs = append(want.FixedIPs, lifecycle.FixedIP(ip))
	}
	return want, nil
}

// releasePorts is the part of Release for ports. Those of a server that ends are deleted if compute created them, else
// they are returned to the user. Otherwise ports are unbound from the host whose claim is released. A server that ends
// may have ports that its record lacks: they were attached after the backup from which it was restored.
func (d *portBinder) releasePorts(ctx context.Context, s lifecycle.Server) error {
	ends := s.State == lifecycle.DeletingAllocation || s.State == lifecycle.Failing
	if len(s.Networks) == 0 && (!ends || d.Network == nil) {
		return nil
	}
	ports, err := d.portsOf(ctx, s)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if err := d.dropAddedBinding(ctx, s, p); err != nil {
			return fmt.Errorf("port %s is not released: %w", p.ID, err)
		}
		switch {
		case ends && createdFor(s, p):
			err = d.Network.DeletePort(ctx, p.ID)
		case ends:
			err = d.unbind(ctx, p, map[string]any{deviceID: "", deviceOwner: ""})
		case p.Host == s.Host && p.Host != "":
			err = d.unbind(ctx, p, map[string]any{})
		}
		if err != nil {
			return fmt.Errorf("port %s is not released: %w", p.ID, err)
		}
	}
	return nil
}

// createdFor reports whether compute has created a port of the server.
func createdFor(s lifecycle.Server, p network.Port) bool {
	inNetwork := false
	for _, r := range s.Networks {
		if r.Port == p.ID {
			return false
		}
		inNetwork = inNetwork || r.Port == "" && r.Network == p.Network
	}
	return inNetwork
}

// unbind removes the host of a port and what belongs to it. It returns nil if the port does not exist.
func (d *portBinder) unbind(ctx context.Context, p network.Port, attributes map[string]any) error {
	attributes[hostID], attributes[profile] = "", network.UnboundProfile(p.Profile)
	_, err := d.Network.UpdatePort(ctx, p.ID, attributes)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
