package lifecycle

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// applyAll gives a server events one after the other.
func applyAll(s Server, events ...Event) Server {
	for _, e := range events {
		s, _ = Next(s, e, noon)
	}
	return s
}

// resizing is a server on host a that is being resized, after its migration has taken over what it holds.
func resizing(between ...Event) Server {
	s := Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Resize}, Chosen{Choices: []schedule.Choice{choice("b")}})
	s = applyAll(s, between...)
	return applyAll(s, AllocationsMoved{})
}

// The hypervisor refused to stop a guest, the server was to go on running, and its agent stopped it at another try
// before it had read that.
func TestRestartedSourceIsStoppedBeforeTheDestinationIsBuilt(t *testing.T) {
	s := resizing(GuestStopped{Host: "a", Consumer: "s"}, GuestRunning{Host: "a", Consumer: "s"})
	s = applyAll(s, GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 1})
	if s.State != StoppingSource {
		t.Fatalf("%s: the guest on a runs", s.State)
	}
	if s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}); s.State != Spawning {
		t.Errorf("%s: the guest on a has stopped", s.State)
	}
	s = resizing(GuestStopped{Host: "a", Consumer: "s"})
	if s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}, Claimed{Try: 1}); s.State != StoppingSource {
		t.Errorf("%s: the guest on a has stopped, and its agent starts it again as long as it is not told otherwise", s.State)
	}
	s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}, GuestFailed{Host: "b", Consumer: "s", Message: "no"},
		Released{},
		Chosen{Choices: []schedule.Choice{choice("c")}}, Claimed{Try: 2})
	if s.State != Spawning || s.Host != "c" {
		t.Errorf("%s on %s: the guest on a has been stopped for the move before", s.State, s.Host)
	}
}

// A record from a backup knows of fewer rebuilds than there were.
func TestRebuildWithAnOlderRecord(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a", Builds: 1}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 3}); s.Builds != 3 {
		t.Errorf("%d builds are known, the guest has 3", s.Builds)
	}
	s = Server{ID: "s", State: Active, Host: "a", Builds: 1}
	s = applyAll(s, ActionRequested{ID: "w", Action: Rebuild}, GuestRunning{Host: "a", Consumer: "s", Build: 3})
	if s.Builds != 4 || s.Task != Rebuilding {
		t.Errorf("%d builds, %q: the rebuild is yet to come", s.Builds, s.Task)
	}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 4}); s.Builds != 4 || s.Task != "" {
		t.Errorf("%d builds, %q", s.Builds, s.Task)
	}
}

// A live migration that fails while the server is being deleted: the guest has not left the source.
func TestFailedLiveMigrationKeepsTheSourceGuest(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Live}, Chosen{Choices: []schedule.Choice{choice("b")}},
		AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m"},
		Claimed{Try: 1}, GuestClaimed{Host: "b", Consumer: "s"}, DeleteRequested{}, GuestFailed{Host: "a", Consumer: "m",
			Message: "it cannot go"})
	if len(s.Leftovers) != 1 || s.Leftovers[0].Gone || !slices.Contains(s.Removals(), Removal{Host: "a", Consumer: "m"}) {
		t.Errorf("%s %+v %v", s.State, s.Leftovers, s.Removals())
	}
	if s = applyAll(s, GuestGone{Host: "a", Consumer: "m"}); !s.Leftovers[0].Gone {
		t.Errorf("%+v", s.Leftovers)
	}
}
