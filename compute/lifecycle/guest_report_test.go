package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// What an agent says while a move is planned counts when nothing comes of the move.
func TestReportWhileAMoveIsPlanned(t *testing.T) {
	s := ran(t)
	for _, e := range []Event{
		ActionRequested{ID: "w1", Action: Stop}, GuestStopped{Host: "a", Consumer: "s"}, ActionRequested{ID: "w2",
			Action: Start},
		ActionRequested{ID: "m1", Action: Evacuate}, // its host is silent, and comes back
		GuestRunning{Host: "a", Consumer: "s"}, NoValidHost{Reason: "full"},
	} {
		s, _ = Next(s, e, noon)
	}
	if s.State != Active || s.Actual != On || s.Status() != "ACTIVE" {
		t.Errorf("%s %s stopped %v", s.State, s.Status(), s.Actual)
	}
}

// The words of one agent count in the order in which it said them; another agent counts for itself.
func TestLateReportsAreIgnored(t *testing.T) {
	s := ran(t)
	tell := func(instance string, number int64, of Event) {
		s, _ = Next(s, Report{Host: "a", Instance: instance, Number: number, Event: of}, noon)
	}
	tell("i", 5, GuestRunning{Host: "a", Consumer: "s"})
	before := snapshot(t, s)
	for _, number := range []int64{4, 5} {
		tell("i", number, GuestStopped{Host: "a", Consumer: "s"})
		tell("i", number, GuestFailed{Host: "a", Consumer: "s"})
	}
	if snapshot(t, s) != before {
		t.Errorf("%s", snapshot(t, s))
	}
	tell("j", 1, GuestStopped{Host: "a", Consumer: "s"})
	if s.Actual != Off || s.Latest("a", "i") != 5 || s.Latest("a", "j") != 1 || s.Latest("b", "j") != 0 {
		t.Errorf("stopped %v, %+v", s.Actual, s.LastReports)
	}
	for n := range int64(100) {
		tell(strings.Repeat("x", int(n%40)), n+1, GuestRunning{Host: "a", Consumer: "s"})
	}
	if len(s.LastReports) != maxReports {
		t.Errorf("%d voices", len(s.LastReports))
	}
}

// TestGuestThatShutsDownStopsItsServer checks that a server stops when its guest shuts down by itself, and that a
// report which arrives during an action, or after the server was stopped, does not.
func TestGuestThatShutsDownStopsItsServer(t *testing.T) {
	down := GuestStopped{Host: "a", Consumer: "s", ShutDown: true}
	s := applyAll(ran(t), down)
	if s.Power != Off || s.Actual != Off || s.Status() != "SHUTOFF" || s.Entries()[0].Power != Off {
		t.Errorf("%s, power %v, %+v", s.Status(), s.Power, s.Entries())
	}
	last := s.History[len(s.History)-1].Text
	if last != "the guest on a has shut down by itself, so the server is stopped" {
		t.Error(last)
	}
	s = applyAll(s, ActionRequested{ID: "w", Action: Start}, down)
	if s.Power != On || s.Task == "" {
		t.Errorf("during a start: power %v, task %q", s.Power, s.Task)
	}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s"}); s.Status() != "ACTIVE" || s.Power != On {
		t.Errorf("started again: %s", s.Status())
	}
	if s = applyAll(s, GuestStopped{Host: "a", Consumer: "s"}); s.Power != On {
		t.Error("a guest that ended otherwise is not started again")
	}
}

// After a resize on the same host is reverted, the guest of the source takes over the id of the removed one. Until its
// agent has acknowledged that, a repeated report of the earlier removal, or of an earlier failure, changes nothing: the
// server keeps its devices until the report names both ids. An agent of an earlier version names none.
func TestRepeatedReportOfAnEarlierRemoval(t *testing.T) {
	reverted := applyAll(ran(t), ActionRequested{ID: "m", Action: Resize, SameHost: true}, prepared,
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 1}, AllocationsMoved{},
		GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 2}, GuestStopped{Host: "a", Consumer: "m"},
		GuestClaimed{Host: "a", Consumer: "s"}, GuestRunning{Host: "a", Consumer: "s"},
		ActionRequested{ID: "r", Action: Revert}, GuestGone{Host: "a", Consumer: "s", Removed: []string{"s"}}, Released{},
		AllocationsRestored{})
	if reverted.State != Active || reverted.PreviousConsumer != "m" {
		t.Fatalf("%s, previous consumer %q", reverted.Stage(), reverted.PreviousConsumer)
	}
	failed := GuestFailed{Host: "a", Consumer: "s", Message: "no", Removed: []string{"s"}}
	if s := applyAll(reverted, failed); s.State != Active {
		t.Errorf("a repeated failure: %s", s.Stage())
	}
	deleted := applyAll(reverted, DeleteRequested{})
	removal := Removal{Host: "a", Consumer: "s", PreviousConsumer: "m"}
	for _, e := range []Event{failed, GuestGone{Host: "a", Consumer: "s", Removed: []string{"s"}},
		GuestGone{Host: "a", Consumer: "m", Removed: []string{"m"}}} {
		s := applyAll(deleted, e)
		if s.State != DeletingGuest || !slices.Equal(s.Removals(), []Removal{removal}) {
			t.Errorf("%+v: %s, %+v", e, s.Stage(), s.Removals())
		}
	}
	for _, removed := range [][]string{{"s", "m"}, nil} {
		if s := applyAll(deleted, GuestGone{Host: "a", Consumer: "s", Removed: removed}); s.State != DeletingAllocation {
			t.Errorf("removed %v: %s", removed, s.Stage())
		}
	}
}
