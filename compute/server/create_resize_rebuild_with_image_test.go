package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// fakeImages is an image service with public images.
type fakeImages struct {
	mu       sync.Mutex
	images   map[string]image.Image
	err      error
	requests []string // user, token and image
}

// Image returns an image.
func (s *fakeImages) Image(_ context.Context, who identity.Identity, token, id string) (image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, who.User+" "+token+" "+id)
	if s.err != nil {
		return image.Image{}, s.err
	}
	i, ok := s.images[id]
	if !ok {
		return image.Image{}, fault.New(fault.NotFound, "no such image")
	}
	return i, nil
}

// Images returns all images, by id.
func (s *fakeImages) Images(context.Context, identity.Identity, string) (list []image.Image, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.images)) {
		list = append(list, s.images[id])
	}
	return list, s.err
}

// Delete deletes an image.
func (s *fakeImages) Delete(_ context.Context, _ identity.Identity, _, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, id)
	return s.err
}

const (
	plainID = "44444444-4444-4444-8444-444444444444"
	cellsID = "55555555-5555-4555-8555-555555555555"
	goneID  = "66666666-6666-4666-8666-666666666666"
)

// put adds or replaces an image.
func (s *fakeImages) put(id string, i image.Image, properties map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.ID, i.Name, i.Properties = id, "name of "+id[:1], properties
	if i.Status == "" {
		i.Status = image.Active
	}
	s.images[id] = i
}

// withImages returns a fixture with an image service, two images and two flavors.
func withImages(t *testing.T, more ...func(*Options)) (*fixture, *fakeImages) {
	s := &fakeImages{images: map[string]image.Image{}}
	h := startWith(t, func(o *Options) {
		o.Images = s
		for _, change := range more {
			change(o)
		}
	})
	h.flavor("small", nil)
	h.flavor("dev", map[string]string{"pci_passthrough:alias": "gpu:1", "hw:numa_nodes": "1"})
	s.put(plainID, image.Image{}, map[string]string{"os_distro": "debian"})
	s.put(cellsID, image.Image{}, map[string]string{"hw_numa_nodes": "2", "trait:HW_CPU_X86_AVX2": "required",
		"os_distro": "debian"})
	return h, s
}

// read returns the record of a server.
func (h *fixture) read(id string) lifecycle.Server {
	h.Helper()
	s, err := h.store.Read(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// create returns the body of a request for a server.
func create(flavor, image string) string {
	return `{"server": {"name": "a", "flavorRef": "` + flavor + `", "imageRef": "` + image + `"}}`
}

// TestPropertiesThatAreNotDone checks that flavors and images may have any property, and that no server is created,
// resized or rebuilt with one that Berth does not do, unless an administrator has it ignored.
func TestPropertiesThatAreNotDone(t *testing.T) {
	h, images := withImages(t, func(o *Options) { o.Ignored = []string{"quota:*", "hw_tpm_version"} })
	secretID := "77777777-7777-4777-8777-777777777777"
	h.flavor("secret", map[string]string{"hw:mem_encryption": "true"})
	h.flavor("limited", map[string]string{"quota:cpu_quota": "1"})
	images.put(secretID, image.Image{}, map[string]string{"os_secure_boot": "required"})
	images.put(plainID, image.Image{}, map[string]string{"hw_tpm_version": "2.0", "owner": "x", "hw_disk_bus": "virtio"})
	refused := func(path, body, says string) {
		t.Helper()
		if r := h.ask("POST", path, body); r.status != http.StatusBadRequest || !strings.Contains(r.text, says) {
			t.Errorf("%s %s: %d %s, want %q", path, body, r.status, r.text, says)
		}
	}
	refused("/v2.1/servers", create("secret", plainID), "extra spec hw:mem_encryption")
	refused("/v2.1/servers", create("small", secretID), "image property os_secure_boot")
	r := h.ask("POST", "/v2.1/servers", create("limited", plainID))
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.text)
	}
	id, _ := r.dig("server/id").(string)
	h.assign(id, "host1")
	h.apply(id, lifecycle.GuestRunning{Host: "host1"})
	action := "/v2.1/servers/" + id + "/action"
	refused(action, `{"resize": {"flavorRef": "secret"}}`, "hw:mem_encryption")
	refused(action, `{"rebuild": {"imageRef": "`+secretID+`"}}`, "image property os_secure_boot")
	images.put(plainID, image.Image{}, map[string]string{"os_secure_boot": "required"})
	if r := h.ask("POST", action, `{"rebuild": {"imageRef": "`+plainID+`"}}`); r.status != http.StatusAccepted {
		t.Errorf("a rebuild from the stored properties: %d %s", r.status, r.text)
	}
}

