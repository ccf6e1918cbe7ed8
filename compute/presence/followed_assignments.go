package presence

import (
	"fmt"

	"github.com/openberth/berth/condition"
)

// Followed records the newest assignments that the agent of a host has followed, as it reports.
func (a *Agents) Followed(host, epoch string, revision int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(host).followed = followed{epoch, revision}
}

// Compare compares the present assignments of a host with what its agent has followed. It returns that the agent has
// not followed them for longer than FollowWithin, as a clause; empty if it still has time. A change that it has not
// followed does not extend the time that it has for an earlier one.
func (a *Agents) Compare(host, epoch string, revision int64) (late string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, now := a.of(host), followed{epoch, revision}
	covers := func(at followed) bool { return o.followed.epoch == at.epoch && o.followed.revision >= at.revision }
	if o.waiting != nil && covers(o.waiting.followed) {
		o.waiting = nil
	}
	if covers(now) {
		return ""
	}
	if o.waiting == nil {
		o.waiting = &unanswered{followed: now, since: a.Since()}
		if !o.reported { // agents connect again after compute's start
			o.waiting.since = max(a.Since(), a.FirstReports+a.missed)
		}
	}
	return a.notFollowing(o)
}

// NotFollowing returns that the agent of a host has not followed its assignments in time, as a clause; empty if it has,
// or still has time.
func (a *Agents) NotFollowing(host string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.hosts[host]; o != nil {
		return a.notFollowing(o)
	}
	return ""
}

// Conditions returns the condition of a host whose agent has not followed assignments in time; none if it has.
func (a *Agents) Conditions(host string) []condition.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.hosts[host]
	if o == nil || a.notFollowing(o) == "" {
		return nil
	}
	return []condition.Condition{condition.New(condition.NotFollowing, "", "its agent has not followed compute's "+
		"assignments in time, and no server is scheduled to this host until it does; check the agent, and the connection "+
		"between it and compute").At(o.waiting.late)}
}

// notFollowing is NotFollowing; a.mu is held.
func (a *Agents) notFollowing(o *observed) string {
	if o.waiting == nil || a.now()-o.waiting.since <= a.FollowWithin {
		return ""
	}
	waited := a.now() - o.waiting.since
	if o.waiting.late.IsZero() {
		o.waiting.late = a.Now().Add(a.FollowWithin - waited)
	}
	return fmt.Sprintf("its agent has not followed compute's assignments for %.0f s", waited.Seconds())
}
