package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/glance"
	"github.com/openberth/berth/internal/keystone"
	"github.com/openberth/berth/internal/testenv"
)

// imageCloud is a cloud of two hosts whose compute uses Debian's image service, which it finds in the catalog of a real
// Keystone. Each host has four devices on each of its two NUMA nodes.
type imageCloud struct {
	*fleet
	g     *glance.Glance
	admin string // a token of Keystone
}

// image creates an image in the image service and returns its id.
func (s imageCloud) image(properties keystone.Doc, data string) string {
	s.t.Helper()
	doc := keystone.Doc{"name": "an image", "visibility": "public"}
	for key, value := range properties {
		doc[key] = value
	}
	return s.g.Image(s.t, s.admin, doc, data)
}

// flavorOf creates a flavor with this many devices and one NUMA cell. more has further extra specs: names and values.
func (s imageCloud) flavorOf(devices int, more ...string) string {
	s.t.Helper()
	c := s.compute.compute()
	f, err := c.CreateFlavor(s.t.Context(), compute.CreateFlavor{Name: fmt.Sprint("nvme", devices, more), VCPUs: 1,
		RAM: 64, Disk: 1})
	specs := map[string]string{"pci_passthrough:alias": fmt.Sprintf("nvme:%d", devices), "hw:numa_nodes": "1"}
	for i := 0; i < len(more); i += 2 {
		specs[more[i]] = more[i+1]
	}
	if err == nil {
		err = c.SetExtraSpecs(s.t.Context(), f.ID, specs)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return f.ID
}

// create creates a server and waits until it is ACTIVE or ERROR.
func (s imageCloud) create(flavor, image string) compute.Server {
	s.t.Helper()
	c := s.compute.compute()
	made, err := c.CreateServer(s.t.Context(), compute.CreateServer{Name: "from-image", Flavor: flavor, Image: image})
	if err != nil {
		s.t.Fatal(err)
	}
	var now compute.Server
	testenv.Until(s.t, "the server is ACTIVE or ERROR", func() (bool, error) {
		now, err = c.Server(s.t.Context(), made.ID)
		return now.Status == "ACTIVE" || now.Status == "ERROR", err
	})
	return now
}

// wantRefused checks that the creation of a server is refused with this fault, and that the server does not exist.
func (s imageCloud) wantRefused(who, flavor, image string, kind fault.Kind, text string) {
	s.t.Helper()
	c := compute.NewClient(s.compute.urls["compute"], nil, who)
	_, err := c.CreateServer(s.t.Context(), compute.CreateServer{Name: "refused", Flavor: flavor, Image: image})
	if !fault.Is(err, kind) || !strings.Contains(fault.TextOf(err), text) {
		s.t.Errorf("%s, image %s: %v, want %s: %s", who, image, err, kind, text)
	}
	list, err := s.compute.compute().Servers(s.t.Context(), compute.ListServers{AllProjects: true, Name: "refused"})
	if err != nil || len(list) > 0 {
		s.t.Errorf("the refused server exists: %v %v", list, err)
	}
}

func testImages(t *testing.T, k *keystone.Keystone) {
	g := glance.Start(t, k)
	machine, err := filepath.Abs("../../agent/sysfs/sample.txtar")
	if err != nil {
		t.Fatal(err)
	}
	service := `
[glance]
auth_type = password
auth_url = ` + k.URL + `
username = ` + k.AdminUser + `
password = ` + k.AdminPassword + `
project_name = ` + k.AdminProject + `
user_domain_name = Default
project_domain_name = Default
num_retries = 1
`
	f := newFleet(t, "[DEFAULT]\nallow_resize_to_same_host = true\n"+pciInPlacement+`[pci]
alias = {"name": "nvme", "resource_class": "CUSTOM_NVME", "device_type": "type-VF"}
`+service)
	for _, host := range []string{"cmp1", "cmp2"} {
		f.startAgent(host, f.host(host, machine, "[pci]\n"+reportInPlacement+
			`device_spec = {"vendor_id": "1b36", "product_id": "0010", "address": {"bus": "(11|21)", "function": "[1-4]"}, `+
			`"resource_class": "CUSTOM_NVME"}`+"\n"+service))
	}
	s := imageCloud{f, g, k.Admin(t)}
	one := s.flavorOf(1)
	testRefusedImages(s, k, one)
	testImagePolicy(s, one)
}

// testRefusedImages checks the errors of the Compute API for images that cannot be used.
func testRefusedImages(s imageCloud, k *keystone.Keystone, one string) {
	t := s.t
	_, tenant := k.User(t, "ann", "tenant", "member")
	ann := k.Token(t, "ann", "ann", "tenant")
	private := s.g.Image(t, ann, keystone.Doc{"name": "hers", "visibility": "private"}, "data")
	shared := s.g.Image(t, ann, keystone.Doc{"name": "lent", "visibility": "shared"}, "data")
	s.g.Call(t, ann, http.MethodPost, "/v2/images/"+shared+"/members", "application/json", `{"member": "friends"}`)
	off := s.image(nil, "data")
	s.g.Call(t, s.admin, http.MethodPost, "/v2/images/"+off+"/actions/deactivate", "application/json", "")
	for _, c := range []struct {
		who, image string
		kind       fault.Kind
		text       string
	}{
		{"admin", "99999999-9999-4999-8999-999999999999", fault.Invalid, "Can not find requested image"},
		{"bob:others", private, fault.Invalid, "Can not find requested image"},
		{"bob:others", shared, fault.Invalid, "Can not find requested image"},
		{"admin", s.image(nil, ""), fault.Invalid, "is not active: its status is queued"},
		{"admin", off, fault.Invalid, "is not active: its status is deactivated"},
		{"admin", s.image(keystone.Doc{"min_ram": 65}, "data"), fault.Invalid, "Flavor's memory is too small"},
		{"admin", s.image(keystone.Doc{"min_disk": 2}, "data"), fault.Invalid, "smaller than the minimum size"},
		{"admin", s.image(keystone.Doc{"hw_numa_nodes": "2"}, "data"), fault.Invalid, "image property hw_numa_nodes"},
		{"admin", s.image(keystone.Doc{"hw_pci_numa_affinity_policy": "near"}, "data"), fault.Invalid,
			`image property hw_pci_numa_affinity_policy is "near"`},
	} {
		s.wantRefused(c.who, one, c.image, c.kind, c.text)
	}
	// The NUMA policies of flavor and image contradict each other.
	s.wantRefused("admin", s.flavorOf(1, "hw:pci_numa_affinity_policy", "required"),
		s.image(keystone.Doc{"hw_pci_numa_affinity_policy": "preferred"}, "data"),
		fault.Forbidden, "may not override")
	for who, image := range map[string]string{"bob:friends": shared, "ann:" + tenant: private, "admin": private} {
		c := compute.NewClient(s.compute.urls["compute"], nil, who)
		made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "seen", Flavor: one, Image: image})
		if err == nil {
			err = c.DeleteServer(t.Context(), made.ID)
		}
		if err != nil {
			t.Errorf("image %[2]s for %[1]s: %[3]v", who, image, err)
		}
	}
	testenv.Until(t, "no device is allocated", func() (bool, error) {
		devices, err := s.compute.hosts().Devices(t.Context())
		for _, d := range devices {
			if d.Holder != "" {
				return false, fmt.Errorf("%s holds %s of %s", d.Holder, d.Address, d.Host)
			}
		}
		return err == nil, err
	})
}

