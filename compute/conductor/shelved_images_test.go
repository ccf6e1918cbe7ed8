package conductor

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// imageService is an image service in memory.
type imageService struct {
	refusal string // why agents cannot upload, finally

	mu        sync.Mutex
	protected bool // no image may be deleted
	unlisted  bool // no images may be listed
	all       map[string]image.Image
	order     map[string]int // of creation
}

// put stores images, as others create and change them.
func (s *imageService) put(images ...image.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range images {
		s.all[i.ID] = i
	}
}

func (s *imageService) protect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protected = true
}

// unlist makes the service refuse lists.
func (s *imageService) unlist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = true
}

func (s *imageService) Image(_ context.Context, id string) (image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, there := s.all[id]
	if !there {
		return i, fault.New(fault.NotFound, "there is no image %s", id)
	}
	return i, nil
}

func (s *imageService) Create(_ context.Context, attributes map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := attributes["id"].(string)
	if _, there := s.all[id]; there {
		return fault.New(fault.Conflict, "there is an image %s", id)
	}
	s.all[id] = image.Image{ID: id, Status: "queued", Name: attributes["name"].(string),
		Owner:      attributes["owner"].(string),
		Visibility: attributes["visibility"].(string), DiskFormat: attributes["disk_format"].(string),
		Properties: map[string]string{}}
	for key, value := range attributes {
		if text, is := value.(string); is {
			s.all[id].Properties[key] = text
		}
	}
	if s.order == nil {
		s.order = map[string]int{}
	}
	s.order[id] = len(s.order)
	return nil
}

func (s *imageService) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.protected {
		return fault.New(fault.Forbidden, "image %s is protected", id)
	}
	if _, there := s.all[id]; !there {
		return fault.New(fault.NotFound, "there is no image %s", id)
	}
	delete(s.all, id)
	return nil
}

func (s *imageService) List(_ context.Context, filter url.Values) ([]image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlisted {
		return nil, fault.New(fault.Forbidden, "images are not listed")
	}
	all := slices.Collect(maps.Values(s.all))
	if owner, given := filter["owner"]; given {
		all = slices.DeleteFunc(all, func(i image.Image) bool { return i.Owner != owner[0] })
	}
	if kind := filter.Get("backup_type"); kind != "" {
		all = slices.DeleteFunc(all, func(i image.Image) bool { return i.Properties["backup_type"] != kind })
		slices.SortFunc(all, func(a, b image.Image) int { return s.order[b.ID] - s.order[a.ID] })
	}
	return all, nil
}

func (s *imageService) Unmark(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all[id].Properties, image.ShelvedServer)
	return nil
}

// upload is what an agent does.
func (s *imageService) upload(id string) lifecycle.DiskUpload {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, there := s.all[id]
	switch {
	case !there:
		return lifecycle.DiskUpload{Image: id, Error: "there is no image", Final: true}
	case s.refusal != "":
		return lifecycle.DiskUpload{Image: id, Error: s.refusal, Final: true}
	}
	i.Status, i.Size, i.HashAlgo, i.HashValue = image.Active, 7, "sha512", "sum"
	s.all[id] = i
	return lifecycle.DiskUpload{Image: id, Bytes: 7, SHA512: "sum"}
}

func (s *imageService) hasData(id string) bool {
	i, err := s.Image(context.Background(), id)
	return err == nil && i.Status == image.Active
}

func (s *imageService) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

// troubledImages counts what the compute writes to the image service.
type troubledImages struct {
	*imageService
	*trouble
}

func (s troubledImages) Create(ctx context.Context, attributes map[string]any) error {
	return s.call(func() error { return s.imageService.Create(ctx, attributes) })
}

func (s troubledImages) Image(ctx context.Context, id string) (i image.Image, err error) {
	err = s.call(func() error {
		i, err = s.imageService.Image(ctx, id)
		return err
	})
	return i, err
}

func (s troubledImages) Delete(ctx context.Context, id string) error {
	return s.call(func() error { return s.imageService.Delete(ctx, id) })
}

// withDisks lets the hosts report that they can upload disks.
func withDisks(c *cloud) {
	c.disks = "qcow2"
	for host := range c.agents.devices {
		c.report(host)
	}
}

// giveDisk gives the server a disk.
func (c *cloud) giveDisk() {
	c.t.Helper()
	if _, err := c.store.Change(c.t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
		s.Flavor.DiskGB = 10
		return s
	}); err != nil {
		c.t.Fatal(err)
	}
}

