package loop

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// missingAllocation is a server whose devices were not in its allocation at a sync.
type missingAllocation struct {
	want       host.Server // its assignment then
	heartbeats int         // heartbeats of the assignments then
	seenTwice  bool        // also at an earlier sync with the same assignment
}

// secondSync is the maximum interval to the next sync after a sync that found a missing allocation.
const secondSync = 5 * time.Second

// holderStates returns a function that reports to heal which missing allocations it may write. A missing allocation may
// be part of a move: compute first transfers the allocations to the migration and changes the assignments a moment
// later.
//
// An allocation is therefore written only for a server whose assignment compute has confirmed, and only in one of two
// cases: the server has just claimed its devices, when no move can be in progress; or the allocation was missing at
// two syncs under the same assignment, with a message of assignments between them. Other servers of the host may come
// and go meanwhile. An agent that receives no assignments writes nothing: its assignments may be outdated, and the
// missing allocation may belong to another host.
func (a *Agent) holderStates(fresh map[string]bool) func(resource.ConsumerID) heal.HolderState {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, was, confirmed := a.assignments, maps.Clone(a.missing), maps.Clone(a.confirmed)
	disconnected := !l.received || a.notFollowed != "" || a.o.Now().Sub(l.receivedAt) > 3*host.Heartbeat
	return func(c resource.ConsumerID) heal.HolderState {
		want, wanted := l.servers[string(c)]
		known, is := confirmed[string(c)]
		before, lacked := was[c]
		switch {
		case disconnected:
			return heal.Pending
		case !wanted:
			return heal.Unassigned
		case !is || !reflect.DeepEqual(known, want):
			return heal.Pending
		case fresh[string(c)] || lacked && before.heartbeats != l.heartbeats && reflect.DeepEqual(before.want, want):
			return heal.Assigned
		}
		return heal.Moving
	}
}

// newlyClaimedServers returns the servers whose claim compute has just confirmed.
func (a *Agent) newlyClaimedServers() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.newlyClaimed)
}

// dropNewlyClaimed removes servers whose plan was executed or discarded from the newly claimed ones.
func (a *Agent) dropNewlyClaimed(fresh map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.newlyClaimed, func(id string, _ bool) bool { return fresh[id] })
}

// recordMissing records which servers have a missing allocation.
func (a *Agent) recordMissing(d planInput) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.missing
	a.missing = map[resource.ConsumerID]missingAllocation{}
	for _, c := range heal.Lacking(d.aim, d.uses) {
		want := a.assignments.servers[string(c)]
		before, known := was[c]
		same := known && reflect.DeepEqual(before.want, want)
		a.missing[c] = missingAllocation{want: want, heartbeats: a.assignments.heartbeats, seenTwice: same &&
			before.heartbeats != a.assignments.heartbeats}
	}
}

// confirmClaim records that compute has confirmed the claim of a server. If its allocations may be missing in
// Placement, the next sync writes them.
func (a *Agent) confirmClaim(want host.Server, picked []device.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reflect.DeepEqual(a.assignments.servers[want.ID], want) {
		return
	}
	a.confirmed[want.ID] = want
	counted := func(c device.Claim) bool { return c.Provider != "" }
	// Placement selected the devices and has the allocation
	chosen := func(r host.Request) bool { return len(r.Providers) > 0 }
	if a.o.ReportInPlacement && slices.ContainsFunc(picked, counted) && !slices.ContainsFunc(want.Requests, chosen) {
		a.newlyClaimed[want.ID] = true
		signal(a.syncNow)
	}
}

// nextSync returns the maximum wait until the next sync.
func (a *Agent) nextSync() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, l := range a.missing {
		if _, wanted := a.assignments.servers[string(c)]; !l.seenTwice && wanted {
			return secondSync
		}
	}
	return a.o.Rescan
}

// reshape writes inventories and allocations in one request. It fails when a consumer has changed since it was read.
func (a *Agent) reshape(ctx context.Context, d planInput, s heal.Step, generations map[provider.ID]int) error {
	r := placement.Reshape{Inventories: map[provider.ID]placement.InventorySet{},
		Allocations: map[resource.ConsumerID]placement.ConsumerAllocation{}}
	for id, stock := range s.InventorySets {
		generation, written := generations[id]
		if !written {
			generation = stock.Generation
		}
		r.Inventories[id] = placement.InventorySet{Generation: generation, Inventories: stock.Inventories}
	}
	for consumer, allocation := range s.Allocations {
		held := d.held[consumer]
		held.Allocation = allocation
		r.Allocations[consumer] = held
	}
	return a.o.Placement.Reshape(ctx, r)
}
