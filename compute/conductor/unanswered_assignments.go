package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// followedBy records the newest assignments that a host's agent has followed.
func (p *presence) followedBy(host string, at followed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).followed = at
}

// compare compares the present assignments of a host with what its agent has followed. It returns how long the agent
// has not followed them. A change that it has not followed does not extend the time that it has for an earlier one.
func (p *presence) compare(host string, now followed) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	covers := func(at followed) bool { return o.followed.epoch == at.epoch && o.followed.revision >= at.revision }
	if o.waiting != nil && covers(o.waiting.followed) {
		o.waiting = nil
	}
	if covers(now) {
		return 0
	}
	if o.waiting == nil {
		o.waiting = &unanswered{followed: now, since: p.clock()}
		if !o.reported { // agents connect again after compute's start
			o.waiting.since = max(p.clock(), firstReportsWithin+p.missed)
		}
	}
	return p.now() - o.waiting.since
}

// unfollowed returns how long the agent of a host has not followed assignments; 0 if it is not too long.
func (p *presence) unfollowed(host string, limit time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.hosts[host]; o != nil {
		return o.unfollowed(p.now(), limit)
	}
	return 0
}

// allUnfollowed returns unfollowed of all hosts for which it is not 0.
func (p *presence) allUnfollowed(limit time.Duration) map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]time.Duration{}
	for host, o := range p.hosts {
		if late := o.unfollowed(p.now(), limit); late > 0 {
			out[host] = late
		}
	}
	return out
}

// unfollowed returns how long the agent has not followed assignments; 0 if it is not too long.
func (o *observed) unfollowed(now, limit time.Duration) time.Duration {
	if o.waiting == nil || now-o.waiting.since <= limit {
		return 0
	}
	return now - o.waiting.since
}

// beginSearch reports whether servers that wait for a host must be searched now: not if the last search for the same
// kind of reason has found none and the assignments are the same.
func (p *presence) beginSearch(host string, revision int64, hypervisor bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.of(host).search
	if last != nil && last.hypervisor == hypervisor &&
		(p.clock()-last.at < searchAgain || last.revision == revision && !last.found) {
		return false
	}
	next := &search{revision: revision, hypervisor: hypervisor, at: p.clock(), found: true, told: map[string]bool{}}
	if last != nil {
		next.told = last.told
	}
	p.of(host).search = next
	return true
}

// forgetSearch forgets the last search for servers that wait for a host: there is no reason to leave it any more.
func (p *presence) forgetSearch(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).search = nil
}

// endSearch records the result of a search: the servers that go on waiting.
func (p *presence) endSearch(host string, wait map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).search.found, p.of(host).search.told = len(wait) > 0, wait
}

// told reports whether the history of a waiting server has an entry about it.
func (p *presence) told(host, server string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(host).search.told[server]
}

// Alive records a sign of life of the admitted start of a host's agent. It returns fault.Conflict if another start
// serves the host, and fault.NotFound if the host has not reported to this process.
func (m *monitor) Alive(ctx context.Context, host string, from schedule.Sender) error {
	if err := m.checkAdmitted(ctx, host, from.Instance, from.Start); err != nil {
		return err
	}
	if !m.presence.alive(host) {
		return fault.New(fault.NotFound, "host %s has not reported since compute's start; "+
			"send the report of the host", host)
	}
	return nil
}

// Followed records the newest assignments that the agent of a host has followed, as it reports.
func (m *monitor) Followed(host, epoch string, revision int64) {
	m.presence.followedBy(host, followed{epoch, revision})
}

// notFollowingCondition returns the condition of a host whose agent has not followed assignments in time; none if it
// has.
func (d *dependencies) notFollowingCondition(host string) []string {
	late := d.presence.unfollowed(host, d.FollowWithin)
	if late == 0 {
		return nil
	}
	return []string{notFollowing(late) + "; no server is scheduled to this host until it does: check the agent, and the " +
		"connection between it and compute"}
}

func notFollowing(late time.Duration) string {
	return fmt.Sprintf("its agent has not followed compute's assignments for %.0f s", late.Seconds())
}

// downIsKnownFor is how long after the last sign of life of its agent a hypervisor that was down counts as down.
const downIsKnownFor = 3 * host.AliveInterval