// TestZeroDiskFlavor checks that only administrators create, rebuild and resize servers from an image with a flavor
// whose root disk has 0 GiB: nothing would count what the image takes on the host.
func TestZeroDiskFlavor(t *testing.T) {
	h, _ := withImages(t)
	for name, vcpus := range map[string]int{"zero": 1, "zero2": 2} {
		if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: name, Name: name, VCPUs: vcpus,
			RAM: 512}); err != nil {
			t.Fatal(err)
		}
	}
	const refusal = "Only volume-backed servers are allowed for flavors with zero disk"
	asked := func(token, path, body string, status int) (id string) {
		t.Helper()
		r := h.ask("POST", path, body, "X-Auth-Token", token)
		if r.status != status || (status == http.StatusForbidden) != strings.Contains(r.text, refusal) {
			t.Errorf("%s: %s: %d %s, want %d", token, body, r.status, r.text, status)
		}
		id, _ = r.dig("server/id").(string)
		return id
	}
	const user, admin = "ann:admin", "admin"
	asked(user, "/v2.1/servers", create("zero", plainID), http.StatusForbidden)
	asked(user, "/v2.1/servers", create("small", plainID), http.StatusAccepted)
	asked(user, "/v2.1/servers", create("zero", ""), http.StatusAccepted)
	id := asked(admin, "/v2.1/servers", create("zero", plainID), http.StatusAccepted)
	h.assign(id, "host1")
	h.apply(id, lifecycle.GuestRunning{Host: "host1"})
	action := "/v2.1/servers/" + id + "/action"
	asked(user, action, `{"rebuild": {"imageRef": "`+plainID+`"}}`, http.StatusForbidden)
	asked(user, action, `{"resize": {"flavorRef": "zero2"}}`, http.StatusForbidden)
	asked(admin, action, `{"resize": {"flavorRef": "zero2"}}`, http.StatusAccepted)
}

