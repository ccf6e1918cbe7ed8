package loop

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/openberth/berth/api/host"
)

// watchLoop receives assignments, and reconnects when the stream ends or is silent.
func (a *Agent) watchLoop(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		err := a.readStream(ctx, func(l host.Assignments) {
			failures = 0
			a.receive(l)
		})
		if ctx.Err() != nil {
			return
		}
		a.fence(err)
		failures++
		a.log.Info("assignment stream ended, reconnecting", "error", err)
		if !sleep(ctx, a.backoff(failures)) {
			return
		}
	}
}

// readStream reads one stream of assignments until it ends or three heartbeats are missing.
func (a *Agent) readStream(ctx context.Context, got func(host.Assignments)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*host.Heartbeat, cancel)
	defer silence.Stop()
	a.mu.Lock()
	request := host.WatchRequest{Host: a.o.Host, Sender: a.sender(), Position: a.position()}
	if a.assignments.received && a.assignments.position == request.Position && a.notFollowed == "" {
		request.Since = a.assignments.position.Revision
	}
	a.mu.Unlock()
	return a.o.Compute.Watch(ctx, request, func(l host.Assignments) error {
		silence.Reset(3 * host.Heartbeat)
		got(l)
		return nil
	})
}

// receive stores assignments as the desired state, if they are accepted, and cancels work on servers whose assignment
// changed.
func (a *Agent) receive(l host.Assignments) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.EpochID != a.epochRead { // compute has restarted and waits for reports
		a.epochRead = l.EpochID
		a.reportChanged()
	}
	if !a.accept(l) {
		return
	}
	next := assignments{received: true, heartbeats: a.assignments.heartbeats + 1, receivedAt: a.o.Now(),
		position: l.Position, servers: make(map[string]host.Server, len(l.Servers)),
		remove: make(map[string]host.Removal, len(l.Remove))}
	for _, s := range l.Servers {
		next.servers[s.ID] = s
	}
	for _, r := range l.Remove {
		if _, wanted := next.servers[r.ID]; !wanted {
			next.remove[r.ID] = r
		}
	}
	for id, j := range a.serverWorks {
		was, wanted := a.assignments.servers[id]
		is, still := next.servers[id]
		if wanted == still && reflect.DeepEqual(was, is) && a.assignments.remove[id] == next.remove[id] {
			continue
		}
		j.failures, j.buildFailures, j.retryAt = 0, 0, time.Time{}
		if j.cancel != nil {
			j.cancel() // the assignment has changed
		}
	}
	if before := a.assignments.position; before.Epoch != next.position.Epoch || before.EpochID != next.position.EpochID {
		a.acked, a.confirmed = map[string]outcome{}, map[string]host.Server{} // a restored database may lack these reports
	}
	a.forgetOthers(next)
	first := !a.assignments.received
	a.assignments = next
	if err := a.forgetRenames(); err != nil {
		a.log.Warn("journal write failed, will retry with the next assignments", "error", err)
	}
	a.receiveCleanRequests(l.Clean)
	if signal(a.wake); first {
		signal(a.syncNow) // missing allocations can be written now
		a.reportChanged() // the report can now name the assigned guests
	}
}

// forgetOthers deletes what is recorded of servers and removals that the next assignments do not name. a.mu is held.
func (a *Agent) forgetOthers(next assignments) {
	for _, known := range []map[string]outcome{a.acked, a.unreportedFailures} {
		maps.DeleteFunc(known, func(id string, _ outcome) bool { _, still := next.servers[id]; return !still })
	}
	maps.DeleteFunc(a.confirmed, func(id string, was host.Server) bool {
		return !reflect.DeepEqual(was,
			next.servers[id])
	})
	maps.DeleteFunc(a.newlyClaimed, func(id string, _ bool) bool { _, still := a.confirmed[id]; return !still })
	maps.DeleteFunc(a.reportedRemovals, func(id string, _ removalVersion) bool {
		_,
			still := next.remove[id]
		return !still
	})
}
