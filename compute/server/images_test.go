package server

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// shelf is an image service with a few images, all for everybody.
type shelf struct {
	mu     sync.Mutex
	images map[string]image.Image
	fails  error
	asked  []string // user, token and image
}

// Image looks on the shelf.
func (s *shelf) Image(_ context.Context, who identity.Identity, token, id string) (image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, who.User+" "+token+" "+id)
	if s.fails != nil {
		return image.Image{}, s.fails
	}
	i, ok := s.images[id]
	if !ok {
		return image.Image{}, fault.New(fault.NotFound, "shelf.Image", "there is none")
	}
	return i, nil
}

const (
	plainID = "44444444-4444-4444-8444-444444444444"
	cellsID = "55555555-5555-4555-8555-555555555555"
	goneID  = "66666666-6666-4666-8666-666666666666"
)

func (s *shelf) put(id string, i image.Image, properties map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.ID, i.Name, i.Properties = id, "name of "+id[:1], properties
	if i.Status == "" {
		i.Status = image.Active
	}
	s.images[id] = i
}

func withImages(t *testing.T, more ...func(*Options)) (*house, *shelf) {
	s := &shelf{images: map[string]image.Image{}}
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

func (h *house) read(id string) lifecycle.Server {
	h.Helper()
	s, err := h.store.Read(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

func create(flavor, image string) string {
	return `{"server": {"name": "a", "flavorRef": "` + flavor + `", "imageRef": "` + image + `"}}`
}

// What an image says is asked of Placement and of the scheduler, and frozen with the server.
func TestAServerIsMadeFromAnImage(t *testing.T) {
	h, shelf := withImages(t)
	r := h.ask("POST", "/v2.1/servers", create("small", cellsID))
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if len(shelf.asked) != 1 || shelf.asked[0] != "ann ann:p1 "+cellsID {
		t.Errorf("asked %q", shelf.asked)
	}
	id, _ := r.dig("server/id").(string)
	shelf.put(cellsID, image.Image{}, nil) // it is frozen
	s := h.prepare(id)
	if s.Image != cellsID || s.ImageSnapshot == nil || s.ImageSnapshot.Name != "name of 5" ||
		len(s.ImageSnapshot.Properties) != 2 || len(s.Topology) != 2 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Topology)
	}
	if len(s.Ask.Groups[0].Required) != 1 || s.Ask.Groups[0].Required[0][0] != "HW_CPU_X86_AVX2" {
		t.Errorf("asks %+v", s.Ask)
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
	if s := h.read(without); s.ImageSnapshot != nil || len(shelf.asked) != 1 {
		t.Errorf("without an image: %+v, asked %q", s.ImageSnapshot, shelf.asked)
	}
	if why, err := h.admin.Why(t.Context(), without); err != nil || why.Image != nil || why.Constraints == nil {
		t.Errorf("%+v %v", why, err)
	}
}

func TestImagesThatCannotBe(t *testing.T) {
	h, shelf := withImages(t)
	for _, c := range []struct {
		name       string
		image      image.Image
		properties map[string]string
		fails      error
		status     int
		says       string
	}{
		{"not there", image.Image{}, nil, fault.New(fault.NotFound, "", "no"), 400, "Can not find requested image"},
		{"not let in", image.Image{}, nil, fault.New(fault.Forbidden, "", "no"), 400, "Not authorized for image " + goneID},
		{"not active", image.Image{Status: "queued"}, nil, nil, 400,
			"Image " + goneID + " is not active: its status is queued"},
		{"memory", image.Image{MinRAM: 513}, nil, nil, 400, "Flavor's memory is too small for requested image"},
		{"disk", image.Image{MinDisk: 4}, nil, nil, 400, "minimum size"},
		{"size", image.Image{Size: 4 << 30}, nil, nil, 400, "Flavor disk is 3221225472 bytes, image is 4294967296 bytes"},
		{"no word", image.Image{}, map[string]string{"hw_cpu_policy": "pinned"}, nil, 400, "image property hw_cpu_policy"},
		{"cells", image.Image{}, map[string]string{"hw_numa_nodes": "2"}, nil, 400, "may not override"},
		{"silent", image.Image{}, nil, fault.New(fault.Unavailable, "", "http://secret:9292 does not answer"), 503,
			"Image " + goneID + " cannot be read now, so nothing was done; try again later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelf.put(goneID, c.image, c.properties)
			shelf.fails = c.fails
			r := h.ask("POST", "/v2.1/servers", create("dev", goneID))
			if r.status != c.status || !strings.Contains(r.text, c.says) || strings.Contains(r.text, "secret") {
				t.Errorf("%d %s", r.status, r.text)
			}
			if list, err := h.store.Servers(t.Context(), store.ServerFilter{}); err != nil || len(list) > 0 {
				t.Errorf("there are servers: %v %v", list, err)
			}
		})
	}
	shelf.fails = fault.New(fault.Unavailable, "", "http://secret:9292 does not answer")
	if r := h.ask("POST", "/v2.1/servers", create("dev", goneID), "X-Auth-Token", "admin"); r.status != 503 ||
		!strings.Contains(r.text, "http://secret:9292 does not answer") {
		t.Errorf("an administrator is told: %d %s", r.status, r.text)
	}
}

// The NUMA policy of devices follows from flavor and image, and also applies to the destination of a resize.
func TestNUMAPolicyOfFlavorAndImage(t *testing.T) {
	for _, c := range []struct {
		row, flavor, image string
		status             int
		policy             string
	}{
		{"flavor only", "required", "", 202, "required"}, {"image only", "", "preferred", 202, "preferred"},
		{"equal", "socket", "socket", 202, "socket"},
		{"conflict", "required", "preferred", 403, ""}, {"invalid", "", "near", 400, ""},
	} {
		t.Run(c.row, func(t *testing.T) {
			h, shelf := withImages(t)
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
			shelf.put(goneID, image.Image{}, properties)
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
			shelf.put(goneID, image.Image{}, nil) // it is frozen
			h.place(id, "cmp1")
			h.tell(id, lifecycle.GuestRunning{Host: "cmp1"})
			if err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": "larger"}); err != nil {
				t.Fatal(err)
			}
			want := cmp.Or(c.image, "legacy") // the new flavor says nothing, the alias that
			if s := h.prepare(id); s.Requests[0].Count != 2 || string(s.Requests[0].Policy) != want {
				t.Errorf("M3: %+v, want policy %q", s.Requests, want)
			}
		})
	}
}

