package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// TestSnapshotAttributes checks what a snapshot inherits, and that the user's properties come first, except those that
// say what the image is.
func TestSnapshotAttributes(t *testing.T) {
	s := lifecycle.Server{ID: "s", Name: "web", Project: "p", User: "u", Image: "base", Flavor: flavor.Flavor{DiskGB: 10},
		ImageSnapshot: &flavor.Image{MinRAM: 64, MinDisk: 3, Properties: map[string]string{"hw_disk_bus": "scsi",
			"os_type": "linux", "img_signature": "x", "os_glance_import_task": "y", image.ShelvedServer: "other"}},
		ShelvedImage: &lifecycle.ShelvedImage{ID: "i", Format: "qcow2", Copy: &lifecycle.ImageCopy{Name: "copy",
			BackupType: "daily", Properties: map[string]string{"os_type": "windows", "instance_uuid": "forged",
				"base_image_ref": "forged", "app": "web"}}}}
	got := imageAttributes(s)
	want := map[string]any{"id": "i", "name": "copy", "owner": "p", "visibility": "private", "disk_format": "qcow2",
		"container_format": "bare", "min_disk": 10, "min_ram": 64, "image_type": "backup", "backup_type": "daily",
		"instance_uuid": "s", "user_id": "u", "base_image_ref": "base", "hw_disk_bus": "scsi", "os_type": "windows",
		"app": "web", image.ShelvedServer: "s", "tags": []string{image.ShelvedTag}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	s.Image = ""
	if got := imageAttributes(s)["base_image_ref"]; got != nil {
		t.Errorf("without an image of the server: base_image_ref %v", got)
	}
}

// TestBackupRotation makes four backups of which two are kept, and one of another type, which does not count.
func TestBackupRotation(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	backup := func(id, kind string) {
		t.Helper()
		c.act(lifecycle.ActionRequested{ID: id, Action: lifecycle.Backup,
			Copy: lifecycle.ImageCopy{Name: id, BackupType: kind, Rotation: 2}})
		c.waitFor(id, func() bool { return c.server().TaskState() == "" })
		if s := c.server(); s.Refusal != nil || s.Actual != lifecycle.On {
			t.Fatalf("%+v", s.Refusal)
		}
	}
	for _, id := range []string{"x1", "x2"} { // of another project, with the properties of a backup
		c.images.put(image.Image{ID: id, Owner: "other", Status: image.Active, Properties: map[string]string{
			"instance_uuid": "s", "image_type": "backup", "backup_type": "daily"}})
	}
	for _, id := range []string{"d1", "d2"} {
		backup(id, "daily")
	}
	backup("w1", "weekly")
	backup("d3", "daily")
	backup("d4", "daily")
	if got := c.images.ids(); !slices.Equal(got, []string{"d3", "d4", "w1", "x1", "x2"}) {
		t.Errorf("images %v", got)
	}
	if i, err := c.images.Image(t.Context(), "d4"); err != nil || i.Properties[image.ShelvedServer] != "" ||
		i.Properties["image_type"] != "backup" || i.Status != image.Active {
		t.Errorf("%+v %v", i, err)
	}
}

// TestBackupIsCompleteWithoutAList checks that a backup stays whose older ones the image service finally does not list.
func TestBackupIsCompleteWithoutAList(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	c.images.unlist()
	c.act(lifecycle.ActionRequested{ID: "b1", Action: lifecycle.Backup,
		Copy: lifecycle.ImageCopy{Name: "b1", BackupType: "daily", Rotation: 1}})
	c.waitFor("the backup ends", func() bool { return c.server().TaskState() == "" })
	i, err := c.images.Image(t.Context(), "b1")
	s := c.server()
	if err != nil || i.Properties[image.ShelvedServer] != "" || s.Refusal != nil || len(s.UnusedImages) > 0 {
		t.Errorf("%+v %v, server %+v %v", i, err, s.Refusal, s.UnusedImages)
	}
}

// TestRefusedUploadDeletesSnapshot checks that a copy that the host cannot make ends with the reason, without an image,
// and that a guest without a disk is refused.
func TestRefusedUploadDeletesSnapshot(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	snapshot := lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Snapshot, Copy: lifecycle.ImageCopy{Name: "copy"}}
	_, err := c.conductor().Act(t.Context(), "s", snapshot)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "its guest has no disk in a file") {
		t.Errorf("without a disk: %v", err)
	}
	c.giveDisk()
	c.images.refusal = "no room for the copy"
	c.act(snapshot)
	c.waitFor("the copy is given up", func() bool { return c.server().Refusal != nil })
	if s := c.server(); s.State != lifecycle.Active || s.Task != "" || !strings.Contains(s.Refusal.Message, "no room") {
		t.Errorf("%s %s %+v", s.State, s.Task, s.Refusal)
	}
	c.waitFor("the image is deleted", func() bool { return len(c.images.ids()) == 0 })
}

// TestUsersImageStays checks that a finished copy, which has no mark of compute any more, is not deleted by a record
// from a backup that has it as not needed.
func TestUsersImageStays(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Snapshot, Copy: lifecycle.ImageCopy{Name: "copy"}})
	c.waitFor("the copy is finished", func() bool { return c.server().ShelvedImage == nil })
	c.images.put(image.Image{ID: "i2", Properties: map[string]string{image.ShelvedServer: "s"}})
	if _, err := c.store.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
		s.UnusedImages = []string{"i1", "i2"}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	c.restart()
	c.waitFor("the images are handled", func() bool { return len(c.server().UnusedImages) == 0 })
	if got := c.images.ids(); !slices.Equal(got, []string{"i1"}) {
		t.Errorf("images %v", got)
	}
}
