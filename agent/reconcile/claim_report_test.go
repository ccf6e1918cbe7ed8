package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// testAgent is a state machine whose effects are performed at once, by a host without devices.
type testAgent struct {
	t      *testing.T
	state  *State
	guests []hypervisor.Guest
	now    time.Time
	hold   func(Effect) bool // effects that are not performed
	held   []Effect
	done   []Effect // all others except logs, in order
}

func newTestAgent(t *testing.T, guests ...hypervisor.Guest) *testAgent {
	t.Helper()
	config := Config{Host: "cmp1", Rescan: time.Hour, Parallel: 1, Jitter: func() float64 { return 0 },
		NewID: func() string { return "instance" }}
	state, err := New(config, journal.State{}, "start")
	if err != nil {
		t.Fatal(err)
	}
	a := &testAgent{t: t, state: state, guests: guests, now: time.Unix(0, 0), hold: func(Effect) bool { return false }}
	a.event(Start{})
	return a
}

// event delivers an event, and then the results of all effects that follow.
func (a *testAgent) event(e Event) {
	for events := []Event{e}; len(events) > 0; events = events[1:] {
		for _, effect := range a.state.Next(events[0], a.now) {
			if _, is := effect.(Log); is {
				continue
			}
			if a.hold(effect) {
				a.held = append(a.held, effect)
				continue
			}
			a.done = append(a.done, effect)
			if result := a.perform(effect); result != nil {
				events = append(events, result)
			}
		}
	}
}

func (a *testAgent) perform(e Effect) Event {
	switch e := e.(type) {
	case WriteJournal:
		return Written{}
	case Admit:
		return Admitted{}
	case ReportHost:
		return HostReported{}
	case Observe:
		root := provider.Provider{ID: "root", Name: "cmp1", Root: "root"}
		return Observed{Observation: Observation{Guests: slices.Clone(a.guests), ByName: e.Root == "", Named: &root,
			Tree: provider.Tree{Providers: []provider.Provider{root}}}}
	case ReadUses:
		return UsesRead{}
	case WriteProvider:
		return ProviderWritten{Generation: 1}
	case ReadAllocation:
		return WorkDone{Work: e.Work, Allocation: placement.ConsumerAllocation{
			Allocation: resource.Allocation{"root": resource.Amounts{"VCPU": 1}}}}
	case Stop:
		a.t.Fatal(e.Err)
	}
	if work := WorkOf(e); work != "" {
		return WorkDone{Work: work, Guests: a.guests}
	}
	return nil
}

// assign delivers assignments.
func (a *testAgent) assign(servers ...host.Server) {
	a.event(Received{Assignments: host.Assignments{Cloud: "cloud", Servers: servers,
		Position: host.Position{Epoch: 1, EpochID: "e", Revision: int64(len(a.done))}}})
}

// A stopped guest is not started before compute has accepted a claim: the server may run on another host.
func TestStoppedGuestIsClaimedBeforeItStarts(t *testing.T) {
	a := newTestAgent(t, hypervisor.Guest{ID: "s1", Stopped: true})
	a.hold = func(e Effect) bool { _, is := e.(ReportGuest); return is }
	a.assign(host.Server{ID: "s1"})
	if len(a.held) != 1 || a.held[0].(ReportGuest).Guest.Phase != host.Claimed {
		t.Fatalf("held %+v, want the report of a claim", a.held)
	}
	if slices.ContainsFunc(a.done, func(e Effect) bool { _, is := e.(Build); return is }) {
		t.Error("the guest was started before compute had the claim")
	}
	a.hold = func(Effect) bool { return false }
	a.event(WorkDone{Work: "s1"})
	if !slices.ContainsFunc(a.done, func(e Effect) bool { b, is := e.(Build); return is && !b.Guest.Stopped }) {
		t.Errorf("the guest was not started: %+v", a.done)
	}
}

// A server that has another guest on the host is not claimed before compute has a report of that guest.
func TestOtherGuestIsReportedBeforeTheClaim(t *testing.T) {
	a := newTestAgent(t, hypervisor.Guest{ID: "m1", Server: "s1"})
	a.hold = func(e Effect) bool { _, is := e.(ReportHost); return is }
	a.assign(host.Server{ID: "s1"})
	claims := func(e Effect) bool { r, is := e.(ReportGuest); return is && r.Guest.Phase == host.Claimed }
	if len(a.held) != 1 || slices.ContainsFunc(a.done, claims) {
		t.Fatalf("held %+v, done %+v: the claim must follow the host report", a.held, a.done)
	}
	a.hold = func(Effect) bool { return false }
	a.event(HostReported{})
	if !slices.ContainsFunc(a.done, claims) {
		t.Errorf("the server was not claimed: %+v", a.done)
	}
}
