package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/quota"
)

// TestSoftDeletion checks the states of a server that is deleted and restored, what its host is assigned, what it
// counts, and which actions it has meanwhile.
func TestSoftDeletion(t *testing.T) {
	running, stopped := GuestRunning{Host: "a", Consumer: "s"}, GuestStopped{Host: "a", Consumer: "s"}
	request := DeleteRequested{Soft: true, By: Caller{Request: "req-1"}}
	s := ran(t)
	s.Flavor.VCPUs = 2
	s = applyAll(s, request)
	if s.Status() != "ACTIVE" || s.TaskState() != "soft-deleting" || s.Entries()[0].Power != Off {
		t.Fatalf("%s %s, assigned %q", s.Status(), s.TaskState(), s.Entries()[0].Power)
	}
	if s.QuotaUse()[quota.Instances] != 1 {
		t.Errorf("before its guest has stopped it counts %v", s.QuotaUse())
	}
	if s = applyAll(s, running); s.Task != SoftDeleting {
		t.Error("a late report ends the task")
	}
	s = applyAll(s, stopped)
	if s.Status() != "SOFT_DELETED" || s.VMState() != "soft-delete" || s.TaskState() != "" || s.AllocatedHost() != "a" {
		t.Fatalf("%s %s %q on %q", s.Status(), s.VMState(), s.TaskState(), s.AllocatedHost())
	}
	if use := s.QuotaUse(); use[quota.Instances] != 0 || use[quota.Cores] != 0 {
		t.Errorf("it counts %v", use)
	}
	for _, a := range []Action{Start, Stop, Reboot, Pause, Rebuild, Rescue, Resize, Migrate, Live, Evacuate, Shelve,
		Unshelve, Offload, Snapshot, Backup} {
		if s.Refuse(a, true) == "" {
			t.Errorf("%s is not refused", a)
		}
	}
	again, _ := Next(s, request, noon.Add(time.Hour))
	if !again.SoftDeleted.Equal(noon) {
		t.Errorf("a second request postpones the end to %s", again.SoftDeleted)
	}
	back := applyAll(s, ActionRequested{ID: "r", Action: Restore, By: Caller{Request: "req-2"}})
	if back.Status() != "SOFT_DELETED" || back.TaskState() != "restoring" || back.Entries()[0].Power != On ||
		back.QuotaUse()[quota.Cores] != 2 {
		t.Fatalf("%s %s, assigned %q, counts %v", back.Status(), back.TaskState(), back.Entries()[0].Power, back.QuotaUse())
	}
	if late := applyAll(back, DeleteRequested{Reclaims: noon}); late.State != Active {
		t.Error("a server that is being restored is reclaimed")
	}
	if back = applyAll(back, running); back.Status() != "ACTIVE" || back.TaskState() != "" || back.IsSoftDeleted() {
		t.Errorf("%s %s", back.Status(), back.TaskState())
	}
	var names []string
	for _, a := range back.PastActions() {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "create delete restore" {
		t.Errorf("its actions: %s", got)
	}
	if late := applyAll(s, DeleteRequested{Reclaims: noon.Add(-time.Second)}); late.State != Active {
		t.Error("the end of an earlier soft deletion deletes it")
	}
	for _, end := range []DeleteRequested{{Reclaims: noon}, {}} {
		if ended := applyAll(s, end); ended.State != DeletingGuest || ended.TaskState() != "deleting" {
			t.Errorf("%+v: %s", end, ended.State)
		}
	}
}

// TestSoftDeletionRefused checks servers whose guest cannot be stopped or started, is lost, or does not exist.
func TestSoftDeletionRefused(t *testing.T) {
	request := DeleteRequested{Soft: true}
	s := applyAll(ran(t), request, GuestRefused{Host: "a", Consumer: "s", Message: "busy"})
	if s.Status() != "ACTIVE" || s.IsSoftDeleted() || s.Refusal == nil {
		t.Errorf("cannot be stopped: %s", s.Status())
	}
	deleted := applyAll(ran(t), request, GuestStopped{Host: "a", Consumer: "s"})
	s = applyAll(deleted, ActionRequested{ID: "r", Action: Restore},
		GuestRefused{Host: "a", Consumer: "s", Message: "busy", Power: Off})
	if s.Status() != "SOFT_DELETED" || s.TaskState() != "" || s.Refuse(Restore, false) != "" {
		t.Errorf("cannot be started: %s %s", s.Status(), s.TaskState())
	}
	lost := applyAll(deleted, GuestFailed{Host: "a", Consumer: "s", Message: "no disk"}, Released{})
	if lost.Status() != "SOFT_DELETED" || lost.Refuse(Restore, false) == "" {
		t.Errorf("lost: %s, restore: %q", lost.Status(), lost.Refuse(Restore, false))
	}
	if s := applyAll(ran(t), DeleteRequested{Soft: true, Silent: true}); s.Status() != "SOFT_DELETED" {
		t.Errorf("on a host that does not report: %s", s.Status())
	}
	if s := applyAll(fresh(), Created{}, request); s.State != Deleted {
		t.Errorf("a server that has never run: %s", s.State)
	}
	restoring := applyAll(deleted, ActionRequested{ID: "r", Action: Restore})
	if s := applyAll(restoring, ActionRequested{ID: "m", Action: Evacuate}); s.Phase() != Planning || s.IsSoftDeleted() {
		t.Errorf("evacuated while it is restored: %s", s.Stage())
	}
}

// TestSoftDeletionOnALostHost checks that the soft deletion of a server whose agent does not report that the guest has
// stopped ends, so that the server can be restored and is reclaimed: when an operator declares the host dead, and when
// the deletion is requested again while the host is silent.
func TestSoftDeletionOnALostHost(t *testing.T) {
	s := applyAll(ran(t), DeleteRequested{Soft: true})
	for _, e := range []Event{HostDead{Host: "a"}, DeleteRequested{Soft: true, Silent: true}} {
		after := applyAll(s, e)
		if after.Status() != "SOFT_DELETED" || after.TaskState() != "" || !after.SoftDeleted.Equal(s.SoftDeleted) {
			t.Errorf("%T: %s %s", e, after.Status(), after.TaskState())
		}
		again := applyAll(after, e)
		if len(again.History) != len(after.History) || again.History[len(again.History)-1].Times != 1 {
			t.Errorf("%T: a second event adds to the history", e)
		}
		if ended := applyAll(after, DeleteRequested{Reclaims: s.SoftDeleted}, HostDead{Host: "a"}); ended.State !=
			DeletingAllocation {
			t.Errorf("%T: it is not reclaimed: %s", e, ended.State)
		}
	}
	if again := applyAll(s, DeleteRequested{Soft: true}); again.Task != SoftDeleting {
		t.Errorf("its agent reports: %q", again.Task)
	}
}

// TestSoftDeletionEndsOthers checks that a soft deletion ends a shelved server's image, a rescue and an unconfirmed
// resize, as Nova does.
func TestSoftDeletionEndsOthers(t *testing.T) {
	request, stopped := DeleteRequested{Soft: true}, GuestStopped{Host: "a", Consumer: "s"}
	s := applyAll(keptShelved(t), request)
	if s.Status() != "SOFT_DELETED" || len(s.UnusedImages) != 1 || s.ShelvedImage != nil {
		t.Errorf("shelved: %s, %v", s.Status(), s.UnusedImages)
	}
	rescued := GuestRunning{Host: "a", Consumer: "s", Rescue: "i"}
	s = applyAll(ran(t), ActionRequested{ID: "1", Action: Rescue, Image: "i"}, rescued, request, stopped,
		ActionRequested{ID: "r", Action: Restore})
	if s.Entries()[0].Rescue != "" {
		t.Errorf("rescued: it is restored from %s", s.Entries()[0].Rescue)
	}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s"}); s.Status() != "ACTIVE" {
		t.Errorf("rescued, then restored: %s %s", s.Status(), s.TaskState())
	}
	s = resizing()
	s.Launched = noon
	s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"})
	s = applyAll(s, Claimed{Try: s.Try}, GuestStopped{Host: "a", Consumer: "m"}, GuestRunning{Host: "b", Consumer: "s"})
	if s.Phase() != Resized {
		t.Fatal(s.Stage())
	}
	if s = applyAll(s, request, GuestStopped{Host: "b", Consumer: "s"}); s.Status() != "SOFT_DELETED" || s.Host != "b" ||
		len(s.Leftovers) != 1 {
		t.Errorf("resized: %s on %s, %v", s.Status(), s.Host, s.Leftovers)
	}
}