// A resize holds the new flavor against the image as it was.
func TestAResizeHoldsToTheImage(t *testing.T) {
	h, shelf := withImages(t)
	shelf.put(goneID, image.Image{MinRAM: 512}, map[string]string{"hw_numa_nodes": "2"})
	r := h.ask("POST", "/v2.1/servers", create("small", goneID), "X-Auth-Token", "admin")
	id, _ := r.dig("server/id").(string)
	h.place(id, "cmp1")
	h.tell(id, lifecycle.GuestRunning{Host: "cmp1"})
	if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: "tiny", Name: "tiny", VCPUs: 2, RAM: 256,
		Disk: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: "shrunk", Name: "shrunk", VCPUs: 2, RAM: 512,
		Disk: 2}); err != nil {
		t.Fatal(err)
	}
	for to, says := range map[string]string{"tiny": "Flavor's memory is too small", "dev": "may not override",
		"shrunk": "Flavor disk is 2147483648 bytes, minimum size is 3221225472"} {
		if err := h.admin.Act(t.Context(), id, "resize", map[string]any{"flavorRef": to}); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), says) {
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
	if len(shelf.asked) != 1 {
		t.Errorf("a resize asked for the image: %q", shelf.asked)
	}
}

// A flavor that only an image makes sense of can be made where there are images.
func TestFlavorsForImages(t *testing.T) {
	h, shelf := withImages(t)
	for name, specs := range map[string]map[string]string{"threads": {"hw:cpu_thread_policy": "require"},
		"mask": {"hw:cpu_dedicated_mask": "0"}} {
		policy := map[string]string{"threads": "dedicated", "mask": "mixed"}[name]
		h.flavor(name, specs)
		shelf.put(goneID, image.Image{}, map[string]string{"hw_cpu_policy": policy})
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
		t.Errorf("no image makes sense of it: %v", err)
	}
	without := start(t)
	without.flavor("small", nil)
	if err := without.admin.SetExtraSpecs(t.Context(), "small",
		map[string]string{"hw:cpu_thread_policy": "require"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("where there are no images: %v", err)
	}
}

func TestARebuildKeepsToWhatWasClaimed(t *testing.T) {
	hosts := &traits{has: []string{"CUSTOM_SILVER", "CUSTOM_TIN"}}
	h, shelf := withImages(t, func(o *Options) { o.Providers = hosts })
	r := h.ask("POST", "/v2.1/servers", create("small", cellsID), "X-Auth-Token", "admin")
	id, _ := r.dig("server/id").(string)
	h.place(id, "cmp1")
	running := func() {
		t.Helper()
		s := h.read(id)
		h.tell(id, lifecycle.GuestRunning{Host: "cmp1", Build: s.Builds})
	}
	running()
	rebuild := func(image string, kind fault.Kind, says string) {
		t.Helper()
		before := h.read(id)
		err := h.admin.Act(t.Context(), id, "rebuild", map[string]any{"imageRef": image})
		if fault.KindOf(err) != kind || !strings.Contains(fault.TextOf(err), says) {
			t.Errorf("from %s: %v, want %s: %s", image, err, kind, says)
		}
		if after := h.read(id); err != nil && after.Revision != before.Revision {
			t.Errorf("refused, and changed all the same: %+v", after)
		}
		if err == nil {
			running()
		}
	}
	rebuild(goneID, fault.Invalid, "Cannot find image for rebuild")
	rebuild(plainID, fault.Invalid, `image property hw_numa_nodes was "2", and the image does not have it`)
	shelf.put(goneID, image.Image{}, map[string]string{"hw_numa_nodes": "2", "trait:CUSTOM_GOLD": "required"})
	rebuild(goneID, fault.Invalid, "requires traits that the server's host does not have, or not all of them: "+
		"CUSTOM_GOLD;")
	hosts.fails = fault.New(fault.Invalid, "", "No such trait(s): CUSTOM_GOLD.")
	rebuild(goneID, fault.Invalid, "does not have, or not all of them: CUSTOM_GOLD;")
	hosts.fails = fault.New(fault.Unavailable, "", "Placement does not answer")
	rebuild(goneID, fault.Unavailable, "Placement does not answer")
	hosts.fails = nil
	shelf.put(goneID, image.Image{MinDisk: 4}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, fault.Invalid, "minimum size")
	shelf.put(goneID, image.Image{Status: "killed"}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, fault.Invalid, "is not active")
	shelf.fails = fault.New(fault.Unavailable, "", "it does not answer")
	rebuild(cellsID, fault.Unavailable, "it does not answer")
	rebuild("", "", "") // from the image that it has, which nobody looks for then
	shelf.fails = nil

	shelf.put(cellsID, image.Image{}, nil) // what was changed of its own image does not count
	rebuild(cellsID, "", "")
	if s := h.read(id); s.ImageSnapshot.Properties["hw_numa_nodes"] != "2" || len(s.Ask.Groups[0].Required) != 1 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Ask)
	}
	shelf.put(goneID, image.Image{}, map[string]string{"hw_numa_nodes": "2"})
	rebuild(goneID, "", "")
	if s := h.read(id); s.Image != goneID || s.ImageSnapshot.ID != goneID || len(s.Ask.Groups[0].Required) != 0 ||
		len(s.Topology) != 2 {
		t.Errorf("%+v %+v", s.ImageSnapshot, s.Ask)
	}
	// Traits that the host has, though it was not asked for them, will do; the next move asks for them.
	shelf.put(plainID, image.Image{}, map[string]string{"hw_numa_nodes": "2", "trait:CUSTOM_TIN": "required",
		"trait:CUSTOM_SILVER": "required"})
	rebuild(plainID, "", "")
	if s := h.read(id); s.Image != plainID || len(s.Ask.Groups[0].Required) != 2 ||
		hosts.asked != "required=CUSTOM_SILVER%2CCUSTOM_TIN&uuid="+string(rootID) {
		t.Errorf("%+v, Placement was asked %s", s.Ask, hosts.asked)
	}
}

