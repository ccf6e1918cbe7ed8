package loop

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/openberth/berth/api/host"
)

// watch follows the assignments, and connects anew when the stream ends or falls silent.
func (a *Agent) watch(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		err := a.follow(ctx, func(l host.Assignments) {
			failures = 0
			a.hear(l)
		})
		if ctx.Err() != nil {
			return
		}
		a.judge(err)
		failures++
		a.log.Info("the stream of assignments ended, connecting anew", "error", err)
		if !sleep(ctx, a.backoff(failures)) {
			return
		}
	}
}

// follow reads one stream until it ends or nothing was heard for three heartbeats.
func (a *Agent) follow(ctx context.Context, got func(host.Assignments)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*host.Heartbeat, cancel)
	defer silence.Stop()
	a.mu.Lock()
	request := host.WatchRequest{Host: a.o.Host, Sender: a.sender(), Position: a.position()}
	if a.line.heard && a.line.position == request.Position && a.behind == "" {
		request.Since = a.line.position.Revision
	}
	a.mu.Unlock()
	return a.o.Compute.Watch(ctx, request, func(l host.Assignments) error {
		silence.Reset(3 * host.Heartbeat)
		got(l)
		return nil
	})
}

// hear takes in a line: from now on it is the truth.
func (a *Agent) hear(l host.Assignments) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.EpochID != a.epochRead { // compute has started again: it waits for reports
		a.epochRead = l.EpochID
		a.touch()
	}
	if !a.follows(l) {
		return
	}
	next := line{heard: true, beats: a.line.beats + 1, read: a.o.Now(), position: l.Position, servers: make(map[string]host.Server, len(l.Servers)),
		remove: make(map[string]host.Removal, len(l.Remove))}
	for _, s := range l.Servers {
		next.servers[s.ID] = s
	}
	for _, r := range l.Remove {
		if _, wanted := next.servers[r.ID]; !wanted {
			next.remove[r.ID] = r
		}
	}
	for id, j := range a.jobs {
		was, wanted := a.line.servers[id]
		is, still := next.servers[id]
		if wanted == still && reflect.DeepEqual(was, is) && a.line.remove[id] == next.remove[id] {
			continue
		}
		j.attempts, j.builds, j.retry = 0, 0, time.Time{}
		if j.cancel != nil {
			j.cancel() // what it works for is no longer so
		}
	}
	if before := a.line.position; before.Epoch != next.position.Epoch || before.EpochID != next.position.EpochID {
		a.acked, a.confirmed = map[string]fate{}, map[string]host.Server{} // a restored database may lack these reports
	}
	a.forgetOthers(next)
	first := !a.line.heard
	a.line = next
	if err := a.forgetRenames(); err != nil {
		a.log.Warn("cannot write to the journal, will try again with the next line", "error", err)
	}
	a.cleanAll(l.Clean)
	if poke(a.wake); first {
		poke(a.look) // shares that guests lack can be judged now
		a.touch()    // which guests are named is known now
	}
}

// forgetOthers drops what is remembered of servers and removals that the next line does not have. a.mu is held.
func (a *Agent) forgetOthers(next line) {
	for _, known := range []map[string]fate{a.acked, a.doomed} {
		maps.DeleteFunc(known, func(id string, _ fate) bool { _, still := next.servers[id]; return !still })
	}
	maps.DeleteFunc(a.confirmed, func(id string, was host.Server) bool { return !reflect.DeepEqual(was, next.servers[id]) })
	maps.DeleteFunc(a.fresh, func(id string, _ bool) bool { _, still := a.confirmed[id]; return !still })
	maps.DeleteFunc(a.removed, func(id string, _ removalAt) bool { _, still := next.remove[id]; return !still })
}
