package ports

import (
	"context"
	"reflect"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// This file adds bindings of ports to the destination of a live migration before the guest leaves, and makes them
// active when it has arrived, so that the network of the destination is prepared meanwhile. A network service without
// the extension binding-extended has one binding for each port: then it is changed when the guest has arrived.

// inactive is the status of a further binding of a port.
const inactive = "INACTIVE"

// bindingError is the type of the fault if no agent of a host can bind a port; Neutron returns it with status 500.
const bindingError = "PortBindingError"

// AddBindings adds the inactive bindings of a server's ports to the destination. It leaves out ports as Bind does.
func (b *Binder) AddBindings(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	bound := lifecycle.PortsBound{Host: s.Host}
	devices, err := b.devicesOfPorts(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, want := range s.Ports {
		p, err := b.addBinding(ctx, s, want, devices)
		switch {
		case err == nil:
			bound.Ports = append(bound.Ports, p)
		case fault.CodeOf(err) == portGone && leftOut(s, want.ID):
		case scheduler.RefusedByNetwork(err) || fault.CodeOf(err) == bindingError:
			return lifecycle.PortsNotBound{Host: s.Host, Reason: fault.TextOf(err)}, nil
		default:
			return nil, err
		}
	}
	return bound, nil
}

// addBinding adds the inactive binding of one port. A binding with another profile is of an earlier attempt, and is
// replaced.
func (b *Binder) addBinding(ctx context.Context, s lifecycle.Server, want lifecycle.Port,
	devices map[string]pci.Offered) (lifecycle.Port, error) {
	p, err := b.ownPort(ctx, s, want.ID)
	if err != nil {
		return want, err
	}
	profile := boundProfile(p.Profile, want, devices)
	want.Device = network.SlotOf(profile)
	all, err := b.Network.PortBindings(ctx, p.ID)
	if fault.Is(err, fault.NotFound) { // no such extension: the port exists
		return want, nil
	}
	if err != nil {
		return want, err
	}
	there, exists := bindingOn(all, s.Host)
	if exists && there.Status == inactive && !reflect.DeepEqual(there.Profile, profile) {
		if err := b.Network.DeletePortBinding(ctx, p.ID, s.Host); err != nil {
			return want, err
		}
		exists = false
	}
	if !exists {
		if there, err = b.Network.BindPort(ctx, p.ID, s.Host, p.VNIC, profile); err != nil {
			return want, err
		}
	}
	if there.VIF == bindingFailed {
		p.VIFDetails = there.VIFDetails
		return want, unbindable(s, p)
	}
	want.VIF = there.VIF
	p.VIF, p.VIFDetails = there.VIF, there.VIFDetails
	return scheduler.WithDetails(want, p), nil
}

// switchBinding makes the binding of a port to the host of a server active, if it is inactive, and then removes the
// others. It returns the port as it is then. Only servers that were migrated live have such bindings. A port without a
// host has none, such as one that is attached afterwards; Neutron does not list the bindings of a port without owner.
func (b *Binder) switchBinding(ctx context.Context, s lifecycle.Server, p network.Port) (network.Port, error) {
	if !wasLive(s) || p.Host == "" {
		return p, nil
	}
	all, err := b.Network.PortBindings(ctx, p.ID)
	if fault.Is(err, fault.NotFound) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	there, exists := bindingOn(all, s.Host)
	if !exists {
		return p, nil // the update of the port binds it
	}
	if there.Status == inactive {
		if err := b.Network.ActivatePortBinding(ctx, p.ID, s.Host); err != nil {
			return p, err
		}
	}
	for _, other := range all {
		if other.Host == s.Host {
			continue
		}
		if err := b.Network.DeletePortBinding(ctx, p.ID, other.Host); err != nil {
			return p, err
		}
	}
	return b.Network.Port(ctx, p.ID)
}

// dropAddedBinding removes the inactive binding of a port to the host of a server that was migrated live, if there is
// one.
func (b *Binder) dropAddedBinding(ctx context.Context, s lifecycle.Server, p network.Port) error {
	if !wasLive(s) || s.Host == "" || p.Host == s.Host {
		return nil
	}
	return b.Network.DeletePortBinding(ctx, p.ID, s.Host)
}
