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

// lacked is a server that lacked a share in Placement at a look.
type missingAllocation struct {
	want       host.Server // as compute wanted it then
	heartbeats int         // of the line then
	seenTwice  bool        // it lacked one at a look before, under the same want
}

// secondLook is how soon the agent looks again when somebody lacked a share.
const secondSync = 5 * time.Second

// standing returns what compute says of the holders of devices. A share that is missing may be on the move: compute
// gives the allocations to the migration and changes the assignments a moment later. So a share is written only for a
// server whose assignment compute has confirmed, and that has just claimed its devices, when no move can be under way,
// or that lacked it at two looks under the same entry of the assignments, with a line between them. The other servers
// of the host may come and go meanwhile. An agent that reads no assignments any more writes nothing: what it knows may
// be long over, and the share that is missing another host's.
func (a *Agent) holderStates(fresh map[string]bool) func(resource.ConsumerID) heal.HolderState {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, was, confirmed := a.assignments, maps.Clone(a.missing), maps.Clone(a.confirmed)
	deaf := !l.received || a.notFollowed != "" || a.o.Now().Sub(l.receivedAt) > 3*host.Heartbeat
	return func(c resource.ConsumerID) heal.HolderState {
		want, wanted := l.servers[string(c)]
		known, is := confirmed[string(c)]
		before, lacked := was[c]
		switch {
		case deaf:
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

// freshNow are the servers whose claim compute has just confirmed.
func (a *Agent) newlyClaimedServers() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.newlyClaimed)
}

// written notes that a plan with the shares of these servers has been carried out, or thrown away.
func (a *Agent) dropNewlyClaimed(fresh map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.newlyClaimed, func(id string, _ bool) bool { return fresh[id] })
}

// remember notes who lacks a share.
func (a *Agent) recordMissing(d planInput) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.missing
	a.missing = map[resource.ConsumerID]missingAllocation{}
	for _, c := range heal.Lacking(d.aim, d.uses) {
		want := a.assignments.servers[string(c)]
		before, known := was[c]
		same := known && reflect.DeepEqual(before.want, want)
		a.missing[c] = missingAllocation{want: want, heartbeats: a.assignments.heartbeats, seenTwice: same && before.heartbeats != a.assignments.heartbeats}
	}
}

// confirmClaim notes that compute has confirmed the claim of a server. Its shares are written to Placement now, if they
// are missing.
func (a *Agent) confirmClaim(want host.Server, picked []device.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reflect.DeepEqual(a.assignments.servers[want.ID], want) {
		return
	}
	a.confirmed[want.ID] = want
	counted := func(c device.Claim) bool { return c.Provider != "" }
	chosen := func(r host.Request) bool { return len(r.Providers) > 0 } // by Placement, which has written the share
	if a.o.ReportInPlacement && slices.ContainsFunc(picked, counted) && !slices.ContainsFunc(want.Requests, chosen) {
		a.newlyClaimed[want.ID] = true
		signal(a.syncNow)
	}
}

// lookAgain is how soon to look again at the latest.
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

// reshape writes inventories and allocations in one. Each consumer is written as it was read, or nothing is.
func (a *Agent) reshape(ctx context.Context, d planInput, s heal.Step, generations map[provider.ID]int) error {
	r := placement.Reshape{Inventories: map[provider.ID]placement.Stock{}, Allocations: map[resource.ConsumerID]placement.Held{}}
	for id, stock := range s.InventorySets {
		generation, written := generations[id]
		if !written {
			generation = stock.Generation
		}
		r.Inventories[id] = placement.Stock{Generation: generation, Inventories: stock.Inventories}
	}
	for consumer, allocation := range s.Allocations {
		held := d.held[consumer]
		held.Allocation = allocation
		r.Allocations[consumer] = held
	}
	return a.o.Placement.Reshape(ctx, r)
}
