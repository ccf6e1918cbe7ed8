package app

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// disks returns the fake hypervisor with the guest of a server, to read and write its disk.
func (l *lab) disks(id string) *fake.Hypervisor {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "*", "guests", id+".json"))
	if nested, _ := filepath.Glob(filepath.Join(l.dir, "guests", id+".json")); err == nil {
		files = append(files, nested...)
	}
	if err != nil || len(files) != 1 {
		l.t.Fatalf("the guest of %s is in %v: %v", id, files, err)
	}
	h, err := fake.New(filepath.Dir(files[0]), hypervisor.Capacity{})
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

// shelvedImages lists the names of the images that are snapshots.
func (l *lab) shelvedImages() (names []string) {
	l.t.Helper()
	all, err := l.images().List(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, i := range all {
		if strings.HasSuffix(i.Name, "-shelved") {
			names = append(names, i.Name+" "+i.Visibility+" "+i.Status+" "+i.DiskFormat)
		}
	}
	return names
}

// history returns the history of a server as a text.
func (l *lab) history(id string) string {
	l.t.Helper()
	why, err := l.compute().Why(l.t.Context(), id)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, e := range why.History {
		all = append(all, e.Text)
	}
	return strings.Join(all, "\n")
}

// reaches waits for a status of a server without a task.
func (l *lab) reaches(id, status string) (s compute.Server) {
	l.t.Helper()
	l.until(status, func() (is bool) {
		var err error
		s, err = l.compute().Server(l.t.Context(), id)
		return err == nil && s.Status == status && s.TaskState == nil
	})
	return s
}

// A shelved server keeps its disk: it becomes a private image of the project, also when the agent restarts meanwhile,
// and the unshelved guest gets it. The image is deleted when the guest runs, or when the shelved server is deleted. The
// server's own image stays the same.
func TestShelvedServerKeepsItsDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up("")
	defer l.down()
	s := l.boot("web", "ACTIVE", nil)
	if err := l.disks(s.ID).SetDisk(s.ID, "marker"); err != nil {
		t.Fatal(err)
	}
	act := func(action string) {
		t.Helper()
		if err := l.compute().Act(t.Context(), s.ID, action, nil); err != nil {
			t.Fatalf("%s: %v\n%s", action, err, l.conditions())
		}
	}
	if err := l.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	act("shelve")
	l.until("the agent must upload", func() bool {
		now, err := l.compute().Server(t.Context(), s.ID)
		return err == nil && now.TaskState != nil && *now.TaskState == "shelving_image_uploading" && now.Status == "ACTIVE"
	})
	if err := l.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	shelved := l.reaches(s.ID, "SHELVED_OFFLOADED")
	if want := []string{"web-shelved private active raw"}; !slices.Equal(l.shelvedImages(), want) {
		t.Errorf("images %v, want %v", l.shelvedImages(), want)
	}
	if len(l.allocation(s.ID)) != 0 {
		t.Errorf("a shelved server holds %v", l.allocation(s.ID))
	}
	act("unshelve")
	now := l.reaches(s.ID, "ACTIVE")
	if now.Image != shelved.Image || now.Image != s.Image {
		t.Errorf("the image of the server was %+v, and is %+v", s.Image, now.Image)
	}
	if disk, err := l.disks(s.ID).Disk(s.ID); err != nil || disk != "marker" {
		t.Errorf("the disk has %q (%v)\n%s", disk, err, l.history(s.ID))
	}
	l.until("the image is deleted", func() bool { return len(l.shelvedImages()) == 0 })
	act("shelve")
	l.reaches(s.ID, "SHELVED_OFFLOADED")
	if len(l.shelvedImages()) != 1 {
		t.Errorf("images %v", l.shelvedImages())
	}
	l.delete(s.ID)
	l.until("the image is deleted", func() bool { return len(l.shelvedImages()) == 0 })
}

// With [DEFAULT] shelved_offload_time a shelved server stays on its host, with its allocation and its disk, and is
// unshelved there. A user offloads it, or compute does after the time.
func TestShelvedServerStaysOnItsHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up("shelved_offload_time = -1")
	s := l.boot("web", "ACTIVE", nil)
	if err := l.disks(s.ID).SetDisk(s.ID, "marker"); err != nil {
		t.Fatal(err)
	}
	act := func(action string, arguments map[string]any) error {
		t.Helper()
		return l.compute().Act(t.Context(), s.ID, action, arguments)
	}
	must := func(action, status string) {
		t.Helper()
		if err := act(action, nil); err != nil {
			t.Fatalf("%s: %v\n%s", action, err, l.conditions())
		}
		l.reaches(s.ID, status)
	}
	held := l.allocation(s.ID)
	must("shelve", "SHELVED")
	if len(l.allocation(s.ID)) != len(held) || len(l.shelvedImages()) != 1 {
		t.Errorf("shelved it holds %v, images %v", l.allocation(s.ID), l.shelvedImages())
	}
	if err := act("unshelve", map[string]any{"availability_zone": "nova"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("unshelved to a zone: %v", err)
	}
	must("unshelve", "ACTIVE")
	l.until("the image is deleted", func() bool { return len(l.shelvedImages()) == 0 })
	must("shelve", "SHELVED")
	must("shelveOffload", "SHELVED_OFFLOADED")
	must("unshelve", "ACTIVE")
	if disk, err := l.disks(s.ID).Disk(s.ID); err != nil || disk != "marker" {
		t.Errorf("the disk has %q (%v)\n%s", disk, err, l.history(s.ID))
	}
	must("shelve", "SHELVED")
	l.down()
	l.up("shelved_offload_time = 1")
	defer l.down()
	l.reaches(s.ID, "SHELVED_OFFLOADED")
}
