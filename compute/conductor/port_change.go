package conductor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file attaches ports to servers whose guest exists, and detaches them. Placement keeps no amounts per port. So
// the amounts of a server's ports are not added or subtracted, but set to the sum over its ports, as the network
// service has them: this may be repeated after a crash.

// ChangePort records that a port is to be attached to a server, or detached. It returns fault.Conflict if that cannot
// start now.
func (c *Conductor) ChangePort(ctx context.Context, id string, event lifecycle.PortChangeRequest) error {
	const op = "conductor.ChangePort"
	what, change := event.PortChange()
	s, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if refusal := s.RefusePortChange(what); refusal != "" {
		return fault.New(fault.Conflict, op, "%s", refusal)
	}
	if detach, is := event.(lifecycle.PortDetachRequested); is {
		if _, hasDevice := s.DeviceOf(detach.Port); hasDevice {
			return fault.New(fault.Conflict, op, "port %s has a device of the host, which a server keeps as long as its guest "+
				"exists; shelve the server, or delete it", detach.Port)
		}
	}
	s, err = c.runner.Apply(ctx, id, event)
	if err == nil && s.LastAction != change { // the server has changed since it was read
		return fault.New(fault.Conflict, op, "%s", cmp.Or(s.RefusePortChange(what), "the server has changed; try again"))
	}
	return err
}

// performPortChange performs the change of a port of the server.
func (d *portBinder) performPortChange(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	ports, err := d.portsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.PortChange.Detach != "" {
		return d.detachPort(ctx, s, ports)
	}
	return d.attachPort(ctx, s, ports)
}

// detachPort releases what Placement has for a port, and then the port. A port that does not exist is released.
func (d *portBinder) detachPort(ctx context.Context, s lifecycle.Server, ports []network.Port) (lifecycle.Event,
	error) {
	if err := d.setPortAmounts(ctx, s, amountsOf(without(ports, s.PortChange.Detach))); err != nil {
		return nil, err
	}
	for _, p := range ports {
		if p.ID != s.PortChange.Detach {
			continue
		}
		if err := d.returnPort(ctx, s.PortChange.Request, p); err != nil {
			return nil, err
		}
	}
	return lifecycle.PortDetached{ID: s.PortChange.ID}, nil
}

// returnPort deletes a port that compute has created, and returns another one to the user.
func (d *portBinder) returnPort(ctx context.Context, r lifecycle.NetworkRequest, p network.Port) error {
	if r.Port == "" {
		return d.Network.DeletePort(ctx, p.ID)
	}
	return d.unbind(ctx, p, map[string]any{deviceID: "", deviceOwner: ""})
}

// attachPort creates or reserves the port, claims what it requests on the host of the server, and binds it. If a later
// part is refused, the earlier ones are undone.
func (d *portBinder) attachPort(ctx context.Context, s lifecycle.Server, ports []network.Port) (lifecycle.Event,
	error) {
	change := *s.PortChange
	used := map[string]bool{}
	for _, p := range s.Ports {
		used[p.ID] = true
	}
	p, err := d.portOf(ctx, s, change.Request, ports, used)
	if err != nil {
		if refusedByNetwork(err) {
			return lifecycle.PortNotAttached{ID: change.ID, Reason: fault.TextOf(err)}, nil
		}
		return nil, err
	}
	n, err := d.Network.Network(ctx, p.Network)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "conductor.attachPort", err)
	}
	want, others := readPort(p, change.Request, n.Name), amountsOf(without(ports, p.ID))
	refusal, err := "", error(nil)
	if p.Host != s.Host { // else it was bound before an interruption, with its allocation
		want, refusal, err = d.claimPort(ctx, s, want, wantsOf(s, want, p, n), others)
	}
	if err == nil && refusal == "" {
		if want, err = d.bindPort(ctx, s, want, nil); err != nil && refusedByNetwork(err) {
			refusal, err = fault.TextOf(err), nil
		}
	}
	if err == nil && refusal != "" {
		if err = d.setPortAmounts(ctx, s, others); err == nil {
			err = d.returnPort(ctx, change.Request, p)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case refusal != "":
		return lifecycle.PortNotAttached{ID: change.ID, Reason: refusal}, nil
	}
	return lifecycle.PortAttached{ID: change.ID, Port: want}, nil
}