// TestSecureBoot checks that the secure boot of a flavor and an image is checked together when a server is created,
// resized and rebuilt, and that the agent gets it. What is ignored has no effect.
func TestSecureBoot(t *testing.T) {
	h, images := withImages(t, func(o *Options) { o.Ignored = []string{"hw_disk_bus"} })
	h.flavor("secure", map[string]string{"os:secure_boot": "required"})
	h.flavor("insecure", map[string]string{"os:secure_boot": "disabled"})
	uefiID := "77777777-7777-4777-8777-777777777777"
	images.put(plainID, image.Image{}, nil)
	images.put(uefiID, image.Image{}, map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required",
		"hw_disk_bus": "ide"})
	asked := func(path, body, says string) reply {
		t.Helper()
		r := h.ask("POST", path, body)
		if (r.status == http.StatusBadRequest) != (says != "") || !strings.Contains(r.text, says) {
			t.Errorf("%s %s: %d %s, want %q", path, body, r.status, r.text, says)
		}
		return r
	}
	asked("/v2.1/servers", create("secure", plainID), "hw_firmware_type=uefi")
	asked("/v2.1/servers", create("insecure", uefiID), "write the same value in both")
	asked("/v2.1/servers", `{"server": {"name": "a", "flavorRef": "secure"}}`, "hw_firmware_type=uefi")
	id, _ := asked("/v2.1/servers", create("secure", uefiID), "").dig("server/id").(string)
	h.assign(id, "host1")
	h.apply(id, lifecycle.GuestRunning{Host: "host1"})
	action := "/v2.1/servers/" + id + "/action"
	asked(action, `{"resize": {"flavorRef": "insecure"}}`, "write the same value in both")
	asked(action, `{"rebuild": {"imageRef": "`+plainID+`"}}`, "hw_firmware_type=uefi")
	found, err := h.store.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := flavor.Hardware{Firmware: "uefi", SecureBoot: "required"}
	if got := flavor.HardwareOf(found.Flavor, found.SourceImage()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestServerIsCreatedFromImage checks that the image's properties become part of the requests to Placement and the
// scheduler, and are stored with the server.
func TestServerIsCreatedFromImage(t *testing.T) {
	h, images := withImages(t)
	r := h.ask("POST", "/v2.1/servers", create("small", cellsID))
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if len(images.requests) != 1 || images.requests[0] != "ann ann:p1 "+cellsID {
		t.Errorf("requests %q", images.requests)
	}
	id, _ := r.dig("server/id").(string)
	images.put(cellsID, image.Image{}, nil) // the stored properties must not change
	s := h.prepare(id)
	if s.Image != cellsID || s.ImageSnapshot == nil || s.ImageSnapshot.Name != "name of 5" ||
		len(s.ImageSnapshot.Properties) != 2 || len(s.Topology) != 2 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Topology)
	}
	if len(s.Ask.Groups[0].Required) != 1 || s.Ask.Groups[0].Required[0][0] != "HW_CPU_X86_AVX2" {
		t.Errorf("request to Placement %+v", s.Ask)
	}
	if r := h.ask("GET", "/v2.1/servers/"+id, ""); r.dig("server/image/id") != cellsID {
		t.Errorf("%s", r.text)
	}
	why, err := h.admin.Why(t.Context(), id)
	if err != nil || why.Image == nil || why.Image.ID != cellsID || why.Image.Name != "name of 5" ||
		why.Image.Properties["hw_numa_nodes"] != "2" || len(why.Constraints) != 2 ||
		why.Constraints[0].Key != "hw:numa_nodes" || why.Constraints[0].Sources[0] != "image property hw_numa_nodes" {
		t.Errorf("%+v %+v %v", why.Image, why.Constraints, err)
	}
	without := h.server(h.admin, "without", "small")
	if s := h.read(without); s.ImageSnapshot != nil || len(images.requests) != 1 {
		t.Errorf("without an image: %+v, requests %q", s.ImageSnapshot, images.requests)
	}
	if why, err := h.admin.Why(t.Context(), without); err != nil || why.Image != nil || why.Constraints == nil {
		t.Errorf("%+v %v", why, err)
	}
}

func TestUnusableImagesAreRejected(t *testing.T) {
	h, images := withImages(t)
	for _, c := range []struct {
		name       string
		image      image.Image
		properties map[string]string
		fails      error
		status     int
		wantText   string
	}{
		{"missing", image.Image{}, nil, fault.New(fault.NotFound, "no"), 400, "Can not find requested image"},
		{"forbidden", image.Image{}, nil, fault.New(fault.Forbidden, "no"), 400, "Not authorized for image " + goneID},
		{"not active", image.Image{Status: "queued"}, nil, nil, 400,
			"Image " + goneID + " is not active: its status is queued"},
		{"flavor with too little memory", image.Image{MinRAM: 513}, nil, nil, 400,
			"Flavor's memory is too small for requested image"},
		{"flavor with too small a disk", image.Image{MinDisk: 4}, nil, nil, 400, "minimum size"},
		{"image larger than the disk", image.Image{Size: 4 << 30}, nil, nil, 400,
			"Flavor disk is 3221225472 bytes, image is 4294967296 bytes"},
		{"invalid property", image.Image{}, map[string]string{"hw_cpu_policy": "pinned"}, nil, 400,
			"image property hw_cpu_policy"},
		{"more NUMA nodes than the flavor", image.Image{}, map[string]string{"hw_numa_nodes": "2"}, nil, 400,
			"may not override"},
		{"no answer of the image service", image.Image{}, nil, fault.New(fault.Unavailable,
			"http://secret:9292 does not answer"), 503,
			"Image " + goneID + " cannot be read now, so nothing was done; try again later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			images.put(goneID, c.image, c.properties)
			images.err = c.fails
			r := h.ask("POST", "/v2.1/servers", create("dev", goneID))
			if r.status != c.status || !strings.Contains(r.text, c.wantText) || strings.Contains(r.text, "secret") {
				t.Errorf("%d %s", r.status, r.text)
			}
			if list, err := h.store.Servers(t.Context(), store.ServerFilter{}); err != nil || len(list) > 0 {
				t.Errorf("servers were created: %v %v", list, err)
			}
		})
	}
	images.err = fault.New(fault.Unavailable, "http://secret:9292 does not answer")
	if r := h.ask("POST", "/v2.1/servers", create("dev", goneID), "X-Auth-Token", "admin"); r.status != 503 ||
		!strings.Contains(r.text, "http://secret:9292 does not answer") {
		t.Errorf("an administrator sees the cause: %d %s", r.status, r.text)
	}
}