// traits is a Placement that knows one host.
type traits struct {
	has   []string
	fails error
	asked string
}

// Providers finds the host when it has all that is required.
func (p *traits) Providers(_ context.Context, query url.Values) ([]provider.Provider, error) {
	p.asked = query.Encode()
	if p.fails != nil {
		return nil, p.fails
	}
	for name := range strings.SplitSeq(query.Get("required"), ",") {
		if !slices.Contains(p.has, name) {
			return nil, nil
		}
	}
	return []provider.Provider{{ID: rootID}}, nil
}

// What was made while there was no image service is judged as it was made: from an image that says nothing.
func TestOlderServersAreRebuilt(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	made, err := h.admin.CreateServer(t.Context(), compute.CreateServer{Name: "old", Flavor: "small", Image: cellsID})
	if err != nil {
		t.Fatal(err)
	}
	if s := h.read(made.ID); s.Image != cellsID || s.ImageSnapshot != nil {
		t.Errorf("%+v", s)
	}
	h.place(made.ID, "cmp1")
	h.tell(made.ID, lifecycle.GuestRunning{Host: "cmp1"})
	if err := h.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": plainID}); err != nil ||
		h.read(made.ID).Image != plainID {
		t.Errorf("without an image service any image will do: %v", err)
	}
	h.tell(made.ID, lifecycle.GuestRunning{Host: "cmp1", Build: 1})

	shelf := &shelf{images: map[string]image.Image{}}
	shelf.put(cellsID, image.Image{}, map[string]string{"hw_numa_nodes": "2"})
	shelf.put(plainID, image.Image{}, nil)
	later := startWith(t, func(o *Options) { o.Images, o.Store, o.Conductor = shelf, h.store, h.lives })
	if err := later.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": cellsID}); !fault.Is(err,
		fault.Invalid) {
		t.Errorf("cells come: %v", err)
	}
	if err := later.admin.Act(t.Context(), made.ID, "rebuild", map[string]any{"imageRef": plainID}); err != nil ||
		h.read(made.ID).ImageSnapshot == nil {
		t.Errorf("%v", err)
	}
}
