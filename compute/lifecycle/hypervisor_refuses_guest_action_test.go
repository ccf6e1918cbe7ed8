package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// What a hypervisor refuses to do with a guest is given up: the guest is shown as it is, and the user reads why until
// the next request.
func TestRefusedActionEnds(t *testing.T) {
	ask := func(a Action) ActionRequested { return ActionRequested{ID: string(a), Action: a} }
	stopped := []Event{ask(Stop), GuestStopped{Host: "a", Consumer: "s"}}
	paused := []Event{ask(Pause), GuestRunning{Host: "a", Consumer: "s", Paused: true}}
	suspended := []Event{ask(Suspend), GuestStopped{Host: "a", Consumer: "s", Suspended: true}}
	again := map[Power]Action{On: Stop, Off: Start, Paused: Unpause, Suspended: Resume}
	for _, c := range []struct {
		what   string
		events []Event
		power  Power // of the guest, and so the refusal says
		status string
		says   string
	}{
		{"stop", []Event{ask(Stop)}, On, "ACTIVE", "cannot be stopped on a: no answer to ACPI"},
		{"start", append(stopped[:2:2], ask(Start)), Off, "SHUTOFF", "cannot be started on a"},
		{"reboot that does not stop", []Event{ask(Reboot)}, On, "ACTIVE", "cannot be stopped on a"},
		{"reboot that does not start", []Event{ask(Reboot), GuestStopped{Host: "a", Consumer: "s"}}, Off, "SHUTOFF",
			"cannot be started on a"},
		{"pause", []Event{ask(Pause)}, On, "ACTIVE", "cannot be paused on a"},
		{"unpause", append(paused[:2:2], ask(Unpause)), Paused, "PAUSED", "cannot be unpaused on a"},
		{"suspend", []Event{ask(Suspend)}, On, "ACTIVE", "cannot be suspended on a"},
		{"resume", append(suspended[:2:2], ask(Resume)), Suspended, "SUSPENDED", "cannot be resumed on a"},
		{"rebuild", []Event{ask(Rebuild)}, On, "ACTIVE", "cannot be rebuilt on a"},
	} {
		s := ran(t)
		for _, e := range append(c.events, GuestRefused{Host: "a", Consumer: "s", Power: c.power,
			Message: "no answer to ACPI."}) {
			s, _ = Next(s, e, noon)
		}
		if s.Status() != c.status || s.TaskState() != "" || s.Actual != c.power || s.Power != c.power ||
			s.Builds != 0 {
			t.Errorf("%s: %s/%s, power %q, wanted %q, build %d", c.what, s.Status(), s.TaskState(), s.Actual, s.Power,
				s.Builds)
		}
		if s.Refusal == nil || !strings.Contains(s.Refusal.Message, c.says) || strings.Contains(s.Refusal.Message, "..") ||
			s.History[len(s.History)-1].Text != s.Refusal.Message {
			t.Errorf("%s: %+v", c.what, s.Refusal)
		}
		if e := s.Entries(); len(e) != 1 || e[0].Power != c.power {
			t.Errorf("%s: the assignments are %+v", c.what, e)
		}
		if s, _ = Next(s, ask(again[c.power]), noon); s.Refusal != nil || s.TaskState() == "" {
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

// A guest that ended and cannot be started is tried again: no user has requested that the server stops.
func TestRefusedRestartIsRetried(t *testing.T) {
	s := ran(t)
	refused := GuestRefused{Host: "a", Consumer: "s", Power: Off, Message: "no bridge br0.", RetryIn: 10 * time.Second}
	for range 2 {
		s, _ = Next(s, refused, noon)
		if s.Status() != "SHUTOFF" || s.Power != On || s.TaskState() != "" || s.Refusal == nil ||
			!strings.Contains(s.Refusal.Message, "no bridge br0; the next attempt is at "+
				noon.Add(10*time.Second).UTC().Format(time.RFC3339)) {
			t.Fatalf("%s, power %q, %+v", s.Status(), s.Power, s.Refusal)
		}
		if e := s.Entries(); len(e) != 1 || e[0].Power == Off {
			t.Errorf("the assignments are %+v", e)
		}
	}
	stopped, _ := Next(s, ActionRequested{ID: "x", Action: Stop}, noon)
	stopped, _ = Next(stopped, GuestStopped{Host: "a", Consumer: "s"}, noon)
	if stopped.Status() != "SHUTOFF" || stopped.Power != Off || stopped.TaskState() != "" {
		t.Errorf("stopped meanwhile: %s, power %q, task %q", stopped.Status(), stopped.Power, stopped.TaskState())
	}
	runs := GuestRunning{Host: "a", Consumer: "s", Happened: "it was started again at 12:00"}
	for range 2 {
		s, _ = Next(s, runs, noon)
	}
	if s.Status() != "ACTIVE" || s.Refusal != nil {
		t.Errorf("%s, %+v", s.Status(), s.Refusal)
	}
	runs.Happened = "it was started again at 12:05"
	s, _ = Next(s, runs, noon)
	count := 0
	for _, e := range s.History {
		if strings.Contains(e.Text, "it was started again at 12:0") {
			count += e.Times
		}
	}
	if count != 2 {
		t.Errorf("two restarts are %d entries of %+v", count, s.History)
	}
	started, _ := Next(stopped, ActionRequested{ID: "y", Action: Start}, noon)
	if started, _ = Next(started, refused, noon); started.Power != Off {
		t.Error("a start that a user has requested is not given up")
	}
}