// claimPort claims what a port requests within the provider tree of the server's host. It tries all candidates. others
// is what the other ports of the server have.
func (d *portBinder) claimPort(ctx context.Context, s lifecycle.Server, want lifecycle.Port, wants portrequest.Port,
	others resource.Allocation) (claimed lifecycle.Port, refusal string, err error) {
	want.Allocation = nil
	ask, devices, err := d.withPorts(ctx, resource.Ask{Limit: maxCandidates}, []portrequest.Port{wants})
	switch {
	case fault.Is(err, fault.Invalid) || fault.Is(err, fault.Conflict):
		return want, fault.TextOf(err), nil
	case err != nil:
		return want, "", err
	case len(devices) > 0:
		return want, fmt.Sprintf("port %s has the vnic type %s and needs a device of the host, which a server gets "+
			"only when "+
			"its guest is built; name the port when the server is created", want.ID, want.VNIC), nil
	}
	if len(ask.Groups) == 0 {
		return want, "", nil
	}
	if err := d.setPortAmounts(ctx, s, others); err != nil { // an interrupted claim may have changed them
		return want, "", err
	}
	host, err := d.store.Host(ctx, s.Host)
	if err != nil {
		return want, "", err
	}
	for i := range ask.Groups {
		ask.Groups[i].InTree = host.Provider
	}
	got, err := d.placement.Candidates(ctx, ask)
	if err != nil {
		if refused(err) {
			return want, "Placement returns no candidates: " + fault.TextOf(err), nil
		}
		return want, "", err
	}
	for _, candidate := range got.List {
		err = d.setPortAmounts(ctx, s, sum(others, candidate.Allocation))
		if err == nil {
			return portOn(want, candidate.Mappings), "", nil
		}
		if !refused(err) {
			return want, "", err
		}
	}
	return want, "Failed to allocate additional resources to instance " + s.ID + ": host " + s.Host +
		" has no room for what the port requests; migrate the server, or request less", nil
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

// setPortAmounts sets the amounts that a server has for its ports in Placement. What it has of other classes stays,
// also on a provider that has less room than is in use.
func (d *portBinder) setPortAmounts(ctx context.Context, s lifecycle.Server, want resource.Allocation) (err error) {
	consumer := resource.ConsumerID(s.ID)
	for attempt := range claimTries {
		if attempt > 0 {
			d.pause(ctx, attempt)
		}
		held, err := d.placement.Allocation(ctx, consumer)
		if err != nil {
			return err
		}
		next := sum(lifecycle.WithoutPorts(held.Allocation), want)
		if next.Equal(held.Allocation) {
			return nil
		}
		kept := common(held.Allocation, next)
		held.Allocation, held.Project, held.User, held.ConsumerType = next, s.Project, s.User, "INSTANCE"
		held.Mappings = nil
		err = d.putTransferred(ctx, map[resource.ConsumerID]placement.ConsumerAllocation{consumer: held}, kept)
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			return err
		}
	}
	return fault.New(fault.Unavailable, "conductor.setPortAmounts", "the allocation of server %s changes too often", s.ID)
}

// amountsOf returns what bound ports have in Placement: the amounts of their groups on the providers of their
// allocation.
func amountsOf(ports []network.Port) resource.Allocation {
	all := resource.Allocation{}
	for _, p := range ports {
		if p.Request == nil {
			continue
		}
		on := p.Allocation()
		for _, g := range p.Request.Groups {
			if at := provider.ID(on[g.ID]); at != "" {
				all = sum(all, resource.Allocation{at: g.Resources})
			}
		}
	}
	return all
}

// common returns what two allocations both have.
func common(a, b resource.Allocation) resource.Allocation {
	both := resource.Allocation{}
	for id, amounts := range a {
		for class, n := range amounts {
			if least := min(n, b[id][class]); least > 0 {
				if both[id] == nil {
					both[id] = resource.Amounts{}
				}
				both[id][class] = least
			}
		}
	}
	return both
}

// sum returns the sum of two allocations.
func sum(a, b resource.Allocation) resource.Allocation {
	all := resource.Allocation{}
	for _, one := range []resource.Allocation{a, b} {
		for id, amounts := range one {
			total := maps.Clone(all[id])
			if total == nil {
				total = resource.Amounts{}
			}
			for class, n := range amounts {
				if n > 0 {
					total[class] += n
				}
			}
			if len(total) > 0 {
				all[id] = total
			}
		}
	}
	return all
}

// without returns ports without one.
func without(ports []network.Port, id string) []network.Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p network.Port) bool { return p.ID == id })
}
