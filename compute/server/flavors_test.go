package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

func TestFlavorIsCreatedChangedAndDeleted(t *testing.T) {
	h, ctx := start(t), t.Context()
	description := "with one GPU"
	made, err := h.admin.CreateFlavor(ctx, compute.CreateFlavor{Name: "gpu.small", VCPUs: 2, RAM: 512, Disk: 3,
		Description: &description})
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]string{"pci_passthrough:alias": "gpu:1", "colour": "red", "quota": "7"}
	if err := h.admin.SetExtraSpecs(ctx, made.ID, map[string]string{"pci_passthrough:alias": "gpu:2",
		"colour": "red"}); err != nil {
		t.Fatal(err)
	}
	if r := h.at("2.1", "POST", "/v2.1/flavors/"+made.ID+"/os-extra_specs",
		`{"extra_specs": {"quota": 7}}`); r.status != 200 || r.text != `{"extra_specs":{"quota":"7"}}` {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.at("2.1", "PUT", "/v2.1/flavors/"+made.ID+"/os-extra_specs/pci_passthrough:alias",
		`{"pci_passthrough:alias": "gpu:1"}`); r.status != 200 || r.text != `{"pci_passthrough:alias":"gpu:1"}` {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, value := range []string{strings.Repeat("ж", 255), "red"} {
		if r := h.at("2.1", "PUT", "/v2.1/flavors/"+made.ID+"/os-extra_specs/colour",
			`{"colour": "`+value+`"}`); r.status != 200 {
			t.Errorf("%d %s", r.status, r.text)
		}
	}
	if r := h.at("2.1", "GET", "/v2.1/flavors/"+made.ID+"/os-extra_specs/colour", ""); r.text != `{"colour":"red"}` {
		t.Errorf("%d %s", r.status, r.text)
	}
	if got, err := h.admin.ExtraSpecs(ctx, made.ID); err != nil || !maps.Equal(got, specs) {
		t.Errorf("%v %v", got, err)
	}
	byName, err := h.admin.Flavor(ctx, "gpu.small")
	want := made
	want.ExtraSpecs = specs
	if err != nil || !reflect.DeepEqual(byName, want) {
		t.Errorf("%+v, want %+v (%v)", byName, want, err)
	}
	if err := h.admin.UnsetExtraSpec(ctx, made.ID, "colour"); err != nil {
		t.Error(err)
	}
	if err := h.admin.DeleteFlavor(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if _, err := h.admin.Flavor(ctx, "gpu.small"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestFlavorFieldsByVersion(t *testing.T) {
	h := start(t)
	r := h.at("2.61", "POST", "/v2.1/flavors",
		`{"flavor": {"id": "auto", "name": "f", "vcpus": "2", "ram": 512, "disk": 3, "swap": 64,
		"OS-FLV-EXT-DATA:ephemeral": 5, "rxtx_factor": "1.5", "os-flavor-access:is_public": "True", "description": "text"}}`)
	id, _ := r.dig("flavor/id").(string)
	if r.status != 200 || len(id) != 36 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	links := fmt.Sprintf(
		`"links":[{"rel":"self","href":"%[1]s/v2.1/flavors/%[2]s"},{"rel":"bookmark","href":"%[1]s/flavors/%[2]s"}]`, h.url,
		id)
	base := fmt.Sprintf(
		`{"flavor":{"id":"%s","name":"f","vcpus":2,"ram":512,"disk":3,"OS-FLV-EXT-DATA:ephemeral":5,"swap":64,`+
			`"rxtx_factor":1.5,`+
			`"os-flavor-access:is_public":true,"OS-FLV-DISABLED:disabled":false,%s`, id, links)
	for version, more := range map[string]string{"2.1": "}}", "2.54": "}}", "2.55": `,"description":"text"}}`,
		"2.60": `,"description":"text"}}`,
		"2.61": `,"description":"text","extra_specs":{}}}`} {
		if r := h.at(version, "GET", "/v2.1/flavors/"+id, ""); r.text != base+more {
			t.Errorf("%s:\n got %s\nwant %s", version, r.text, base+more)
		}
	}
	newest := strings.NewReplacer(`"rxtx_factor":1.5,`, "", `"OS-FLV-DISABLED:disabled":false,`, "").Replace(base) +
		`,"description":"text","extra_specs":{}}}`
	if r := h.at("2.102", "GET", "/v2.1/flavors/"+id, ""); r.text != newest {
		t.Errorf("2.102:\n got %s\nwant %s", r.text, newest)
	}
	for name, want := range map[string]int{"f": 1, "": 1, "g": 0} {
		r := h.at("2.102", "GET", "/v2.1/flavors/detail?name="+name, "")
		if list, _ := r.dig("flavors").([]any); len(list) != want {
			t.Errorf("name %q: %s", name, r.text)
		}
	}
	if r := h.at("2.102", "POST", "/v2.1/flavors", `{"flavor": {"name": "x", "vcpus": 1, "ram": 1, "disk": 1,
		"rxtx_factor": 1}}`); r.status != 400 || !strings.Contains(r.text, "rxtx_factor") {
		t.Errorf("%d %s", r.status, r.text)
	}
	ref := fmt.Sprintf(`{"flavors":[{"id":"%s","name":"f",%s`, id, links)
	for version, more := range map[string]string{"2.54": "}]}", "2.55": `,"description":"text"}]}`} {
		if r := h.at(version, "GET", "/v2.1/flavors", ""); r.text != ref+more {
			t.Errorf("%s:\n got %s\nwant %s", version, r.text, ref+more)
		}
	}
	if r := h.at("2.55", "PUT", "/v2.1/flavors/"+id, `{"flavor": {"description": null}}`); r.status != 200 ||
		!strings.HasSuffix(r.text, `"description":null}}`) {
		t.Errorf("%d %s", r.status, r.text)
	}
	h.flavor("plain", nil)
	if r := h.at("2.75", "GET", "/v2.1/flavors/plain", ""); r.dig("flavor/swap") != 0.0 {
		t.Error(r.text)
	}
	if r := h.at("2.74", "GET", "/v2.1/flavors/plain", ""); r.dig("flavor/swap") != "" ||
		r.dig("flavor/rxtx_factor") != 1.0 {
		t.Error(r.text)
	}
}

func TestFlavorListFilters(t *testing.T) {
	h := start(t)
	for _, f := range []string{`{"id": "a", "name": "fa", "vcpus": 1, "ram": 100, "disk": 1}`,
		`{"id": "b", "name": "fb", "vcpus": 1, "ram": 200, "disk": 2}`,
		`{"id": "c", "name": "fc", "vcpus": 1, "ram": 300, "disk": 0, "os-flavor-access:is_public": false}`} {
		if r := h.at("2.1", "POST", "/v2.1/flavors", `{"flavor": `+f+`}`); r.status != 200 {
			t.Fatal(r.text)
		}
	}
	for _, c := range []struct {
		who, query string
		want       []string
	}{
		{"ann", "", []string{"a", "b"}},
		{"ann", "is_public=None", []string{"a", "b"}},
		{"admin", "", []string{"a", "b"}},
		{"admin", "is_public=None", []string{"a", "b", "c"}},
		{"admin", "is_public=false", []string{"c"}},
		{"admin", "is_public=None&minRam=200", []string{"b", "c"}},
		{"admin", "is_public=None&minDisk=1", []string{"a", "b"}},
		{"admin", "is_public=None&limit=2", []string{"a", "b"}},
		{"admin", "is_public=None&limit=2&marker=b", []string{"c"}},
		{"admin", "limit=0", nil},
	} {
		for _, path := range []string{"/v2.1/flavors", "/v2.1/flavors/detail"} {
			r := h.ask("GET", path+"?"+c.query, "", "X-Auth-Token", c.who)
			list, _ := r.dig("flavors").([]any)
			var ids []string
			for _, f := range list {
				ids = append(ids, f.(map[string]any)["id"].(string))
			}
			if r.status != 200 || !slices.Equal(ids, c.want) {
				t.Errorf("%s %s?%s: %v, want %v", c.who, path, c.query, ids, c.want)
			}
		}
	}
	if r := h.ask("GET", "/v2.1/flavors/c", ""); r.status != 404 {
		t.Errorf("a user sees a flavor that is not public: %s", r.text)
	}
	if r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "x", "flavorRef": "c"}}`); r.status != 400 {
		t.Errorf("a user creates a server of a flavor that is not public: %s", r.text)
	}
}

// TestFlavorAliasesAreChecked sets the aliases of a flavor. Since 2.86 a value that no server can be created from is
// rejected, and the flavor is unchanged; before, the creation of a server is refused.
func TestFlavorAliasesAreChecked(t *testing.T) {
	h := start(t)
	h.flavor("f", map[string]string{"pci_passthrough:alias": "gpu:1"})
	for _, version := range []string{"2.1", "2.85", "2.86", "2.104"} {
		for value, status := range map[string]int{"gpu:2": 200, "gpu:1,gpu:3": 200, " gpu : 2 ": 200,
			"gpu": 400, "gpu:": 400, "gpu:many": 400, "gpu:0": 400, "gpu:-1": 400, "gpu:1:2": 400, "gpu:1,": 400, ":1": 400,
			"fpga:1": 400} {
			was, err := h.admin.ExtraSpecs(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			r := h.at(version, "POST", "/v2.1/flavors/f/os-extra_specs",
				fmt.Sprintf(`{"extra_specs": {"pci_passthrough:alias": %q}}`, value))
			old := !slices.Contains([]string{"2.86", "2.104"}, version)
			if made := h.ask("POST", "/v2.1/servers", `{"server": {"name": "s", "flavorRef": "f"}}`); old &&
				(made.status == 202) != (status == 200) {
				t.Errorf("a server with the aliases %q: %d %s", value, made.status, made.text)
			}
			if old {
				status = 200
			}
			if status == 200 {
				was = map[string]string{"pci_passthrough:alias": value}
			}
			if now, err := h.admin.ExtraSpecs(t.Context(), "f"); r.status != status || err != nil || !maps.Equal(now, was) {
				t.Errorf("%s %q: %d %s, the flavor has %v %v", version, value, r.status, r.text, now, err)
			}
		}
	}
}