// TestNUMAPolicyOfFlavorAndImage checks that the NUMA policy of devices follows from flavor and image, and also applies
// to the destination of a resize.
func TestNUMAPolicyOfFlavorAndImage(t *testing.T) {
	for _, c := range []struct {
		row, flavor, image string
		status             int
		policy             string
	}{
		{"flavor only", "required", "", 202, "required"}, {"image only", "", "preferred", 202, "preferred"},
		{"equal policies", "socket", "socket", 202, "socket"},
		{"different policies", "required", "preferred", 403, ""}, {"invalid policy", "", "near", 400, ""},
	} {
		t.Run(c.row, func(t *testing.T) {
			h, images := withImages(t)
			specs := map[string]string{"pci_passthrough:alias": "gpu:1", "hw:numa_nodes": "1"}
			if c.flavor != "" {
				specs["hw:pci_numa_affinity_policy"] = c.flavor
			}
			h.flavor("row", specs)
			h.flavor("larger", map[string]string{"pci_passthrough:alias": "gpu:2", "hw:numa_nodes": "1"})
			properties := map[string]string{}
			if c.image != "" {
				properties["hw_pci_numa_affinity_policy"] = c.image
			}
			images.put(goneID, image.Image{}, properties)
			r := h.ask("POST", "/v2.1/servers", create("row", goneID), "X-Auth-Token", "admin")
			if r.status != c.status {
				t.Fatalf("%d %s", r.status, r.text)
			}
			if c.status != 202 {
				return
			}
			id, _ := r.dig("server/id").(string)
			if got := h.prepare(id).Requests[0].Policy; string(got) != c.policy {
				t.Errorf("policy %q", got)
			}
			images.put(goneID, image.Image{}, nil) // the stored properties must not change
			h.assign(id, "cmp1")
			h.apply(id, lifecycle.GuestRunning{Host: "cmp1"})
			if err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": "larger"}); err != nil {
				t.Fatal(err)
			}
			want := cmp.Or(c.image, "legacy") // the new flavor has no policy, the alias has legacy
			if s := h.prepare(id); s.Requests[0].Count != 2 || string(s.Requests[0].Policy) != want {
				t.Errorf("after the resize: %+v, want policy %q", s.Requests, want)
			}
		})
	}
}

// TestResizeDoesNotShrinkTheDisk refuses a flavor with a smaller disk, or none, also for a server without an image.
func TestResizeDoesNotShrinkTheDisk(t *testing.T) {
	h, _ := withImages(t)
	r := h.ask("POST", "/v2.1/servers", create("small", ""), "X-Auth-Token", "admin")
	id, _ := r.dig("server/id").(string)
	h.assign(id, "cmp1")
	h.apply(id, lifecycle.GuestRunning{Host: "cmp1"})
	for _, disk := range []int{0, 2} {
		name := fmt.Sprint("disk", disk)
		if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: name, Name: name, VCPUs: 2, RAM: 512,
			Disk: disk}); err != nil {
			t.Fatal(err)
		}
		err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": name})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), "the server's disk has 3 GiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResizeChecksStoredImage checks a new flavor against the stored properties of the image.
