package lifecycle

import (
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// TestEvacuatedServerStaysStopped tests that an evacuation without a start assigns a stopped guest to the destination,
// and that the server is stopped then; and that the guest at the source runs on if the evacuation is given up.
func TestEvacuatedServerStaysStopped(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := ran(t)
		for _, e := range []Event{ActionRequested{ID: "m", Action: Evacuate, AdminPass: "p",
			EvacuateOptions: EvacuateOptions{KeepStopped: keep}},
			Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}, AllocationsMoved{}, Claimed{Try: 2}} {
			s, _ = Next(s, e, noon)
		}
		want, report := On, Event(GuestRunning{Host: "b"})
		if keep {
			want, report = Off, GuestStopped{Host: "b"}
		}
		if e := entryOn(s, "b"); e.Power != want || s.AdminPass != "p" {
			t.Errorf("keep %t: the destination is assigned %q, the password is %q; %s", keep, e.Power, s.AdminPass,
				s.Stage())
		}
		s, _ = Next(s, report, noon)
		if s.State != Active || s.Host != "b" || s.Power != want || (s.Actual == Off) != keep || s.AdminPass != "" {
			t.Errorf("keep %t: %s on %s, power %q, %q", keep, s.Stage(), s.Host, s.Power, s.Actual)
		}
	}
	s := ran(t)
	for _, e := range []Event{ActionRequested{ID: "m", Action: Evacuate, AdminPass: "p",
		EvacuateOptions: EvacuateOptions{KeepStopped: true}},
		NoValidHost{Reason: "r"}} {
		s, _ = Next(s, e, noon)
	}
	if e := entryOn(s, "a"); s.State != Active || s.Host != "a" || e.Power != On || s.AdminPass != "" {
		t.Errorf("given up: %s on %s, assigned %q", s.Stage(), s.Host, e.Power)
	}
}

// entryOn returns the entry of a server in the assignments of a host.
func entryOn(s Server, host string) Entry {
	for _, e := range s.Entries() {
		if e.Host == host {
			return e
		}
	}
	return Entry{Power: "no entry"}
}
