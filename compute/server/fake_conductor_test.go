package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/condition"

	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// fakeConductor is a conductor without a Placement: it applies requests and reports to the state machine; the test
// applies all other events.
type fakeConductor struct {
	*conductor.Conductor
	store *store.Store

	mu    sync.Mutex
	room  int // the number of servers that still fit; below 0: no limit
	fails error
}

// Create stores the servers in BUILD.
func (l *fakeConductor) Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room >= 0 && len(servers) > l.room {
		return nil, l.fails
	}
	l.room -= len(servers)
	for i, s := range servers {
		servers[i], _ = lifecycle.Next(s, lifecycle.Created{}, time.Now())
	}
	return servers, l.store.Create(ctx, servers...)
}

// Delete records the request.
func (l *fakeConductor) Delete(ctx context.Context, id string, by lifecycle.Caller) error {
	return l.event(ctx, id, lifecycle.DeleteRequested{By: by})
}

// ForceDelete records the request.
func (l *fakeConductor) ForceDelete(ctx context.Context, id string, by lifecycle.Caller) error {
	return l.Delete(ctx, id, by)
}

// Guest records a report of any agent.
func (l *fakeConductor) Guest(ctx context.Context, id, _ string, e lifecycle.Report) error {
	return l.event(ctx, id, e)
}

// event records an event.
func (l *fakeConductor) event(ctx context.Context, id string, e lifecycle.Event) error {
	s, err := l.store.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, e, time.Now())
		return s
	})
	if report, ok := e.(lifecycle.Report); ok && err == nil && report.Number < s.Latest(report.Host, report.Instance) {
		return fault.Wrap(fault.Conflict, &presence.Late{Number: s.Latest(report.Host, report.Instance)})
	}
	if report, ok := e.(lifecycle.Report); ok {
		e = report.Event
	}
	if claim, ok := e.(lifecycle.GuestClaimed); ok && err == nil && !s.Expects(id, claim.Host) {
		return fault.New(fault.Conflict, "not assigned to %s", claim.Host)
	}
	return err
}

// Act applies the action, or rejects it.
func (l *fakeConductor) Act(ctx context.Context, id string,
	action lifecycle.ActionRequested) (lifecycle.Server, error) {
	s, err := l.store.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, action, time.Now())
		return s
	})
	if err == nil && s.LastAction != action.ID {
		err = fault.New(fault.Conflict, "%s", s.Refuse(action.Action, action.Hard))
	}
	return s, err
}

// HostDown records it.
func (l *fakeConductor) HostDown(ctx context.Context, host string) error {
	return l.store.SetDead(ctx, host, true, time.Now())
}

// HostUp records it.
func (l *fakeConductor) HostUp(ctx context.Context, host string) error {
	return l.store.SetDead(ctx, host, false, time.Now())
}

// HostForget deletes the report only.
func (l *fakeConductor) HostForget(ctx context.Context, host string) (removed, kept []string, err error) {
	if _, err := l.store.Host(ctx, host); err != nil {
		return nil, nil, err
	}
	return nil, []string{"kept"}, l.store.Forget(ctx, host)
}

// foundByAudit returns the condition of the host "audited".
func foundByAudit() []condition.Condition {
	return []condition.Condition{condition.New(condition.ForeignAllocations, "", "found by an audit")}
}

// HostConditions returns one condition, of the host "audited".
func (l *fakeConductor) HostConditions(host string) []condition.Condition {
	if host != "audited" {
		return nil
	}
	return foundByAudit()
}

// fakeAudits finds the same on every host.
type fakeAudits struct{}

// HostReported does nothing.
func (fakeAudits) HostReported(schedule.Host) {}

// HostAudit returns one finding of each kind.
func (fakeAudits) HostAudit(_ context.Context, host string) (audit.Audit, error) {
	lacks, holds := resource.Allocation{rootID: {"VCPU": 2}}, resource.Allocation{rootID: {"VCPU": 1}}
	return audit.Audit{Host: host,
		Missing: []audit.Missing{{Server: "s1", Name: "web", Consumer: "s1", Lacks: lacks}},
		Foreign: []audit.Foreign{{Consumer: "x", Holds: holds, Why: "unknown"}}}, nil
}

// HostForeign returns nothing.
func (fakeAudits) HostForeign(string) []audit.Foreign { return nil }

func (fakeAudits) SetReported(map[string]audit.Reported, time.Time) {}

// Reported returns one difference.
func (fakeAudits) Reported() (map[string]audit.Reported, time.Time) {
	return map[string]audit.Reported{"host1": {Count: 2, First: []string{"over capacity"}}}, time.Now().Add(time.Hour)
}

// HostHeal returns the same, healed.
func (f fakeAudits) HostHeal(ctx context.Context, host string, o audit.Healing) (audit.Audit, error) {
	a, err := f.HostAudit(ctx, host)
	a.Missing[0].Outcome, a.Missing[0].Healed = fmt.Sprint("oversubscribe ", o.Oversubscribe), true
	return a, err
}

// fakePorts heals the ports of one server.
type fakePorts struct{}

// HealPorts returns one server.
func (fakePorts) HealPorts(_ context.Context, host string, servers []string,
	apply bool) ([]ports.Healing, error) {
	state := ports.NeedHealing
	if apply {
		state = ports.Healed
	}
	return []ports.Healing{{Server: "s1", Name: "web", Host: host, State: state,
		Reason: strings.Join(servers, " "), Ports: []ports.HealedPort{{ID: "p1", Device: "0000:81:00.1",
			Groups: map[string]provider.ID{"g1": rootID}}}, Adds: resource.Allocation{rootID: {"VCPU": 1}}}}, nil
}