func TestResizeChecksStoredImage(t *testing.T) {
	h, images := withImages(t)
	images.put(goneID, image.Image{MinRAM: 512}, map[string]string{"hw_numa_nodes": "2"})
	r := h.ask("POST", "/v2.1/servers", create("small", goneID), "X-Auth-Token", "admin")
	id, _ := r.dig("server/id").(string)
	h.assign(id, "cmp1")
	h.apply(id, lifecycle.GuestRunning{Host: "cmp1"})
	if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: "tiny", Name: "tiny", VCPUs: 2, RAM: 256,
		Disk: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: "shrunk", Name: "shrunk", VCPUs: 2, RAM: 512,
		Disk: 2}); err != nil {
		t.Fatal(err)
	}
	for to, wantText := range map[string]string{"tiny": "Flavor's memory is too small", "dev": "may not override",
		"shrunk": "Flavor disk is 2147483648 bytes, minimum size is 3221225472"} {
		if err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": to}); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), wantText) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	h.flavor("other", nil)
	if err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": "other"}); err != nil {
		t.Error(err)
	}
	if s := h.prepare(id); len(s.Topology) != 2 {
		t.Errorf("%+v", s.Topology)
	}
	if len(images.requests) != 1 {
		t.Errorf("a resize read the image: %q", images.requests)
	}
}

// TestFlavorMayNeedImageProperties creates flavors that are valid only with properties of an image. Without an image
// service they are rejected.
func TestFlavorMayNeedImageProperties(t *testing.T) {
	h, images := withImages(t)
	for name, specs := range map[string]map[string]string{"threads": {"hw:cpu_thread_policy": "require"},
		"mask": {"hw:cpu_dedicated_mask": "0"}} {
		policy := map[string]string{"threads": "dedicated", "mask": "mixed"}[name]
		h.flavor(name, specs)
		images.put(goneID, image.Image{}, map[string]string{"hw_cpu_policy": policy})
		if r := h.ask("POST", "/v2.1/servers", create(name, goneID)); r.status != 202 {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
		if r := h.ask("POST", "/v2.1/servers", create(name, plainID)); r.status != 400 || !strings.Contains(r.text,
			"hw:cpu_policy") {
			t.Errorf("%s without the image: %d %s", name, r.status, r.text)
		}
	}
	if err := h.admin.SetExtraSpecs(t.Context(), "small", map[string]string{"hw:cpu_thread_policy": "always"}); !fault.Is(
		err, fault.Invalid) {
		t.Errorf("valid with no image: %v", err)
	}
	without := start(t)
	without.flavor("small", nil)
	if err := without.admin.SetExtraSpecs(t.Context(), "small",
		map[string]string{"hw:cpu_thread_policy": "require"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without an image service: %v", err)
	}
}

func TestRebuildMustNotChangeClaim(t *testing.T) {
	hosts := &fakeProviders{traits: []string{"CUSTOM_SILVER", "CUSTOM_TIN"}}
	h, images := withImages(t, func(o *Options) { o.Providers = hosts })
	r := h.ask("POST", "/v2.1/servers", create("small", cellsID), "X-Auth-Token", "admin")
	id, _ := r.dig("server/id").(string)
	h.assign(id, "cmp1")
	running := func() {
		t.Helper()
		s := h.read(id)
		h.apply(id, lifecycle.GuestRunning{Host: "cmp1", Build: s.Builds})
	}
	running()
	rebuild := func(image string, kind fault.Kind, wantText string) {
		t.Helper()
		before := h.read(id)
		err := h.admin.Act(t.Context(), id, "rebuild", map[string]any{"imageRef": image})
		if fault.KindOf(err) != kind || !strings.Contains(fault.TextOf(err), wantText) {
			t.Errorf("from %s: %v, want %s: %s", image, err, kind, wantText)
		}
		if after := h.read(id); err != nil && after.Revision != before.Revision {
			t.Errorf("rejected, but changed: %+v", after)
		}
		if err == nil {
			running()
		}
	}
	rebuild(goneID, fault.Invalid, "Cannot find image for rebuild")
	rebuild(plainID, fault.Invalid, `image property hw_numa_nodes was "2", and the image does not have it`)
	images.put(goneID, image.Image{}, map[string]string{"hw_numa_nodes": "2", "trait:CUSTOM_GOLD": "required"})
	rebuild(goneID, fault.Invalid, "requires traits that the server's host does not have, or not all of them: "+
		"CUSTOM_GOLD;")
	hosts.err = fault.New(fault.Invalid, "No such trait(s): CUSTOM_GOLD.")
	rebuild(goneID, fault.Invalid, "does not have, or not all of them: CUSTOM_GOLD;")
	hosts.err = fault.New(fault.Unavailable, "Placement does not answer")
	rebuild(goneID, fault.Unavailable, "Placement does not answer")
	hosts.err = nil
	images.put(goneID, image.Image{MinDisk: 4}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, fault.Invalid, "minimum size")
	images.put(goneID, image.Image{Status: "killed"}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, fault.Invalid, "is not active")
	images.err = fault.New(fault.Unavailable, "it does not answer")
	rebuild(cellsID, fault.Unavailable, "it does not answer")
	rebuild("", "", "") // from its own image, which is not read
	images.err = nil

	images.put(cellsID, image.Image{}, nil) // a changed image has no effect on a rebuild from the same image
	rebuild(cellsID, "", "")
	if s := h.read(id); s.ImageSnapshot.Properties["hw_numa_nodes"] != "2" || len(s.Ask.Groups[0].Required) != 1 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Ask)
	}
	images.put(goneID, image.Image{}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, "", "")
	if s := h.read(id); s.Image != goneID || s.ImageSnapshot.ID != goneID || len(s.Ask.Groups[0].Required) != 0 ||
		len(s.Topology) != 2 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Ask)
	}
	// The image may require traits that the host has; the next move requests them.
	images.put(plainID, image.Image{}, map[string]string{"hw_numa_nodes": "2", "trait:CUSTOM_TIN": "required",
		"trait:CUSTOM_SILVER": "required"})
	rebuild(plainID, "", "")
	if s := h.read(id); s.Image != plainID || len(s.Ask.Groups[0].Required) != 2 ||
		hosts.query != "required=CUSTOM_SILVER%2CCUSTOM_TIN&uuid="+string(rootID) {
		t.Errorf("%+v, query to Placement %s", s.Ask, hosts.query)
	}
}

