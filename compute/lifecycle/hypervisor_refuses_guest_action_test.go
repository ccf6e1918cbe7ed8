package lifecycle

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// What a hypervisor refuses to do with a guest is given up: the guest is shown as it is, and the user reads why until
// the next wish.
func TestRefusedActionEnds(t *testing.T) {
	ask := func(a Action) ActionRequested { return ActionRequested{ID: string(a), Action: a} }
	stopped := []Event{ask(Stop), GuestStopped{Host: "a", Consumer: "s"}}
	for _, c := range []struct {
		what    string
		events  []Event
		stopped bool // the guest, and so the refusal says
		status  string
		says    string
	}{
		{"stop", []Event{ask(Stop)}, false, "ACTIVE", "cannot be stopped on a: no answer to ACPI"},
		{"start", append(stopped[:2:2], ask(Start)), true, "SHUTOFF", "cannot be started on a"},
		{"reboot that does not stop", []Event{ask(Reboot)}, false, "ACTIVE", "cannot be stopped on a"},
		{"reboot that does not start", []Event{ask(Reboot), GuestStopped{Host: "a", Consumer: "s"}}, true, "SHUTOFF",
			"cannot be started on a"},
		{"rebuild", []Event{ask(Rebuild)}, false, "ACTIVE", "cannot be rebuilt on a"},
	} {
		s := ran(t)
		for _, e := range append(c.events, GuestRefused{Host: "a", Consumer: "s", Stopped: c.stopped,
			Message: "no answer to ACPI."}) {
			s, _ = Next(s, e, noon)
		}
		if s.Status() != c.status || s.TaskState() != "" || s.Stopped != c.stopped || (s.Power == Off) != c.stopped ||
			s.Builds != 0 {
			t.Errorf("%s: %s/%s, stopped %v, power %q, build %d", c.what, s.Status(), s.TaskState(), s.Stopped, s.Power,
				s.Builds)
		}
		if s.Refusal == nil || !strings.Contains(s.Refusal.Message, c.says) || strings.Contains(s.Refusal.Message, "..") ||
			s.History[len(s.History)-1].Text != s.Refusal.Message {
			t.Errorf("%s: %+v", c.what, s.Refusal)
		}
		if e := s.Entries(); len(e) != 1 || (e[0].Power == Off) != c.stopped {
			t.Errorf("%s: the assignments are %+v", c.what, e)
		}
		again := ask(Stop)
		if c.stopped {
			again = ask(Start)
		}
		if s, _ = Next(s, again, noon); s.Refusal != nil || s.TaskState() == "" {
			t.Errorf("%s: asked again: %s %+v", c.what, s.TaskState(), s.Refusal)
		}
	}
}

// A guest that does not stop for its move stays where it is.
func TestRefusedStopEndsTheMove(t *testing.T) {
	s := ran(t)
	for _, e := range []Event{
		ActionRequested{ID: "m1", Action: Migrate}, Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1},
		AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m1"},
		Claimed{Try: 2}, GuestRefused{Host: "a", Consumer: "m1", Message: "no answer to ACPI"}, Released{},
		AllocationsRestored{}, GuestRunning{Host: "a", Consumer: "s"},
	} {
		s, _ = Next(s, e, noon)
	}
	if s.State != Active || s.Host != "a" || s.Status() != "ACTIVE" || s.TaskState() != "" ||
		s.Migration.Status != "error" {
		t.Errorf("%s on %s: %s/%s, %+v", s.State, s.Host, s.Status(), s.TaskState(), s.Migration)
	}
}

// A refused stop counts also when the move has lost its destination meanwhile: the source says it once.
func TestRefusedStopBetweenDestinations(t *testing.T) {
	s := ran(t)
	for _, e := range []Event{
		ActionRequested{ID: "m1", Action: Migrate}, Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1},
		AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m1"}, Claimed{Try: 2},
	} {
		s, _ = Next(s, e, noon)
	}
	for _, at := range []MovePhase{StoppingSource, ReschedulingDestination, SchedulingDestination, ClaimingDestination} {
		there, move := s, *s.Move
		move.Phase, there.Move = at, &move
		silent, _ := Next(there, GuestRefused{Host: "a", Consumer: "m1"}, noon) // also without a reason
		there, _ = Next(there, GuestRefused{Host: "a", Consumer: "m1", Message: "no answer to ACPI"}, noon)
		if s.Phase() != StoppingSource || silent.Phase() != ReleasingDestination ||
			there.Phase() != ReleasingDestination || !strings.Contains(there.Move.Failed, "no answer to ACPI") {
			t.Errorf("in %s: %s, %+v", at, there.Stage(), there.Move)
		}
	}
}
