package operations

import (
	"context"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// This file keeps the quotas of compute when the policies of bound ports change: compute counts what servers get more
// before Placement is called, and what they have when the change has ended. The second is an event that is repeated
// until compute has accepted it. Until then compute counts what it counted before and the growth.

// guarantees counts what ports of servers get in the quotas of compute.
type guarantees struct{ *Service }

// reserve counts what the servers of a change get more. It returns the refusal of compute: the code is OverQuota.
func (s guarantees) reserve(ctx context.Context, c store.Change) error {
	if s.Compute == nil {
		return nil
	}
	more, err := s.growth(ctx, c)
	if err != nil {
		return err
	}
	for server, amounts := range more {
		err := s.Compute.SendGuarantees(ctx, server, c.ID, compute.Guarantees{More: amounts})
		switch {
		case err == nil || fault.Is(err, fault.NotFound): // no such server, or OpenStack's Nova
		case fault.Is(err, fault.Conflict):
			return conflict("OverQuota", "the policy is not changed: %s (server %s); choose a smaller policy, or an "+
				"administrator raises the limit", fault.TextOf(err), server)
		default:
			return fault.New(fault.Unavailable, "the policy is not changed: compute does not confirm that the quota of "+
				"server %s permits it: %w; try again", server, err)
		}
	}
	return nil
}

// growth returns what a change gives to the ports of servers beside what they have, by server and resource class.
func (s guarantees) growth(ctx context.Context, c store.Change) (more map[string]map[string]int, err error) {
	sum := map[string]map[string]int{}
	add := func(p store.Port, sign int) {
		if sum[p.Device] == nil {
			sum[p.Device] = map[string]int{}
		}
		for class, n := range allocatedAmounts(p) {
			sum[p.Device][class] += sign * n
		}
	}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		clear(sum)
		for _, after := range c.Ports {
			before, _, err := store.Get[store.Port](ctx, tx, after.ID)
			if err != nil {
				return err
			}
			before.Device = after.Device
			add(before, -1)
			add(after, 1)
		}
		return nil
	})
	more = map[string]map[string]int{}
	for server, amounts := range sum {
		for class, n := range amounts {
			if n <= 0 {
				continue
			}
			if more[server] == nil {
				more[server] = map[string]int{}
			}
			more[server][class] = n
		}
	}
	return more, err
}

// allocatedAmounts returns what Placement has recorded for a port, by resource class.
func allocatedAmounts(p store.Port) map[string]int {
	all := map[string]int{}
	for _, a := range p.Allocated {
		for class, n := range a.Amounts {
			all[class] += n
		}
	}
	return all
}

// record records the events that a change has ended, one for each server whose ports it has changed.
func (s guarantees) record(ctx context.Context, tx *store.Tx, c store.Change) error {
	if s.Compute == nil {
		return nil
	}
	done := map[string]bool{}
	for _, p := range c.Ports {
		if done[p.Device] {
			continue
		}
		done[p.Device] = true
		e := store.Event{Base: store.Base{Project: p.Project}, Event: store.Guarantees, Server: p.Device, Change: c.ID}
		s.begin(&e.Base)
		if err := store.Put(ctx, tx, &e); err != nil {
			return err
		}
	}
	return nil
}

// send sends compute what the ports of a server have now. accepted is whether the event is done.
func (s guarantees) send(ctx context.Context, e store.Event) (accepted bool, err error) {
	ports, err := List[store.Port](ctx, s.Service, store.Filter{Devices: []string{e.Server}})
	if err != nil {
		return false, err
	}
	now := compute.Guarantees{Ports: map[string]compute.PortGuarantee{}}
	for _, p := range ports {
		if isServerPort(p) && p.Binding.Host != "" {
			now.Ports[p.ID] = compute.PortGuarantee{Revision: p.Number, Amounts: allocatedAmounts(p)}
		}
	}
	err = s.Compute.SendGuarantees(ctx, e.Server, e.Change, now)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return err == nil, err
}
