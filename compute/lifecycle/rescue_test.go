package lifecycle

import (
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// TestRescue checks the states of a server that is rescued, what its host is assigned, and which actions it then has.
func TestRescue(t *testing.T) {
	rescued := GuestRunning{Host: "a", Consumer: "s", Rescue: "i"}
	begun := applyAll(ran(t), ActionRequested{ID: "1", Action: Rescue, Image: "i", AdminPass: "secret"})
	if e := begun.Entries()[0]; e.Rescue != "i" || e.Power != On || begun.TaskState() != "rescuing" ||
		begun.Status() != "ACTIVE" || begun.AdminPass != "secret" {
		t.Errorf("%s %s, assigned %+v", begun.Status(), begun.TaskState(), e)
	}
	if late := applyAll(begun, GuestRunning{Host: "a", Consumer: "s"}); late.Task != Rescuing || late.AdminPass == "" {
		t.Errorf("a late report ends the task: %q", late.Task)
	}
	s := applyAll(begun, rescued)
	if s.Status() != "RESCUE" || s.VMState() != "rescued" || s.TaskState() != "" || s.AdminPass != "" {
		t.Errorf("%s %s %q", s.Status(), s.VMState(), s.TaskState())
	}
	for _, a := range []Action{Start, Stop, Reboot, Rebuild, Resize, Migrate, Live, Evacuate, Pause, Suspend, Shelve,
		Rescue, Unrescue} {
		if refusal := s.Refuse(a, true); (refusal == "") != (a == Unrescue) {
			t.Errorf("%s: %q", a, refusal)
		}
	}
	s = applyAll(s, ActionRequested{ID: "2", Action: Unrescue})
	if e := s.Entries()[0]; e.Rescue != "" || s.Status() != "RESCUE" || s.TaskState() != "unrescuing" {
		t.Errorf("%s %s, assigned %+v", s.Status(), s.TaskState(), e)
	}
	if s = applyAll(s, rescued, GuestRunning{Host: "a", Consumer: "s"}); s.Status() != "ACTIVE" || s.Task != "" {
		t.Errorf("%s %q", s.Status(), s.Task)
	}
	refused := applyAll(begun, GuestRefused{Host: "a", Consumer: "s", Message: "no image"})
	if refused.Status() != "ACTIVE" || refused.Entries()[0].Rescue != "" || refused.Refusal == nil {
		t.Errorf("refused: %s, assigned %+v", refused.Status(), refused.Entries()[0])
	}
	// a rescued server that a rebuild repairs boots its disk
	broken := applyAll(applyAll(begun, rescued), ActionRequested{ID: "3", Action: Reset, ToError: true},
		ActionRequested{ID: "4", Action: Rebuild})
	if e := broken.Entries()[0]; e.Rescue != "" {
		t.Errorf("rebuilt: assigned %+v", e)
	}
}

// TestEvacuateRescued checks that a rescue ends with an evacuation, which an operator can start from ERROR, or while
// the rescue begins: the guest at the destination boots its disk, and no report ends a rescue that it does not have.
func TestEvacuateRescued(t *testing.T) {
	begun := applyAll(ran(t), ActionRequested{ID: "1", Action: Rescue, Image: "i"})
	rescued := applyAll(begun, GuestRunning{Host: "a", Consumer: "s", Rescue: "i"},
		ActionRequested{ID: "3", Action: Reset, ToError: true})
	for name, s := range map[string]Server{"while it begins": begun, "from ERROR": rescued} {
		s = applyAll(s, ActionRequested{ID: "m", Action: Evacuate}, Chosen{Choices: []schedule.Choice{choice("b")}},
			AllocationsMoved{})
		s = applyAll(s, Claimed{Try: s.Try})
		if e := s.Entries()[0]; e.Host != "b" || e.Rescue != "" {
			t.Errorf("%s: %s, assigned %+v", name, s.Stage(), e)
		}
		s = applyAll(s, GuestRunning{Host: "b", Consumer: "s"})
		if s.Status() != "ACTIVE" || s.TaskState() != "" || s.Refuse(Stop, false) != "" {
			t.Errorf("%s: %s %q", name, s.Status(), s.TaskState())
		}
	}
}
