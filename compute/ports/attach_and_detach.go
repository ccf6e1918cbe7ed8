package ports

import (
	"context"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file attaches ports to servers whose guest exists, and detaches them. Placement keeps no amounts per port. So
// the amounts of a server's ports are not added or subtracted, but set to the sum over its ports, as the network
// service has them: this may be repeated after a crash.

// Change performs the change of a port of the server, or the next part of it.
func (b *Binder) Change(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	ports, err := b.Scheduler.PortsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	switch change := s.PortChange; {
	case change.Detach != "":
		if err := b.releasePort(ctx, s, ports, change.Detach); err != nil {
			return nil, err
		}
		return lifecycle.PortDetached{ID: change.ID}, nil
	case change.Refused != "":
		if err := b.releasePort(ctx, s, ports, change.Port.ID); err != nil {
			return nil, err
		}
		return lifecycle.PortNotAttached{ID: change.ID, Reason: change.Refused}, nil
	case change.Device != nil:
		return b.bindPickedPort(ctx, s)
	}
	return b.attachPort(ctx, s, ports)
}

// releasePort returns a port, and then releases what Placement has for it: a port that is not bound any more has no
// amounts that the network service could change. A port that does not exist is released.
func (b *Binder) releasePort(ctx context.Context, s lifecycle.Server, ports []network.Port, id string) error {
	amounts := Amounts{Port: id, Devices: true}
	for _, p := range ports {
		if p.ID != id {
			continue
		}
		amounts.Was = amountsOf([]network.Port{p})
		if err := b.returnPort(ctx, s, p); err != nil {
			return err
		}
	}
	return b.SetAmounts(ctx, s, amounts)
}

// returnPort deletes the port of a change if compute has created it, and returns another one to the user. A port that
// does not belong to the server any more stays as it is.
func (b *Binder) returnPort(ctx context.Context, s lifecycle.Server, p network.Port) error {
	p, err := b.ownPort(ctx, s, p.ID)
	switch {
	case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict):
		return nil
	case err != nil:
		return err
	case s.PortChange.Request.Port == "":
		return b.Network.DeletePort(ctx, p.ID)
	}
	return b.unbind(ctx, p, returned(s, p))
}

// attachPort creates or reserves the port, claims what it requests on the host of the server, and binds it. If a later
// part is refused, the earlier ones are undone.
func (b *Binder) attachPort(ctx context.Context, s lifecycle.Server, ports []network.Port) (lifecycle.Event,
	error) {
	change := *s.PortChange
	used := map[string]bool{}
	for _, p := range s.Ports {
		used[p.ID] = true
	}
	p, err := b.portOf(ctx, s, change.Request, ports, used)
	if err != nil && scheduler.RefusedByNetwork(err) {
		// before an interruption it may have been there, and claimed
		if err := b.releasePort(ctx, s, ports, change.Request.Port); err != nil {
			return nil, err
		}
		return lifecycle.PortNotAttached{ID: change.ID, Reason: fault.TextOf(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	n, err := b.Network.Network(ctx, p.Network)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	want := scheduler.ReadPort(p, change.Request, n.Name)
	want.DNSName = scheduler.GivenName(s, p)
	_, needsDevice := portrequest.Class(want.VNIC)
	var device *pci.Request
	refusal, err := b.countAttached(ctx, s, want)
	// a port without a device that is bound was bound before an interruption, with its allocation
	if err == nil && refusal == "" && (p.Host != s.Host || needsDevice) {
		want, device, refusal, err = b.claimPort(ctx, s, want, scheduler.WantsOf(s, want, p, n))
	}
	if err == nil && refusal == "" && device != nil {
		return lifecycle.PortClaimed{ID: change.ID, Port: want, Device: *device}, nil
	}
	if err == nil && refusal == "" {
		b := portBinding{Binder: b, server: s, verify: true}
		if want, err = b.bind(ctx, want); err != nil && scheduler.RefusedByNetwork(err) {
			refusal, err = fault.TextOf(err), nil
		}
	}
	if err == nil && refusal != "" {
		err = b.releasePort(ctx, s, append(without(ports, p.ID), p), p.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case refusal != "":
		return lifecycle.PortNotAttached{ID: change.ID, Reason: refusal}, nil
	}
	return lifecycle.PortAttached{ID: change.ID, Port: want}, nil
}

// claimPort claims what a port requests within the provider tree of the server's host, and returns the request of the
// device that the port needs; nil if it needs none. It tries all candidates.
func (b *Binder) claimPort(ctx context.Context, s lifecycle.Server, want lifecycle.Port, wants portrequest.Port) (
	claimed lifecycle.Port, device *pci.Request, refusal string, err error) {
	want.Allocation = nil
	others := Amounts{Port: want.ID, Devices: true}
	ask, devices, err := b.Scheduler.WithPorts(ctx, resource.Ask{Limit: scheduler.MaxCandidates},
		[]portrequest.Port{wants})
	switch {
	case fault.Is(err, fault.Invalid) || fault.Is(err, fault.Conflict):
		return want, nil, fault.TextOf(err), nil
	case err != nil:
		return want, nil, "", err
	case len(devices) > 0:
		device = &devices[0]
	}
	if err := b.SetAmounts(ctx, s, others); err != nil { // an interrupted claim may have changed them
		return want, nil, "", err
	}
	if len(ask.Groups) == 0 {
		return want, device, "", nil
	}
	choices, refusal, err := b.Scheduler.PortChoices(ctx, s, ask, devices)
	if err != nil {
		return want, nil, "", err
	}
	for _, choice := range choices {
		more := others
		more.Of = choice.Allocation
		if err = b.SetAmounts(ctx, s, more); err == nil {
			if device != nil {
				device.Providers = choice.Mappings[device.GroupSuffix(0)]
			}
			return portOn(want, choice.Mappings), device, "", nil
		}
		if !placement.Refused(err) {
			return want, nil, "", err
		}
	}
	if refusal != "" {
		refusal = ": " + refusal
	}
	return want, nil, "Failed to allocate additional resources to instance " + s.ID + ": host " + s.Host +
		" has no room for what the port requests" + refusal + "; migrate the server, or request less", nil
}

// portOn returns a port with the providers that a candidate has for its groups.
func portOn(p lifecycle.Port, mappings map[string][]provider.ID) lifecycle.Port {
	p.Allocation = map[string]provider.ID{}
	for _, g := range p.Groups {
		if at := mappings[g.Suffix]; len(at) > 0 {
			p.Allocation[g.Suffix] = at[0]
		}
	}
	return p
}

// bindPickedPort binds a port that is being attached with the device that the agent has picked for it.
func (b *Binder) bindPickedPort(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	change, withPort := *s.PortChange, s
	withPort.Ports = []lifecycle.Port{*change.Port}
	devices, err := b.devicesOfPorts(ctx, withPort)
	if err != nil {
		return nil, err
	}
	p, err := portBinding{Binder: b, server: s, devices: devices, verify: true}.bind(ctx, *change.Port)
	switch {
	case err == nil:
		return lifecycle.PortAttached{ID: change.ID, Port: p}, nil
	case scheduler.RefusedByNetwork(err) && fault.CodeOf(err) != placement.CodeConcurrentUpdate:
		return lifecycle.PortRefused{ID: change.ID, Reason: fault.TextOf(err)}, nil
	}
	return nil, err
}
