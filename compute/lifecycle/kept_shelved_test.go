package lifecycle

import (
	"testing"
	"time"
)

// keptShelved returns a server that is shelved and has its guest on host a still.
func keptShelved(t *testing.T) Server {
	t.Helper()
	s := applyAll(ran(t), ActionRequested{ID: "i", Action: Shelve, DiskFormat: "qcow2"}, ImageCreated{ID: "i"},
		GuestStopped{Host: "a", Consumer: "s", Upload: &DiskUpload{Image: "i", Bytes: 7, SHA512: "sum"}},
		ImageChecked{ID: "i", Keep: true})
	if s.Status() != "SHELVED" || s.VMState() != "shelved" || s.TaskState() != "" || s.AllocatedHost() != "a" {
		t.Fatalf("%s %s %q on %q", s.Status(), s.VMState(), s.TaskState(), s.AllocatedHost())
	}
	return s
}

// TestKeptShelved checks a server that stays on its host when it is shelved: what it is assigned, and how it ends.
func TestKeptShelved(t *testing.T) {
	s := keptShelved(t)
	if e := s.Entries()[0]; e.Power != Off || e.UploadTo != "" {
		t.Errorf("assigned %+v", e)
	}
	for _, a := range []Action{Start, Stop, Reboot, Rebuild, Resize, Migrate, Evacuate, Shelve, Restore, Snapshot} {
		if s.Refuse(a, true) == "" {
			t.Errorf("%s is not refused", a)
		}
	}
	back := applyAll(s, ActionRequested{ID: "u", Action: Unshelve})
	if back.Status() != "SHELVED" || back.TaskState() != "unshelving" || back.Entries()[0].Power != On ||
		back.Try != s.Try {
		t.Fatalf("unshelving: %s %s, assigned %q", back.Status(), back.TaskState(), back.Entries()[0].Power)
	}
	if refused := applyAll(back, GuestRefused{Host: "a", Consumer: "s", Message: "busy",
		Power: Off}); refused.Status() != "SHELVED" || refused.ShelvedImage == nil || refused.TaskState() != "" {
		t.Errorf("unshelving is refused: %s %s, image %v", refused.Status(), refused.TaskState(), refused.ShelvedImage)
	}
	if back = applyAll(back, GuestRunning{Host: "a", Consumer: "s"}); back.Status() != "ACTIVE" ||
		len(back.UnusedImages) != 1 || back.ShelvedImage != nil {
		t.Errorf("unshelved: %s, unused images %v", back.Status(), back.UnusedImages)
	}
	if late := applyAll(back, OffloadDue{ShelvedAt: noon}); late.State != Active {
		t.Error("an unshelved server is offloaded")
	}
	if late := applyAll(s, OffloadDue{ShelvedAt: noon.Add(-time.Hour)}); late.State != Active {
		t.Error("the end of an earlier time offloads it")
	}
	for _, e := range []Event{OffloadDue{ShelvedAt: noon}, ActionRequested{ID: "o", Action: Offload}} {
		off := applyAll(s, e)
		if off.Status() != "SHELVED" || off.TaskState() != "shelving_offloading" || len(off.Removals()) != 1 {
			t.Errorf("%T: %s %s", e, off.Status(), off.TaskState())
		}
		off = applyAll(off, GuestGone{Host: "a", Consumer: "s"}, Released{})
		if off.Status() != "SHELVED_OFFLOADED" || off.ShelvedImage == nil {
			t.Errorf("%T: %s", e, off.Status())
		}
	}
	for _, e := range []Event{HostDead{Host: "a"}, GuestFailed{Host: "a", Consumer: "s", Message: "no disk"}} {
		off := applyAll(s, e, HostDead{Host: "a"}, Released{})
		if off.Status() != "SHELVED_OFFLOADED" || off.ShelvedImage == nil || off.Refuse(Unshelve, false) != "" {
			t.Errorf("%T: %s", e, off.Status())
		}
	}
}

// TestShelvePaused checks that a guest that is paused or suspended keeps its power state until the image exists:
// otherwise its memory would be lost for a shelving that fails.
func TestShelvePaused(t *testing.T) {
	paused := GuestRunning{Host: "a", Consumer: "s", Paused: true}
	suspended := GuestStopped{Host: "a", Consumer: "s", Suspended: true}
	for _, c := range []struct {
		by Action
		is Event
	}{{Pause, paused}, {Suspend, suspended}} {
		s := applyAll(ran(t), ActionRequested{ID: "1", Action: c.by}, c.is)
		before := s.Entries()[0].Power
		s = applyAll(s, ActionRequested{ID: "i", Action: Shelve, DiskFormat: "qcow2"})
		if got := s.Entries()[0].Power; got != before {
			t.Errorf("%s: without the image it is assigned %q", c.by, got)
		}
		if failed := applyAll(s, Refused{Step: CreateImage, Reason: "full"}); failed.Entries()[0].Power != before ||
			failed.Task != "" {
			t.Errorf("%s, no image: assigned %q", c.by, failed.Entries()[0].Power)
		}
		if s = applyAll(s, ImageCreated{ID: "i"}); s.Entries()[0].Power != Off || s.Power != Off {
			t.Errorf("%s: with the image it is assigned %q", c.by, s.Entries()[0].Power)
		}
	}
}
