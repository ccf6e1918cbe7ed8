package ports

import (
	"context"
	"reflect"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Bind binds the ports of a server to its host. It repeats what is done already without effect. In state Active a
// port that cannot be bound is an error, which is retried: the guest exists. If its start waits for the ports, this is
// reported first. A port that does not exist any more, or that has another device than the server, is left out then;
// one that does not exist also if its deletion was reported and it needs no device.
func (b *Binder) Bind(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if b.Network == nil {
		_, err := b.Scheduler.PortsOf(ctx, s)
		return nil, err
	}
	if addsBindings(s) {
		return b.AddBindings(ctx, s)
	}
	bound := lifecycle.PortsBound{Host: s.Host, Lost: map[string]string{}, Short: map[string]string{}}
	devices, err := b.devicesOfPorts(ctx, s)
	if err != nil {
		return nil, err
	}
	held, err := b.Writer.Allocation(ctx, resource.ConsumerID(s.ID))
	if err != nil {
		return nil, err
	}
	claimed := resource.Allocation{}
	for _, p := range s.Ports {
		claimed = claimed.Add(guaranteesOf(p))
	}
	active := s.State == lifecycle.Active
	binding := portBinding{Binder: b, server: s, devices: devices, guest: active, short: bound.Short,
		verify: !portClassesOf(held.Allocation).Equal(claimed)}
	for i := range s.Ports {
		p, err := binding.bind(ctx, s.Ports[i])
		switch {
		case err == nil:
			bound.Ports = append(bound.Ports, p)
		case fault.CodeOf(err) == portGone && (active || leftOut(s, s.Ports[i].ID)):
			b.Log.Warn("port of server is gone", "server", s.ID, "port", s.Ports[i].ID)
		case fault.CodeOf(err) == otherDevice && active:
			b.Log.Warn("port of server has another device", "server", s.ID, "port", s.Ports[i].ID, "error", err)
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
			b.Writer.Pause(ctx, attempt)
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
	attributes := withDNSName(s, p, map[string]any{deviceID: s.ID, deviceOwner: owner(s), hostID: s.Host,
		profile: binding})
	_, named := attributes[dnsName]
	if named {
		want.DNSName = s.DNSName()
	}
	if p.Host != s.Host || p.DeviceOwner != owner(s) || !reflect.DeepEqual(binding, p.Profile) || named {
		p, err = b.Network.UpdatePortAt(ctx, want.ID, p.Revision, attributes)
		if err != nil {
			return want, ofPort(err)
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

// portBinding binds ports of a server to its host.
type portBinding struct {
	*Binder

	server  lifecycle.Server
	devices map[string]pci.Offered // by port
	guest   bool                   // the guest exists: a guarantee without room does not prevent the binding
	short   map[string]string      // why ports have less than they request, by port; set by bind
	// the amounts in Placement may not be those of the record: an interrupted attempt has set those of another policy
	verify bool
}
