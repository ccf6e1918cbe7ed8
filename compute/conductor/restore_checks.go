package conductor

import (
	"context"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// This file prevents damage after the database of compute was restored from a backup. The restored records may state
// that a server is being claimed, moved or deleted although it has been running elsewhere since. Continuing its steps
// would release or replace the allocation of a running guest. So compute waits for the reports of the agents before it
// performs steps, and does not touch servers whose guests contradict its records.

// checkMayWrite returns fault.Unavailable if steps that write to Placement must not be performed for a server now.
func (d *dependencies) checkMayWrite(ctx context.Context, s lifecycle.Server) error {
	if !d.Agents.CreatedHere(s.ID) {
		if err := d.Wait(ctx, d.Agents.Gate()); err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
	}
	conflicts, err := d.conflicts(ctx, s)
	if err != nil {
		return err
	}
	for _, at := range conflicts {
		switch {
		case at.NotFollowed:
			return fault.New(fault.Unavailable, "allocations of this server not changed: host %s follows newer "+
				"assignments than compute's database has, as after a restored backup; restore the newest database, "+
				"or run `berth agent adopt` on that host", at.Host)
		default:
			return fault.New(fault.Unavailable, "allocations of this server not changed: host %s has a guest of "+
				"this server, and compute has not placed it there, as after a restored backup; run "+
				"`berth agent destroy %s` on that host if the guest is not needed", at.Host, at.Guest)
		}
	}
	return nil
}

// checkGuestReport returns a fault if a report of a guest must be refused: a claim of a guest that must not be built,
// and a failure of a guest whose server has moved to another host, as after a restored backup.
func (d *dependencies) checkGuestReport(ctx context.Context, server string, report lifecycle.Event) error {
	claim, claims := report.(lifecycle.GuestClaimed)
	failure, fails := report.(lifecycle.GuestFailed)
	if !claims && !fails {
		return nil
	}
	s, err := d.store.Read(ctx, server)
	switch {
	case err != nil:
		return err
	case claims:
		return d.checkMayBuild(ctx, s, claim)
	case s.Phase() == lifecycle.PreLiveMigration: // later the destination may have part of the guest's memory
		return d.checkNotMovedAhead(ctx, s, failure.Consumer)
	}
	return nil
}

// checkMayBuild returns a fault if a host must not build a guest of a server now: Unavailable if not all hosts have
// reported since compute's start; Conflict if another host has a guest of the server that compute has not placed there,
// or that has arrived there from this host. After all databases were restored from one backup, Placement has the
// server's allocation on the host of the old record, so only the reports show that the server has moved since.
func (d *dependencies) checkMayBuild(ctx context.Context, s lifecycle.Server, claim lifecycle.GuestClaimed) error {
	on := claim.Host
	select {
	case <-d.Agents.Gate():
	default:
		if !d.Agents.CreatedHere(s.ID) {
			return fault.New(fault.Unavailable, "guest not built: not all hosts have reported since compute's "+
				"start, so another one may have a guest of this server; try again")
		}
	}
	conflicts, err := d.conflicts(ctx, s)
	if err != nil {
		return err
	}
	for _, at := range conflicts {
		if at.Host != on {
			return fault.New(fault.Conflict, "guest not built: host %s has a guest of this server, and compute has "+
				"not placed it there, as after a restored backup; run `berth agent destroy %s` on host %s if that "+
				"guest is not needed", at.Host, at.Guest, at.Host)
		}
	}
	for _, g := range d.Agents.GuestsOf(on) {
		if g.ID != claim.Consumer && s.Contradicts(on, false, []schedule.Present{g}) {
			return fault.New(fault.Conflict, "guest not built: this host has guest %s of the server, and compute "+
				"has not placed it there, as after a restored backup; run `berth agent destroy %s` on this host if "+
				"that guest is not needed", g.ID, g.ID)
		}
	}
	return d.checkNotMovedAhead(ctx, s, claim.Consumer)
}

// checkNotMovedAhead returns fault.Conflict if the guest of a consumer at the source of a move is no longer the
// server's, because the destination reports the server's guest.
func (d *dependencies) checkNotMovedAhead(ctx context.Context, s lifecycle.Server, consumer string) error {
	if !s.MovedAhead(consumer, d.Agents.GuestsOf(s.Host)) {
		return nil
	}
	dead, err := d.store.Dead(ctx)
	if err != nil || slices.Contains(dead, s.Host) {
		return err
	}
	return fault.New(fault.Conflict, "the server has moved to host %s, which reports "+
		"its guest; compute records that as soon as that host follows the assignments", s.Host)
}

// protectOtherGuest transfers the allocation of the server's own consumer to another consumer of the server, if
// according to the record the allocation belongs to that one and that one has none. Otherwise a claim or a release for
// the server would free the devices of a running guest.
func (d *dependencies) protectOtherGuest(ctx context.Context, s lifecycle.Server) error {
	if s.Move == nil && len(s.Leftovers) == 0 {
		return nil
	}
	own, err := d.placement.Allocation(ctx, resource.ConsumerID(s.ID))
	if err != nil {
		return err
	}
	other := resource.ConsumerID(s.HeldFor(own.Allocation))
	if other == "" {
		return nil
	}
	held, err := d.placement.Allocation(ctx, other)
	if err != nil || len(held.Allocation) > 0 {
		return err
	}
	d.Log.Warn("allocation of a server kept for its other guest", "server", s.ID, "consumer", other)
	_, err = d.writer.Transfer(ctx, s, resource.ConsumerID(s.ID), other, "MIGRATION", nil)
	return err
}

// conflicts lists the hosts that contradict the record of a server, without those that an operator has declared dead.
func (d *dependencies) conflicts(ctx context.Context, s lifecycle.Server) ([]presence.Conflict, error) {
	list := d.Agents.Conflicts(s)
	if len(list) == 0 {
		return nil, nil
	}
	dead, err := d.store.Dead(ctx)
	return slices.DeleteFunc(list, func(at presence.Conflict) bool { return slices.Contains(dead, at.Host) }), err
}
