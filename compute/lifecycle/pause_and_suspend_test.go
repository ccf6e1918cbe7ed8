package lifecycle

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// TestPauseAndSuspend checks the states of a server that is paused and suspended, what its host is assigned, and which
// actions it then has.
func TestPauseAndSuspend(t *testing.T) {
	running := GuestRunning{Host: "a", Consumer: "s"}
	for _, c := range []struct {
		begin, end Action
		power      Power
		during     string // task and status until the report
		report     Event
		status     string
		allowed    []Action
	}{
		{Pause, Unpause, Paused, "pausing ACTIVE", GuestRunning{Host: "a", Consumer: "s", Paused: true}, "PAUSED",
			[]Action{Unpause, Shelve}},
		{Suspend, Resume, Suspended, "suspending ACTIVE", GuestStopped{Host: "a", Consumer: "s", Suspended: true},
			"SUSPENDED", []Action{Resume, Shelve}},
	} {
		s := applyAll(ran(t), ActionRequested{ID: "1", Action: c.begin})
		if got := s.TaskState() + " " + s.Status(); got != c.during || s.Entries()[0].Power != c.power {
			t.Errorf("%s: %s, assigned %q", c.begin, got, s.Entries()[0].Power)
		}
		if late := applyAll(s, running); late.Task != s.Task {
			t.Errorf("%s: a late report ends the task", c.begin)
		}
		s = applyAll(s, c.report)
		if s.Status() != c.status || s.VMState() != strings.ToLower(c.status) || s.TaskState() != "" {
			t.Errorf("%s: %s %s %q", c.begin, s.Status(), s.VMState(), s.TaskState())
		}
		for _, a := range []Action{Start, Stop, Rebuild, Resize, Migrate, Live, Evacuate, Pause, Unpause, Suspend, Resume,
			Shelve} {
			want := a == c.allowed[0] || a == c.allowed[1]
			if refusal := s.Refuse(a, false); (refusal == "") != want {
				t.Errorf("%s, then %s: %q", c.begin, a, refusal)
			}
		}
		if ended := applyAll(s, ActionRequested{ID: "2", Action: c.end}, running); ended.Status() != "ACTIVE" {
			t.Errorf("%s: %s", c.end, ended.Status())
		}
		// the host has restarted, or the file with the memory is lost
		lost := applyAll(s, GuestStopped{Host: "a", Consumer: "s", ShutDown: true})
		if lost.Status() != "SHUTOFF" || lost.Entries()[0].Power != Off {
			t.Errorf("%s, lost: %s, assigned %q", c.begin, lost.Status(), lost.Entries()[0].Power)
		}
		reboot := applyAll(s, ActionRequested{ID: "2", Action: Reboot, Hard: true})
		if reboot.Entries()[0].Power != Off {
			t.Errorf("%s, then reboot: assigned %q before the guest has ended", c.begin, reboot.Entries()[0].Power)
		}
		reboot = applyAll(reboot, c.report, GuestStopped{Host: "a", Consumer: "s"})
		if reboot.Entries()[0].Power != On || reboot.Task != RebootStartedHard {
			t.Errorf("%s, then reboot: %s, assigned %q", c.begin, reboot.Task, reboot.Entries()[0].Power)
		}
	}
}

// TestSuspendWithDevices checks that a server with devices is not suspended, and that it is paused.
func TestSuspendWithDevices(t *testing.T) {
	s := ran(t)
	s.Devices = []schedule.Picked{{RequestID: "r", Address: "0000:3b:00.0"}}
	if why := s.Refuse(Suspend, false); !strings.Contains(why, "0000:3b:00.0") {
		t.Error(why)
	}
	if why := s.Refuse(Pause, false); why != "" {
		t.Error(why)
	}
}

// A guest that ends while its disk is copied stops its server, and the copy goes on from the stopped guest: otherwise
// its agent would wait for an assignment in which the guest may be stopped.
func TestGuestEndsDuringSnapshot(t *testing.T) {
	for _, c := range []struct {
		pause []Event
		want  Power
	}{{nil, On}, {[]Event{ActionRequested{ID: "1", Action: Pause}, GuestRunning{Host: "a", Consumer: "s",
		Paused: true}}, Paused}} {
		s := applyAll(ran(t), append(c.pause, ActionRequested{ID: "i", Action: Snapshot, DiskFormat: "qcow2"},
			ImageCreated{ID: "i"})...)
		if s.Task != ImageUploading || s.Entries()[0].Power != c.want {
			t.Fatalf("%s, assigned %q", s.Task, s.Entries()[0].Power)
		}
		s = applyAll(s, GuestStopped{Host: "a", Consumer: "s", ShutDown: true})
		if s.Status() != "SHUTOFF" || s.Task != ImageUploading || s.Entries()[0].Power != Off {
			t.Errorf("after %q: %s, %s, assigned %q", c.want, s.Status(), s.Task, s.Entries()[0].Power)
		}
	}
}
