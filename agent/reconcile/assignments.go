package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
)

// assignments are the last assignments of compute that were accepted.
type assignments struct {
	received   bool
	heartbeats int // number of messages received, repetitions included
	receivedAt time.Time
	position   host.Position
	servers    map[string]host.Server
	remove     map[string]host.Removal
}

// removalVersion identifies one request for a removal: compute repeats it at each revision until it receives the
// result.
type removalVersion struct {
	position host.Position
	removal  host.Removal
}

func (a assignments) version(r host.Removal) removalVersion { return removalVersion{a.position, r} }

// accept reports whether the agent follows these assignments: they are of the cloud whose guests the agent has, and do
// not precede the newest ones that it followed. It records the new position, which is therefore durable before any
// effect that follows from them. Assignments that are not followed change nothing, and a condition gives the reason.
func (c *core) accept(l host.Assignments) bool {
	refusal := c.otherCloud(l)
	if refusal == "" {
		if refusal = c.position().Accept(l); refusal != "" {
			refusal += "; its assignments are not followed, and guests stay as they are: restore the newest database, " +
				"or stop the agent and run `berth agent adopt`, which shows first what would change"
		}
	}
	c.setNotFollowed(refusal)
	if refusal != "" {
		return false
	}
	id, _ := c.state.Identity()
	if l.Cloud != "" && id.Cloud == "" {
		id.Cloud = l.Cloud
		c.writeIdentity(id)
	}
	if l.Position != c.position() {
		c.record(journal.Position(l.Position).Entry())
	}
	return true
}

// otherCloud returns why assignments are not of the cloud that this agent follows; empty when they are.
func (c *core) otherCloud(l host.Assignments) string {
	id, _ := c.state.Identity()
	if l.Cloud == "" || l.Cloud == id.Cloud || id.Cloud == "" {
		return ""
	}
	return fmt.Sprintf("the assignments are those of another cloud (%s) than this host's guests (%s), so they are not "+
		"followed: if compute's database was lost or this host has moved, stop the agent and run `berth agent adopt`",
		l.Cloud, id.Cloud)
}

// setNotFollowed records why the assignments are not followed; empty when they are.
func (c *core) setNotFollowed(why string) {
	if why == "" {
		c.condition("assignments")
	} else {
		c.condition("assignments", why)
	}
	if c.notFollowed != why {
		c.notFollowed, c.wake = why, true
		c.reportChanged()
	}
}

// position returns the position of the newest assignments that were followed.
func (c *core) position() host.Position { return host.Position(c.state.Position()) }

// follow replaces the assignments by accepted ones, and forgets what was recorded of others. first: they are the first
// ones since the start.
func (c *core) follow(l host.Assignments) (first bool) {
	next := assignments{received: true, heartbeats: c.assignments.heartbeats + 1, receivedAt: c.now,
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
	if before := c.assignments.position; before.Epoch != next.position.Epoch || before.EpochID != next.position.EpochID {
		c.acked, c.confirmed = map[string]outcome{}, map[string]host.Server{} // a restored database may lack these reports
	}
	c.forgetOthers(next)
	first = !c.assignments.received
	c.assignments = next
	c.forgetRenames()
	c.wake = true
	if first {
		c.wantSync = true // missing allocations can be written now
		c.reportChanged() // the report can now name the assigned guests
	}
	return first
}

// forgetOthers deletes what is recorded of servers and removals that the next assignments do not name.
func (c *core) forgetOthers(next assignments) {
	for _, known := range []map[string]outcome{c.acked, c.unreportedFailures} {
		maps.DeleteFunc(known, func(id string, _ outcome) bool { _, still := next.servers[id]; return !still })
	}
	maps.DeleteFunc(c.confirmed, func(id string, was host.Server) bool {
		return !reflect.DeepEqual(was, next.servers[id])
	})
	maps.DeleteFunc(c.newlyClaimed, func(id string, _ bool) bool { _, still := c.confirmed[id]; return !still })
	maps.DeleteFunc(c.reportedRemovals, func(id string, _ removalVersion) bool {
		_, still := next.remove[id]
		return !still
	})
}

// forgetRenames deletes finished renames that the assignments no longer mention.
func (c *core) forgetRenames() {
	renames := c.state.Renames()
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		r := renames[id]
		if want, wanted := c.assignments.servers[id]; r.Done && (!wanted || want.PreviousID != r.Was) {
			c.record(journal.RenameForgotten(id))
		}
	}
}

// assigned reports whether the assignments name a guest, as a server or for removal.
func (c *core) assigned(id string) bool {
	_, wanted := c.assignments.servers[id]
	_, named := c.assignments.remove[id]
	return wanted || named || c.formerName(id)
}

// formerName reports whether a removal names this id as the guest's former one.
func (c *core) formerName(id string) bool {
	for _, r := range c.assignments.remove {
		if r.PreviousID == id {
			return true
		}
	}
	return false
}
