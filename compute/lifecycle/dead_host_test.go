package lifecycle

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// A resize whose source is declared dead before the destination is built is given up: the disk is at the source.
func TestResizeWhoseSourceIsDeclaredDead(t *testing.T) {
	s := ran(t)
	for _, e := range []Event{
		ActionRequested{ID: "m1", Action: Resize, SameHost: true}, prepared,
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 1}, AllocationsMoved{}, HostDead{Host: "a"},
	} {
		s, _ = Next(s, e, noon)
	}
	if s.Phase() != ReleasingDestination || !s.Move.From.Gone {
		t.Errorf("%s %+v", s.Stage(), s.Move)
	}
	for _, e := range []Event{Released{}, AllocationsRestored{}} {
		s, _ = Next(s, e, noon)
	}
	if s.State != Active || s.Host != "a" || s.Move != nil {
		t.Errorf("%s on %s %+v", s.Stage(), s.Host, s.Move)
	}
}

// The destination of a move that keeps the disk gets it from the source, until the move is confirmed. An evacuation has
// no source.
func TestDestinationGetsTheDiskOfTheSource(t *testing.T) {
	for _, c := range []struct {
		action Action
		want   *DiskSource
	}{{Migrate, &DiskSource{"a", "m"}}, {Resize, &DiskSource{"a", "m"}}, {Evacuate, nil}} {
		s := ran(t)
		for _, e := range []Event{ActionRequested{ID: "m", Action: c.action}, prepared,
			Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}, AllocationsMoved{},
			GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 2}, GuestStopped{Host: "a", Consumer: "m"}} {
			s, _ = Next(s, e, noon)
		}
		wantDisk(t, s, "b", c.want)
		s, _ = Next(s, GuestRunning{Host: "b"}, noon)
		wantDisk(t, s, "b", c.want)
		wantDisk(t, s, "a", nil)
		s, _ = Next(s, ActionRequested{ID: "c", Action: Confirm}, noon)
		wantDisk(t, s, "b", nil)
	}
}

// wantDisk checks from where a host gets the disk of the server.
func wantDisk(t *testing.T, s Server, host string, want *DiskSource) {
	t.Helper()
	for _, e := range s.Entries() {
		if e.Host == host && !reflect.DeepEqual(e.DiskFrom, want) {
			t.Errorf("%s: host %s gets the disk from %+v, not from %+v", s.Stage(), host, e.DiskFrom, want)
		}
	}
	if want != nil && !s.Expects(s.ID, host) {
		t.Errorf("%s: host %s has no guest", s.Stage(), host)
	}
}
