package conductor

import (
	"context"
	"time"
)

// checkReceives records that compute can receive the reports of agents now: it runs, and its database answers. Run
// repeats it, because agents are not silent while compute was stopped or could not store what they sent.
func (m *monitor) checkReceives(ctx context.Context) error {
	if _, _, err := m.store.Revisions(ctx); err != nil {
		return err
	}
	m.presence.receives()
	return nil
}

// watch begins to consider how long compute could not receive reports. From then on receives must be called often.
func (p *presence) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = true
}

// receives records that compute can receive reports now. After a time in which it could not, all that agents have not
// sent is due later by that time.
func (p *presence) receives() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if gap := now - p.received; gap > longestGap {
		p.missed += gap
		for _, o := range p.hosts {
			o.delay(gap, now)
		}
	}
	p.received = now
}

// delay moves the times of a host by a time in which compute could not receive reports, at most to the present. A host
// that has reported since it was declared dead stays so, and another one does not become so.
func (o *observed) delay(gap, now time.Duration) {
	if o.declaredDead > 0 && o.sign <= o.declaredDead {
		o.declaredDead = min(now, o.declaredDead+gap)
	}
	o.sign = min(now, o.sign+gap)
	if o.waiting != nil {
		o.waiting.since = max(o.waiting.since, min(now, o.waiting.since+gap))
	}
}
