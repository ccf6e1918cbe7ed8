package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// This file keeps a compute whose database was restored from a backup from damaging what happened since. Its records
// may say that a server is being claimed, moved or deleted that has long been running elsewhere: carrying on would give
// back or replace the allocation of a guest that runs. The hosts' agents know better, so compute hears them before it
// goes on with what it was doing, and leaves alone the servers whose guests contradict its records.

// openGate waits for the first reports of the hosts whose agents were alive when compute ended, at most firstReports.
func (c *Conductor) openGate(ctx context.Context) error {
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return err
	}
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return err
	}
	c.presence.await(recent(hosts, dead))
	timer := time.NewTimer(c.firstReports)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.presence.gate:
	case <-timer.C:
		missing := c.presence.stopWaiting()
		c.Log.Warn("hosts have not reported since compute's start", "hosts", missing, "waited", c.firstReports)
	}
	return nil
}

// recent lists the hosts whose last report is not much older than the newest one.
func recent(hosts []schedule.Host, dead []string) (names []string) {
	var newest time.Time
	for _, h := range hosts {
		if h.Seen.After(newest) {
			newest = h.Seen
		}
	}
	for _, h := range hosts {
		if newest.Sub(h.Seen) < schedule.Silence && !slices.Contains(dead, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// mayWrite returns why a step that writes to Placement must not be done for a server now; nil when it may. The fault is
// Unavailable.
func (c *Conductor) mayWrite(ctx context.Context, s lifecycle.Server) error {
	const op = "conductor.mayWrite"
	if s.Created.Before(c.started) { // else no database that is older than this process knows it
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, op, ctx.Err())
		case <-c.presence.gate:
		}
	}
	conflicts, err := c.conflicts(ctx, s)
	if err != nil {
		return err
	}
	for _, at := range conflicts {
		switch {
		case at.behind:
			return fault.New(fault.Unavailable, op, "host %s follows newer assignments than compute's database has, as after a restored backup, "+
				"so what this server holds is not touched; restore the newest database, or run `berth agent adopt` on that host", at.host)
		default:
			return fault.New(fault.Unavailable, op, "host %s has a guest of this server, and compute has not placed it there, as after a restored backup, "+
				"so what this server holds is not touched; run `berth agent destroy %s` on that host if the guest is not needed", at.host, at.guest)
		}
	}
	return nil
}

// refuse returns why a report of a guest must be refused; nil when it is taken: that of a claim whose guest must not be
// built, and the failure of a guest that the server has left, as after a restored backup.
func (c *Conductor) refuse(ctx context.Context, server string, report lifecycle.Event) error {
	claim, claims := report.(lifecycle.GuestClaimed)
	failure, fails := report.(lifecycle.GuestFailed)
	if !claims && !fails {
		return nil
	}
	s, err := c.store.Read(ctx, server)
	switch {
	case err != nil:
		return err
	case claims:
		return c.mayBuild(ctx, s, claim)
	case s.State == lifecycle.PreLiveMigration: // later the destination may have a part of the guest
		return c.movedAhead(ctx, s, failure.Consumer)
	}
	return nil
}

// mayBuild returns why a host must not build a guest of a server now; nil when it may. The faults are Unavailable when
// not all hosts have reported since compute's start, and Conflict when another host has a guest of the server that
// compute has not placed there, or that has arrived there from the host: after all databases were restored from one
// backup, Placement has the server's allocation on the host of the old record, and nothing else there tells that the
// server has moved since.
func (c *Conductor) mayBuild(ctx context.Context, s lifecycle.Server, claim lifecycle.GuestClaimed) error {
	const op = "conductor.mayBuild"
	on := claim.Host
	select {
	case <-c.presence.gate:
	default:
		if s.Created.Before(c.started) { // else no database that is older than this process knows it
			return fault.New(fault.Unavailable, op, "not all hosts have reported since compute's start, so another one may have a guest of this server; try again")
		}
	}
	conflicts, err := c.conflicts(ctx, s)
	if err != nil {
		return err
	}
	for _, at := range conflicts {
		if at.host != on {
			return fault.New(fault.Conflict, op, "not built, because host %s has a guest of this server, and compute has not placed it there, as after "+
				"a restored backup; run `berth agent destroy %s` on host %s if that guest is not needed", at.host, at.guest, at.host)
		}
	}
	for _, g := range c.presence.guestsOf(on) {
		if g.ID != claim.Consumer && s.Contradicts(on, false, []schedule.Present{g}) {
			return fault.New(fault.Conflict, op, "not built, because this host has guest %s of the server, and compute has "+
				"not placed it there, as after a restored backup; run `berth agent destroy %s` on this host if that "+
				"guest is not needed", g.ID, g.ID)
		}
	}
	return c.movedAhead(ctx, s, claim.Consumer)
}

// movedAhead returns a Conflict if the guest of a consumer at the source of a move is no longer the server's, because
// the destination reports the server's guest.
func (c *Conductor) movedAhead(ctx context.Context, s lifecycle.Server, consumer string) error {
	if !s.MovedAhead(consumer, c.presence.guestsOf(s.Host)) {
		return nil
	}
	dead, err := c.store.Dead(ctx)
	if err != nil || slices.Contains(dead, s.Host) {
		return err
	}
	return fault.New(fault.Conflict, "conductor.movedAhead", "the server has moved to host %s, which reports its guest; "+
		"compute records that as soon as that host follows the assignments", s.Host)
}

// keepOthers gives what the server's own consumer holds in Placement to another consumer of the server, if the record
// says that it is that one's and it holds nothing. Claiming for the server, or releasing what it holds, would free the
// devices of a guest that runs.
func (c *Conductor) keepOthers(ctx context.Context, s lifecycle.Server) error {
	if s.Move == nil && len(s.Leftovers) == 0 {
		return nil
	}
	own, err := c.placement.Allocation(ctx, resource.ConsumerID(s.ID))
	if err != nil {
		return err
	}
	other := resource.ConsumerID(s.HeldFor(own.Allocation))
	if other == "" {
		return nil
	}
	held, err := c.placement.Allocation(ctx, other)
	if err != nil || len(held.Allocation) > 0 {
		return err
	}
	c.Log.Warn("allocation of a server kept for its other guest", "server", s.ID, "consumer", other)
	_, err = c.hand(ctx, s, resource.ConsumerID(s.ID), other, "MIGRATION")
	return err
}

// conflicts lists the hosts that contradict the record of a server, without those that an operator has declared dead.
func (c *Conductor) conflicts(ctx context.Context, s lifecycle.Server) ([]conflict, error) {
	list := c.presence.conflicts(s)
	if len(list) == 0 {
		return nil, nil
	}
	dead, err := c.store.Dead(ctx)
	return slices.DeleteFunc(list, func(at conflict) bool { return slices.Contains(dead, at.host) }), err
}
