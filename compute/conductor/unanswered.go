package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// beginSearch reports whether servers that wait for a host must be searched now: not if the last search for the same
// kind of reason has found none and the assignments are the same.
func (m *monitor) beginSearch(host string, revision int64, hypervisor bool) bool {
	now, last := m.Since(), m.searched[host]
	if last != nil && last.hypervisor == hypervisor &&
		(now-last.at < m.Times.Search || last.revision == revision && !last.found) {
		return false
	}
	next := &search{revision: revision, hypervisor: hypervisor, at: now, found: true, told: map[string]bool{}}
	if last != nil {
		next.told = last.told
	}
	m.searched[host] = next
	return true
}

// CheckAssignments moves servers away from hosts whose agents have not followed their assignments in time or are
// silent, before anything of the servers exists there, and servers without a guest from hosts whose hypervisors can
// build none. Run repeats it.
func (c *Conductor) CheckAssignments(ctx context.Context) error {
	return c.monitor.checkAssignments(ctx)
}

func (m *monitor) checkAssignments(ctx context.Context) error {
	epoch, revisions, err := m.store.Revisions(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(revisions)) {
		revision := revisions[name]
		event := lifecycle.HostUnresponsive{Host: name}
		late, down := m.Agents.Compare(name, epoch, revision), m.Agents.HypervisorDown(name)
		switch {
		case late != "":
			event.Reason = late
		case m.Agents.IsSilent(name):
			event.Reason = "its agent does not report"
		case down != "":
			event.Reason, event.Hypervisor = "its hypervisor can build no guests: "+down, true
		default:
			delete(m.searched, name)
			continue
		}
		if m.beginSearch(name, revision, event.Hypervisor) {
			failed = append(failed, m.leaveHost(ctx, event))
		}
	}
	return errors.Join(failed...)
}

// leaveHost makes the servers that wait for a host continue on another one, if there is one for them. The others wait:
// the host may return. A server whose guest the host has or may have stays: its record may be older than the guest, as
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
	var kept keptServers
	for _, s := range servers {
		if !event.Concerns(s) || hasGuest(m.Agents.GuestsOf(event.Host), s) {
			continue
		}
		waits, err := m.leave(ctx, s, event, &kept)
		if waits || err != nil {
			wait[s.ID] = waits || m.searched[event.Host].told[s.ID]
		}
		failed = append(failed, err)
	}
	m.searched[event.Host].found, m.searched[event.Host].told = len(wait) > 0, wait
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
// server waits. A server has the room that the servers that have left before it do not take.
func (m *monitor) leave(ctx context.Context, s lifecycle.Server, event lifecycle.HostUnresponsive,
	kept *keptServers) (waits bool, err error) {
	choice, stays, err := m.chooseOther(ctx, s, event.Host, kept)
	if err != nil {
		return false, err
	}
	event.Stays = stays
	if waits = event.Stays != ""; waits && m.searched[event.Host].told[s.ID] {
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

// chooseOther chooses another host for a server. stays says why the server stays where it is, as a clause; empty: it
// can leave. A server that found no other host is added to kept: no host is searched for a later one with the same
// request.
func (m *monitor) chooseOther(ctx context.Context, s lifecycle.Server, host string,
	kept *keptServers) (other schedule.Choice, stays string, err error) {
	if m.Agents.MayHave(host, s.ID) {
		return other, fmt.Sprintf("its agent has not reported since compute's start, so it may have the guest, if "+
			"compute's database was restored; start the agent, or declare the host dead (`berth host down %s`)", host), nil
	}
	if stays = kept.why(s); stays != "" {
		return other, stays, nil
	}
	other, stays, err = m.Scheduler.OtherHost(ctx, s, host, m.leaving)
	if stays != "" {
		stays = "no other host is suitable: " + stays
		*kept = append(*kept, keptServer{s, stays})
	}
	return other, stays, err
}

// keptServers are servers that found no other host, and why.
type keptServers []keptServer

type keptServer struct {
	lifecycle.Server
	why string
}

// why returns why a server with the same request found no other host, as a clause; empty if there is none.
func (k keptServers) why(s lifecycle.Server) string {
	at := slices.IndexFunc(k, func(other keptServer) bool { return requestSame(other.Server, s) })
	if at < 0 {
		return ""
	}
	return k[at].why
}

// requestSame reports whether the same hosts are suitable for two servers: what they request is the same, and nothing
// else restricts the hosts of either. Aggregates can be those of projects. A server that has been claimed before may
// have left something on a host.
func requestSame(a, b lifecycle.Server) bool {
	for _, s := range []lifecycle.Server{a, b} {
		if s.Try > 1 || len(s.FailedHosts)+len(s.Ports)+len(s.SameHost)+len(s.DifferentHost) > 0 || s.Target != "" ||
			s.Group != "" {
			return false
		}
	}
	return a.Project == b.Project && a.Zone == b.Zone && a.Image == b.Image && reflect.DeepEqual(a.Flavor, b.Flavor) &&
		reflect.DeepEqual(a.ImageSnapshot, b.ImageSnapshot)
}

// hasGuest reports whether the guest of a server's own consumer is among those of a host.
func hasGuest(guests []schedule.Present, s lifecycle.Server) bool {
	return slices.ContainsFunc(guests, func(g schedule.Present) bool {
		return g.ID == s.ID || g.ID == s.PreviousConsumer && g.ID != ""
	})
}