// fakeProviders is a Placement with one host.
type fakeProviders struct {
	traits   []string
	err      error
	query    string
	nodes    map[provider.ID]resource.Amounts // what is used of the providers of nodes
	nodesErr error                            // of reading these
}

// Providers returns the host if it has all required traits.
func (p *fakeProviders) Providers(_ context.Context, query url.Values) ([]provider.Provider, error) {
	p.query = query.Encode()
	if p.err != nil {
		return nil, p.err
	}
	for name := range strings.SplitSeq(query.Get("required"), ",") {
		if !slices.Contains(p.traits, name) {
			return nil, nil
		}
	}
	return []provider.Provider{{ID: rootID}}, nil
}

// TestServerWithoutStoredImageIsRebuilt rebuilds a server that was created without an image service: its image counts
// as one without properties.
func TestServerWithoutStoredImageIsRebuilt(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	made, err := h.admin.CreateServer(t.Context(), compute.CreateServer{Name: "old", Flavor: "small", Image: cellsID})
	if err != nil {
		t.Fatal(err)
	}
	if s := h.read(made.ID); s.Image != cellsID || s.ImageSnapshot != nil {
		t.Errorf("%+v", s)
	}
	h.assign(made.ID, "cmp1")
	h.apply(made.ID, lifecycle.GuestRunning{Host: "cmp1"})
	if err := h.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": plainID}); err != nil ||
		h.read(made.ID).Image != plainID {
		t.Errorf("rebuild without an image service: %v", err)
	}
	h.apply(made.ID, lifecycle.GuestRunning{Host: "cmp1", Build: 1})

	images := &fakeImages{images: map[string]image.Image{}}
	images.put(cellsID, image.Image{}, map[string]string{"hw_numa_nodes": "2"})
	images.put(plainID, image.Image{}, nil)
	later := startWith(t, func(o *Options) { o.Images, o.Store, o.Conductor = images, h.store, h.conductor })
	if err := later.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": cellsID}); !fault.Is(err,
		fault.Invalid) {
		t.Errorf("rebuild with other NUMA nodes: %v", err)
	}
	if err := later.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": plainID}); err != nil ||
		h.read(made.ID).ImageSnapshot == nil {
		t.Errorf("%v", err)
	}
}