// TestShelveIsRefusedWithoutImages checks that a server is not shelved if its disk would be lost.
func TestShelveIsRefusedWithoutImages(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	shelve := func() error {
		_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
		return err
	}
	refused := func(says string) {
		t.Helper()
		if err := shelve(); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	refused("has not reported yet")
	host, err := c.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	host.NoDiskImages = "its driver has disks and cannot read them"
	c.put(host)
	refused("its driver has disks and cannot read them")
	c.withoutImages = true
	c.restart()
	host.DiskImages = "qcow2"
	c.put(host)
	refused("compute has no image service; configure [glance]")
	host.DiskImages = "none"
	c.put(host)
	if err := shelve(); err != nil {
		t.Errorf("a server without a disk: %v", err)
	}
	c.settle(lifecycle.Shelved)
}

// TestShelvedImage checks the attributes of the image, and that only the data that were uploaded count.
func TestShelvedImage(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	c.agents.pause("a", true)
	c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
	c.waitFor("the image is created", func() bool { return c.server().TaskState() == "shelving_image_uploading" })
	i, err := c.images.Image(t.Context(), "i1")
	want := image.Image{ID: "i1", Name: "s-shelved", Visibility: "private", Owner: "p", DiskFormat: "qcow2"}
	if i.Properties[image.ShelvedServer] != "s" {
		t.Errorf("properties %v", i.Properties)
	}
	if i.Properties = nil; err != nil || i.ID != want.ID || i.Name != want.Name || i.Owner != want.Owner ||
		i.Visibility != want.Visibility || i.DiskFormat != want.DiskFormat {
		t.Errorf("%+v %v", i, err)
	}
	upload := c.images.upload("i1")
	c.images.put(image.Image{ID: "i1", Status: image.Active, Size: 7, HashAlgo: "sha512", HashValue: "other",
		Properties: map[string]string{image.ShelvedServer: "s"}})
	c.agents.mu.Lock()
	err = c.agents.guest(c.conductor(), "a", "s", c.agents.next(), lifecycle.GuestStopped{Host: "a", Consumer: "s",
		Devices: c.server().Devices, Upload: &upload})
	c.agents.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c.waitFor("the shelving is given up", func() bool { return c.server().Refusal != nil })
	if s := c.server(); s.State != lifecycle.Active || s.Host != "a" || s.Task != lifecycle.PoweringOn ||
		!strings.Contains(s.Refusal.Message, "does not have the uploaded data") {
		t.Errorf("%s %s %s %+v", s.State, s.Host, s.Task, s.Refusal)
	}
	c.agents.mu.Lock()
	c.agents.guests["a"]["s"].reported = "" // an agent reports again when its assignment has changed
	c.agents.mu.Unlock()
	c.agents.pause("a", false)
	c.settle(lifecycle.Active)
	c.waitFor("the image is deleted", func() bool { return len(c.images.ids()) == 0 })
}

// TestEvacuationKeepsUploadedDisk checks that a server is not evacuated while the image of its shelving may be the only
// copy of its disk: an evacuation gives the server a new disk and deletes the image.
func TestEvacuationKeepsUploadedDisk(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 1})
	at.since += c.Silence + time.Second
	for name, test := range map[string]struct {
		status, sha512, refused string
	}{
		"the image has no data":    {status: "queued"},
		"the image was deleted":    {},
		"the upload is reported":   {image.Active, "sum", "declare the host dead (`berth host down a`)"},
		"the report has not come":  {image.Active, "", "copy or protect the image"},
		"the upload has not ended": {status: "saving"},
	} {
		if _ = env.images.Delete(t.Context(), "i1"); test.status != "" {
			env.images.put(image.Image{ID: "i1", Status: test.status})
		}
		s := lifecycle.Server{ID: "s", Host: "a", State: lifecycle.Active, Task: lifecycle.ShelvingUploading,
			ShelvedImage: &lifecycle.ShelvedImage{ID: "i1", SHA512: test.sha512}}
		refusal, err := s.Refuse(lifecycle.Evacuate, false), error(nil)
		if refusal == "" {
			refusal, err = c.prepareAction(t.Context(), s, &lifecycle.ActionRequested{Action: lifecycle.Evacuate})
		}
		if err != nil || (refusal == "") != (test.refused == "") || !strings.Contains(refusal, test.refused) {
			t.Errorf("%s: %q %v, want %q", name, refusal, err, test.refused)
		}
	}
}

// TestUnshelveIsRefusedWithoutImage checks that a server whose image was deleted is not built with another disk.
func TestUnshelveIsRefusedWithoutImage(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	if err := c.images.Delete(t.Context(), "i1"); err != nil {
		t.Fatal(err)
	}
	_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "w", Action: lifecycle.Unshelve})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "the image i1 with its disk was deleted") {
		t.Error(err)
	}
}

