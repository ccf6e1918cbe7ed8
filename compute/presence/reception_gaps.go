package presence

import (
	"context"
	"time"
)

// CheckReceives records that compute can receive the reports of agents now: it runs, and its database answers. It is
// repeated, because agents are not silent while compute was stopped or could not store what they sent: after a time in
// which it could not receive, all that agents have not sent is due later by that time.
func (a *Agents) CheckReceives(ctx context.Context) error {
	if err := a.store.CheckReads(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Since()
	if gap := now - a.received; gap > LongestGap {
		a.missed += gap
		for _, o := range a.hosts {
			o.delay(gap, now)
		}
	}
	a.received = now
	return nil
}

// Watch begins to consider how long compute could not receive reports. From then on CheckReceives must be called often.
func (a *Agents) Watch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched = true
}

// delay moves the times of a host by a time in which compute could not receive reports, at most to the present. A host
// that has reported since it was declared dead stays so, and another one does not become so.
func (o *observed) delay(gap, now time.Duration) {
	if o.declaredDead > 0 && o.sign <= o.declaredDead {
		o.declaredDead = min(now, o.declaredDead+gap)
	}
	o.sign, o.failedAt = min(now, o.sign+gap), min(now, o.failedAt+gap)
	if o.waiting != nil {
		o.waiting.since = max(o.waiting.since, min(now, o.waiting.since+gap))
	}
}
