package lifecycle

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// zonesOf are zones by host.
type zonesOf map[string]string

func (z zonesOf) Zone(host string) string { return z[host] }

// A choice whose host is in another zone by now is left out, for new servers and for moves; so is the next choice of a
// claim that was lost.
func TestChoicesOfAnotherZone(t *testing.T) {
	inZone := func(host, zone string) schedule.Choice {
		c := choice(host)
		c.Zone = zone
		return c
	}
	three := Chosen{Choices: []schedule.Choice{inZone("b", "z1"), inZone("c", "z1"), inZone("d", "z2")}, Candidates: 3}
	zones := zonesOf{"b": "z2", "c": "z1", "d": "z2"}
	s := applyAll(fresh().WithZones(zones), Created{}, prepared, three)
	if s.ClaimedHost() != "c" || !strings.Contains(s.History[len(s.History)-2].Text, "has changed from z1 to z2") {
		t.Fatalf("claimed on %q: %+v", s.ClaimedHost(), s.History)
	}
	s = applyAll(s.WithZones(zonesOf{"d": "z1"}), ClaimLost{Try: s.Try})
	if s.ClaimedHost() != "" || s.State != Scheduling {
		t.Errorf("claimed on %q, %s", s.ClaimedHost(), s.State)
	}
	m := applyAll(ran(t).WithZones(zones), ActionRequested{ID: "m", Action: Migrate}, three)
	if m.ClaimedHost() != "c" || m.Phase() != MovingAllocations {
		t.Errorf("moves to %q: %s", m.ClaimedHost(), m.Phase())
	}
	if all := applyAll(fresh(), Created{}, prepared, three); all.ClaimedHost() != "b" { // zones are not compared
		t.Errorf("claimed on %q", all.ClaimedHost())
	}
}