// TestHalfUploads checks that images that no server needs are deleted if they have no data, and become their user's if
// they have, when they are found twice.
func TestHalfUploads(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.start(t.Context(), c.store, c.client(nil))
	c.make(server("s"))
	c.settle(lifecycle.Active)
	if _, err := c.store.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
		s.ShelvedImage = &lifecycle.ShelvedImage{ID: "needed"}
		s.UnusedImages = []string{"unused"} // DeleteImage deletes it
		return s
	}); err != nil {
		t.Fatal(err)
	}
	shelved := func(id, status, server string) image.Image {
		return image.Image{ID: id, Status: status, Properties: map[string]string{image.ShelvedServer: server}}
	}
	c.images.put(shelved("needed", "queued", "s"), shelved("late", "queued", "s"), shelved("data", image.Active, "s"),
		shelved("unused", image.Active, "s"),
		shelved("other", "queued", "server of another cloud"))
	h := halfUploads{dependencies: c.conductor().dependencies}
	marked := func(id string) bool {
		i, err := c.images.Image(t.Context(), id)
		return err == nil && i.Properties[image.ShelvedServer] != ""
	}
	for n, want := range [][]string{{"data", "late", "needed", "other", "unused"}, {"data", "needed", "other", "unused"},
		{"data", "needed", "other", "unused"}} {
		if err := h.remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if marked("data") != (n == 0) || !marked("needed") || !marked("other") || !marked("unused") {
			t.Errorf("after %d calls: %v has the mark: %v", n+1, "data", marked("data"))
		}
		if got := c.images.ids(); !slices.Equal(got, want) {
			t.Errorf("%v remain, want %v", got, want)
		}
	}
}

// TestProtectedImageStays checks that the deletion of a server ends although its image cannot be deleted.
func TestProtectedImageStays(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1}, setup: withDisks}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.giveDisk()
	c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	c.images.protect()
	if err := c.conductor().Delete(t.Context(), "s", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	c.settle(lifecycle.Deleted)
	s, err := c.store.Read(t.Context(), "s")
	if err != nil || len(s.UnusedImages) > 0 ||
		!strings.Contains(text(s), "the image i1 is not needed any more, but stays") {
		t.Errorf("%v %v\n%s", err, s.UnusedImages, text(s))
	}
}

// keptImages has images that cannot be deleted or changed. It lists them first.
type keptImages struct {
	*imageService
	kept []string
}

func (s keptImages) List(ctx context.Context, filter url.Values) ([]image.Image, error) {
	all, err := s.imageService.List(ctx, filter)
	slices.SortFunc(all, func(a, b image.Image) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}

func (s keptImages) refuse(id string) error {
	if slices.Contains(s.kept, id) {
		return fault.New(fault.Forbidden, "image %s is protected", id)
	}
	return nil
}

func (s keptImages) Delete(ctx context.Context, id string) error {
	if err := s.refuse(id); err != nil {
		return err
	}
	return s.imageService.Delete(ctx, id)
}

func (s keptImages) Unmark(ctx context.Context, id string) error {
	if err := s.refuse(id); err != nil {
		return err
	}
	return s.imageService.Unmark(ctx, id)
}

// TestHalfUploadsBesideAProtectedOne checks that an image that its user has protected does not keep those of others.
// Without the lease no image is changed.
func TestHalfUploadsBesideAProtectedOne(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.start(t.Context(), c.store, c.client(nil))
	c.make(server("s"))
	marked := func(id, status string) image.Image {
		return image.Image{ID: id, Status: status, Properties: map[string]string{image.ShelvedServer: "s"}}
	}
	c.images.put(marked("a1", "queued"), marked("a2", image.Active), marked("b1", "queued"))
	l, config := lease{}, quiet(t)
	l.lasts, l.end = context.WithCancel(t.Context())
	config.Images, config.Lease = keptImages{c.images, []string{"a1", "a2"}}, l
	h := halfUploads{dependencies: New(c.store, c.client(nil), config).dependencies}
	for range 3 {
		_ = h.remove(t.Context())
	}
	if got := c.images.ids(); !slices.Equal(got, []string{"a1", "a2"}) {
		t.Errorf("%v remain", got)
	}
	c.images.put(marked("b2", "queued"))
	_ = h.remove(t.Context())
	l.end()
	if err := h.remove(t.Context()); !fault.Is(err, fault.Unavailable) || !slices.Contains(c.images.ids(), "b2") {
		t.Errorf("without the lease: %v, %v remain", err, c.images.ids())
	}
}
