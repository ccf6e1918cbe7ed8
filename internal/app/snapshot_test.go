package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
)

// imageNamed returns the image with a name; its ID is empty if there is none.
func (l *lab) imageNamed(name string) image.Image {
	l.t.Helper()
	all, err := l.images().List(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == name {
			var found image.Image
			if _, err := l.images().REST.Do(l.t.Context(), "GET", "/v2/images/"+i.ID, nil, &found); err != nil {
				l.t.Fatal(err)
			}
			return found
		}
	}
	return image.Image{}
}

// A snapshot of a running server is an image of the project without a mark of compute, also when the agent restarts
// meanwhile; the server runs on, and another one boots from the image.
func TestSnapshotOfRunningServer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up("")
	defer l.down()
	s := l.boot("web", "ACTIVE", nil)
	if err := l.disks(s.ID).SetDisk(s.ID, "marker"); err != nil {
		t.Fatal(err)
	}
	if err := l.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	if err := l.compute().Act(t.Context(), s.ID, "createImage", map[string]any{"name": "copy",
		"metadata": map[string]string{"app": "web"}}); err != nil {
		t.Fatal(err)
	}
	if i := l.imageNamed("copy"); i.Status != "queued" {
		t.Errorf("after the answer the image is %+v", i)
	}
	now, err := l.compute().Server(t.Context(), s.ID)
	if err != nil || now.Status != "ACTIVE" || now.TaskState == nil || *now.TaskState != "image_uploading" {
		t.Errorf("%+v %v", now, err)
	}
	err = l.compute().Act(t.Context(), s.ID, "os-stop", nil)
	if err == nil || !strings.Contains(err.Error(), "task_state image_uploading") {
		t.Errorf("the server is stopped while it is copied: %v", err)
	}
	if err := l.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.reaches(s.ID, "ACTIVE")
	i := l.imageNamed("copy")
	for key, want := range map[string]string{"image_type": "snapshot", "instance_uuid": s.ID, "app": "web",
		image.ShelvedServer: ""} {
		if i.Properties[key] != want {
			t.Errorf("%s is %q, want %q", key, i.Properties[key], want)
		}
	}
	if i.Status != image.Active || i.Visibility != "private" || i.MinDisk != 1 || i.DiskFormat != "raw" {
		t.Errorf("%+v", i)
	}
	if strings.Contains(l.history(s.ID), "has stopped") {
		t.Errorf("the guest was stopped:\n%s", l.history(s.ID))
	}
	f, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "twin", VCPUs: 1, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	made, err := l.compute().CreateServer(t.Context(), compute.CreateServer{Name: "twin", Flavor: f.ID, Image: i.ID})
	if err != nil {
		t.Fatal(err)
	}
	l.reaches(made.ID, "ACTIVE")
}