// wantNoShelvedImage waits until Glance has no image of a shelved server.
func (s imageCloud) wantNoShelvedImage() {
	s.t.Helper()
	testenv.Until(s.t, "the image of the shelved server is deleted", func() (bool, error) {
		var found struct{ Images []any }
		err := json.Unmarshal(s.g.Call(s.t, s.admin, http.MethodGet, "/v2/images?tag="+image.ShelvedTag+"&visibility=all",
			"", ""), &found)
		return len(found.Images) == 0, err
	})
}

// testImagePolicy checks that a NUMA policy that only the image has applies to every action of a server. Five devices
// fit only if one may be on another NUMA node.
func testImagePolicy(s imageCloud, one string) {
	t, c := s.t, s.compute.compute()
	five := s.flavorOf(5)
	plain, far := s.image(nil, "data"), s.image(keystone.Doc{"name": "preferred policy",
		"hw_pci_numa_affinity_policy": "preferred"}, "data")
	failed := s.create(five, plain)
	if failed.Status != "ERROR" || !strings.Contains(failed.Fault.Message, "NUMA") {
		t.Fatalf("five devices on one node: %s %+v", failed.Status, failed.Fault)
	}
	s.delete(failed)
	server := s.create(one, far)
	s.wantActiveOn(*server.Host, server)
	// A later change of the image has no effect on the server.
	s.g.Call(t, s.admin, http.MethodPatch, "/v2/images/"+far, "application/openstack-images-v2.1-json-patch",
		`[{"op": "remove", "path": "/hw_pci_numa_affinity_policy"}]`)
	for _, step := range []struct {
		action, status string
		args           map[string]any
	}{
		{"resize", "VERIFY_RESIZE", map[string]any{"flavorRef": five}}, {"confirmResize", "ACTIVE", nil},
		{"rebuild", "ACTIVE", map[string]any{"imageRef": far}},
		{"shelve", "SHELVED_OFFLOADED", nil}, {"unshelve", "ACTIVE", nil},
		{"migrate", "VERIFY_RESIZE", nil}, {"confirmResize", "ACTIVE", nil},
	} {
		server = s.act(server, step.status, step.action, step.args)
	}
	s.wantNoShelvedImage()
	why, err := c.Why(t.Context(), server.ID)
	if err != nil || why.Image == nil || why.Image.ID != far ||
		why.Image.Properties["hw_pci_numa_affinity_policy"] != "preferred" {
		t.Errorf("%+v %v", why.Image, err)
	}
	out, _, _ := output(t, "server", "why", server.ID, "--compute-url", s.compute.urls["compute"])
	if !strings.Contains(out,
		`hw:pci_numa_affinity_policy is "preferred", from image property hw_pci_numa_affinity_policy`) ||
		!strings.Contains(out, `("preferred policy")`) {
		t.Errorf("no image in server why:\n%s", out)
	}
	if out, _, _ := output(t, "server", "show", server.ID, "--compute-url", s.compute.urls["compute"], "--placement-url",
		s.placement.urls["placement"]); !strings.Contains(out, far) {
		t.Errorf("no image in server show:\n%s", out)
	}
	rebuild := func(image string, kind fault.Kind, text string) {
		t.Helper()
		if err := c.Act(t.Context(), server.ID, "rebuild", map[string]any{"imageRef": image}); !fault.Is(err, kind) ||
			!strings.Contains(fault.TextOf(err), text) {
			t.Errorf("rebuild from %s: %v, want %s: %s", image, err, kind, text)
		}
	}
	rebuild(plain, fault.Invalid, `image property hw_pci_numa_affinity_policy was "preferred"`)
	rebuild("99999999-9999-4999-8999-999999999999", fault.Invalid, "Cannot find image for rebuild")
	rebuild(s.image(keystone.Doc{"hw_pci_numa_affinity_policy": "preferred", "trait:CUSTOM_GOLD": "required"}, "data"),
		fault.Invalid, "requires traits that the server's host does not have")
	equal := s.image(keystone.Doc{"hw_pci_numa_affinity_policy": "preferred"}, "data")
	server = s.act(server, "ACTIVE", "rebuild", map[string]any{"imageRef": equal})

	s.g.Stop()
	s.wantRefused("bob:others", one, plain, fault.Unavailable, "cannot be read now")
	s.wantRefused("admin", one, plain, fault.Unavailable, "does not answer")
	rebuild(far, fault.Unavailable, "does not answer")
	if other := s.create(one, ""); other.Status != "ACTIVE" {
		t.Errorf("a server without an image while the image service is stopped: %s %+v", other.Status, other.Fault)
	} else {
		s.delete(other)
	}
	// The host fails too: the stored image properties still apply.
	source := *server.Host
	s.agents[source].kill()
	if err := c.HostDown(t.Context(), source, true); err != nil {
		t.Fatal(err)
	}
	server = s.act(server, "ACTIVE", "evacuate", map[string]any{})
	if held := s.allocation(server); *server.Host == source || strings.Count(held, *server.Host+"_0000:") != 2 {
		t.Errorf("after the evacuation from %s the server is on %s with %s", source, *server.Host, held)
	}
	s.delete(server)
}
