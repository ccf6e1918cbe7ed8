package lifecycle

import (
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// A resize on a host that is declared dead meanwhile does not end on that host.
func TestResizeOnAHostThatIsDeclaredDead(t *testing.T) {
	s := ran(t)
	for _, e := range []Event{
		ActionRequested{ID: "m1", Action: Resize, SameHost: true}, prepared,
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 1}, AllocationsMoved{}, HostDead{Host: "a"},
	} {
		s, _ = Next(s, e, noon)
	}
	if s.Phase() != SchedulingDestination || !s.Move.From.Gone {
		t.Errorf("%s %+v", s.Stage(), s.Move)
	}
	s, _ = Next(s, Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}, noon)
	if s.Phase() != ClaimingDestination || s.Choices[0].Host != "b" {
		t.Errorf("%s %+v", s.Stage(), s.Choices)
	}
}
