package loop

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// lacked is who lacked a share in Placement at the last look, and what compute's line was then.
type lacked struct {
	beats    int // of the line
	revision int64
	servers  map[resource.ConsumerID]bool // true: for the first time under this line
}

// secondLook is how soon the agent looks again when somebody lacked a share.
const secondLook = 5 * time.Second

// waits says of whom nothing may be written to Placement yet. A share that is missing may be on the move: compute gives the allocations
// to the migration and changes the line a moment later. So a share is written for a server that compute wants here by a line, and which lacked
// it at two looks under the same line, which was repeated between them: what an agent knows that does not hear compute any more may be long
// over, and the share that is missing another host's.
func (a *Agent) waits() func(resource.ConsumerID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, was := a.line, a.lacked
	deaf := a.o.Now().Sub(l.at) > 3*host.Heartbeat
	return func(c resource.ConsumerID) bool {
		_, wanted := l.servers[string(c)]
		_, lacked := was.servers[c]
		return !l.heard || deaf || !wanted || was.revision != l.revision || was.beats == l.beats || !lacked
	}
}

// remember notes who lacks a share.
func (a *Agent) remember(d draft) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.lacked
	beaten := was.beats != a.line.beats
	a.lacked = lacked{beats: a.line.beats, revision: a.line.revision, servers: map[resource.ConsumerID]bool{}}
	for _, c := range heal.Lacking(d.aim, d.uses) {
		_, before := was.servers[c]
		a.lacked.servers[c] = !before || was.revision != a.line.revision || !beaten
	}
}

// lookAgain is how soon to look again at the latest.
func (a *Agent) lookAgain() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, first := range a.lacked.servers {
		if _, wanted := a.line.servers[string(c)]; first && wanted {
			return secondLook
		}
	}
	return a.o.Rescan
}

// reshape writes inventories and allocations in one. Each consumer is written as it was read, or nothing is.
func (a *Agent) reshape(ctx context.Context, d draft, s heal.Step, generations map[provider.ID]int) error {
	r := placement.Reshape{Inventories: map[provider.ID]placement.Stock{}, Allocations: map[resource.ConsumerID]placement.Held{}}
	for id, stock := range s.Stocks {
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
