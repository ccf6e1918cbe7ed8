package loop

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/openberth/berth/api/host"
)

// watch follows the assignments, and connects anew when the stream ends or falls silent.
func (a *Agent) watch(ctx context.Context) {
	var since int64
	failures := 0
	for ctx.Err() == nil {
		err := a.follow(ctx, since, func(l host.Assignments) {
			failures, since = 0, l.Revision
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
func (a *Agent) follow(ctx context.Context, since int64, got func(host.Assignments)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*host.Heartbeat, cancel)
	defer silence.Stop()
	return a.o.Compute.Watch(ctx, a.o.Host, a.instance, since, func(l host.Assignments) error {
		silence.Reset(3 * host.Heartbeat)
		got(l)
		return nil
	})
}

// hear takes in a line: from now on it is the truth.
func (a *Agent) hear(l host.Assignments) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.follows(l) {
		return
	}
	if a.line.heard && l.Revision < a.line.revision {
		a.log.Warn("compute went back in time, as after a restored database; its word counts all the same", "from", a.line.revision, "to", l.Revision)
	}
	next := line{heard: true, beats: a.line.beats + 1, at: a.o.Now(), revision: l.Revision, servers: make(map[string]host.Server, len(l.Servers))}
	for _, s := range l.Servers {
		next.servers[s.ID] = s
	}
	for id, j := range a.jobs {
		was, wanted := a.line.servers[id]
		is, still := next.servers[id]
		if wanted == still && reflect.DeepEqual(was, is) {
			continue
		}
		j.attempts, j.builds, j.retry = 0, 0, time.Time{}
		if j.cancel != nil {
			j.cancel() // what it works for is no longer so
		}
	}
	for id := range a.acked {
		if _, still := next.servers[id]; !still {
			delete(a.acked, id)
		}
	}
	for id := range a.doomed {
		if _, still := next.servers[id]; !still {
			delete(a.doomed, id)
		}
	}
	first := !a.line.heard
	a.line = next
	if err := a.forgetRenames(); err != nil {
		a.log.Warn("cannot write to the journal, will try again with the next line", "error", err)
	}
	a.cleanAll(l.Clean)
	if poke(a.wake); first {
		poke(a.look) // shares that guests lack can be judged now
	}
}

// follows says whether the line is of the cloud that this agent serves: the first that it ever heard of, which it writes down. a.mu is held.
func (a *Agent) follows(l host.Assignments) bool {
	id, _ := a.journal.Identity()
	switch {
	case l.Cloud == "" || l.Cloud == id.Cloud:
	case id.Cloud == "":
		id.Cloud = l.Cloud
		if err := a.journal.SetIdentity(id); err != nil {
			a.log.Warn("cannot write to the journal, will try again with the next line", "error", err)
			return false
		}
	default:
		a.condition("cloud", fmt.Sprintf("the assignments are those of another cloud (%s) than this host's guests (%s), so they are not followed: "+
			"if compute's database was lost or this host has moved, stop the agent and run `berth agent adopt`", l.Cloud, id.Cloud))
		return false
	}
	a.condition("cloud")
	return true
}