// hypervisorDown returns why the hypervisor of a host can build no guests, as its agent reported; empty if it can, or
// if that is not known now, because the agent has not reported to this process or gives no signs of life.
func (p *presence) hypervisorDown(host string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.hosts[host]; o != nil && o.reported && p.quiet(o) <= downIsKnownFor {
		return o.down
	}
	return ""
}

// CheckAssignments moves servers away from hosts whose agents have not followed their assignments in time or are
// silent, before anything of the servers exists there, and servers without a guest from hosts whose hypervisors can
// build none. Run repeats it.
func (m *monitor) CheckAssignments(ctx context.Context) error {
	epoch, revisions, err := m.store.Revisions(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(revisions)) {
		revision := revisions[name]
		event := lifecycle.HostUnresponsive{Host: name}
		down := m.presence.hypervisorDown(name)
		switch late := m.presence.compare(name, followed{epoch, revision}); {
		case late > m.FollowWithin:
			event.Reason = notFollowing(late)
		case m.presence.sinceReport(name, m.Silence) > m.Silence:
			event.Reason = "its agent does not report"
		case down != "":
			event.Reason, event.Hypervisor = "its hypervisor can build no guests: "+down, true
		default:
			m.presence.forgetSearch(name)
			continue
		}
		if m.presence.beginSearch(name, revision, event.Hypervisor) {
			failed = append(failed, m.leaveHost(ctx, event))
		}
	}
	return errors.Join(failed...)
}

// leaveHost makes the servers that wait for a host continue on another one, if there is one for them. The others wait:
// the host may return. A server whose guest the host has reported stays: its record may be older than the guest, as
// after a restore. A server whose change fails is tried again, and does not stop the others.
func (m *monitor) leaveHost(ctx context.Context, event lifecycle.HostUnresponsive) error {
	servers, err := m.store.OnHost(ctx, event.Host)
	if err != nil {
		return err
	}
	if err := m.forgetArrived(ctx); err != nil {
		return err
	}
	var failed []error
	wait := map[string]bool{}
	full := map[string]string{} // why no other host has room, by the id of the flavor
	for _, s := range servers {
		if !event.Concerns(s) || m.presence.hasGuest(event.Host, s) {
			continue
		}
		waits, err := m.leave(ctx, s, event, full)
		if waits || err != nil {
			wait[s.ID] = waits || m.presence.told(event.Host, s.ID)
		}
		failed = append(failed, err)
	}
	m.presence.endSearch(event.Host, wait)
	return errors.Join(failed...)
}

// forgetArrived forgets the servers that have left a host and hold a claim on another one, or search none any more.
func (m *monitor) forgetArrived(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(m.leaving)) {
		s, err := m.store.Read(ctx, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || s.AllocatedHost() != "" || len(s.Steps()) == 0 {
			delete(m.leaving, id)
		}
	}
	return nil
}

// leave makes a server that waits for a host continue on another one. It returns true if there is none, so that the
// server waits. Servers of one flavor have one answer in full, if they ask for nothing else. A server has the room that
// the servers that have left before it do not take.
func (m *monitor) leave(ctx context.Context, s lifecycle.Server, event lifecycle.HostUnresponsive,
	full map[string]string) (waits bool, err error) {
	plain := s.Move == nil && len(s.Ports) == 0 && len(s.FailedHosts) == 0
	if plain {
		event.Stays = full[s.Flavor.ID]
	}
	var choice schedule.Choice
	if event.Stays == "" {
		if choice, event.Stays, err = m.scheduler.chooser(s).otherHost(ctx, s, event.Host, m.leaving); err != nil {
			return false, err
		}
		if plain {
			full[s.Flavor.ID] = event.Stays
		}
	}
	if waits = event.Stays != ""; waits && m.presence.told(event.Host, s.ID) {
		return true, nil
	}
	if event.Hypervisor && !waits { // the hypervisor may still make the guest
		if err := m.store.RecordRemoval(ctx, event.Host, s.ID, s.ID); err != nil {
			return false, err
		}
	}
	if !waits {
		m.leaving[s.ID] = choice // also if the answer of the change is lost
	}
	if err := m.apply(ctx, s.ID, event); err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	return waits, nil
}

// addUnresponsive adds the hosts whose agents have not followed assignments in time to those that must not be chosen.
func (d reading) addUnresponsive(excluded map[string]string) {
	for host, late := range d.presence.allUnfollowed(d.FollowWithin) {
		if excluded[host] == "" {
			excluded[host] = notFollowing(late)
		}
	}
}
