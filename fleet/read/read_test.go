package read

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/resource"
)

type doc = map[string]any

// cloud is a fake of OpenStack's services. A page of a list has at most two elements, less than clients request.
type cloud struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any // by path; a func() any is called, an int is a status
	lists   map[string][]any
	asked   map[string]int
	queries map[string][]url.Values

	filtered map[string][]string // names of the providers that have a trait or are in an aggregate
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{answers: map[string]any{}, lists: map[string][]any{}, asked: map[string]int{},
		queries: map[string][]url.Values{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.answer))
	t.Cleanup(c.Close)
	c.answers["/"] = doc{"versions": []any{doc{"id": "v2.0"}, doc{"id": "v2.1", "version": "2.90", "links": []any{}}}}
	for name, parent := range map[string]string{"cmp1": "", "cmp1_0000:81:00.0": "cmp1", "cmp2": ""} {
		p := doc{"uuid": name, "name": name, "generation": 1, "root_provider_uuid": strings.Split(name, "_")[0]}
		if parent != "" {
			p["parent_provider_uuid"] = parent
		}
		c.lists["resource_providers"] = append(c.lists["resource_providers"], p)
		path := "/resource_providers/" + name
		c.answers[path+"/inventories"] = doc{"resource_provider_generation": 1,
			"inventories": doc{"VCPU": doc{"total": 4, "allocation_ratio": 1.0, "max_unit": 4}}}
		c.answers[path+"/allocations"] = doc{"allocations": doc{"s-" + name: doc{"resources": doc{"VCPU": 1}}}}
	}
	c.answers["/traits"] = doc{"traits": []any{"CUSTOM_A"}}
	for i := range 5 {
		c.lists["servers"] = append(c.lists["servers"], doc{"id": fmt.Sprint("s", i), "name": "n", "status": "ACTIVE",
			"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z", "image": "",
			"flavor": doc{"vcpus": 1, "original_name": "f"}, "OS-EXT-SRV-ATTR:hypervisor_hostname": "cmp1"})
		c.lists["migrations"] = append(c.lists["migrations"], doc{"uuid": fmt.Sprint("m", i), "id": i, "status": "done"})
		c.lists["ports"] = append(c.lists["ports"], doc{"id": fmt.Sprint("p", i), "device_id": "s1",
			"device_owner":    "compute:nova",
			"binding:profile": doc{"allocation": doc{"g": "rp"}, "pci_slot": "0000:81:00.1"}})
		c.lists["hypervisors"] = append(c.lists["hypervisors"], doc{"id": fmt.Sprint("h", i),
			"hypervisor_hostname": "cmp1"})
	}
	c.lists["services"], c.lists["agents"] = []any{doc{"host": "cmp1"}}, []any{doc{"host": "cmp1"}}
	return c
}

func (c *cloud) answer(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[r.URL.Path]++
	c.queries[r.URL.Path] = append(c.queries[r.URL.Path], r.URL.Query())
	if strings.Contains(r.URL.Path, "os-hypervisors") && r.Header.Get(compute.VersionHeader) != "compute 2.87" {
		w.WriteHeader(http.StatusInternalServerError) // Nova would ask each host for its uptime
		return
	}
	if a, known := c.answers[r.URL.Path]; known {
		if f, ok := a.(func() any); ok {
			a = f()
		}
		if status, ok := a.(int); ok {
			w.WriteHeader(status)
			return
		}
		json.NewEncoder(w).Encode(a) // the client may be gone
		return
	}
	parts := strings.Split(strings.TrimSuffix(r.URL.Path, "/detail"), "/")
	key := strings.TrimPrefix(parts[len(parts)-1], "os-")
	list, known := c.lists[key]
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	if query.Get("deleted") != "" || query.Get("required") == string(sharing) {
		list = nil
	}
	if names, known := c.filtered[query.Get("required")+query.Get("member_of")]; known {
		list = slices.DeleteFunc(slices.Clone(c.lists[key]), func(one any) bool {
			return !slices.Contains(names, one.(doc)["name"].(string))
		})
	}
	out := doc{}
	if marker := query.Get("marker"); marker != "" {
		n, _ := strconv.Atoi(marker[1:])
		list = list[n+1:]
	}
	if query.Get("limit") != "" && len(list) > 2 {
		list, out[key+"_links"] = list[:2], []any{doc{"rel": "next", "href": "x"}}
	}
	out[key] = append([]any{}, list...)
	json.NewEncoder(w).Encode(out) // the client may be gone
}

// services returns clients of the cloud.
func (c *cloud) services() Services {
	return Services{Placement: placement.NewClient(c.URL, nil, "t"), Compute: compute.NewClient(c.URL, nil, "t"),
		Network: network.NewClient(c.URL, nil, "t")}
}

// All pages are read, also if the pages of the service are smaller than requested, and the requests are counted.
func TestReadAll(t *testing.T) {
	c := newCloud(t)
	s, cost, err := Read(t.Context(), c.services(), Options{Traits: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) > 0 || len(s.Providers) != 3 || len(s.Servers) != 5 || len(s.Migrations) != 5 || len(s.Ports) != 5 ||
		len(s.Hypervisors) != 5 || len(s.Services) != 1 || len(s.Agents) != 1 {
		t.Fatalf("%+v", s)
	}
	for _, p := range s.Providers {
		if p.Held[resource.ConsumerID("s-"+p.Name)]["VCPU"] != 1 || p.Inventories["VCPU"].Total != 4 ||
			!p.HasTrait("CUSTOM_A") {
			t.Errorf("%+v", p)
		}
	}
	if p := s.Ports[0]; p.Device != "0000:81:00.1" || len(p.Providers) != 1 || p.Server != "s1" {
		t.Errorf("%+v", p)
	}
	if v := s.Servers[0]; v.Node != "cmp1" || v.Flavor.VCPUs != 1 || !v.FromVolume {
		t.Errorf("%+v", v)
	}
	total := 0
	for _, n := range c.asked {
		total += n
	}
	if int64(total) != cost.Requests || cost.Bytes < 1000 {
		t.Errorf("%d requests were sent: %s", total, cost)
	}
}

// A part that cannot be read is named, and the others are read; a request that fails once is repeated.
func TestPartsThatFail(t *testing.T) {
	c := newCloud(t)
	c.answers["/v2.1/os-migrations"] = http.StatusForbidden
	c.answers["/resource_providers/cmp2/inventories"] = http.StatusInternalServerError
	first, good := true, c.answers["/resource_providers/cmp1/inventories"]
	c.answers["/resource_providers/cmp1/inventories"] = func() any {
		if first {
			first = false
			return http.StatusServiceUnavailable
		}
		return good
	}
	s, _, err := Read(t.Context(), c.services(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) != 2 || !s.Missing(fleet.Providers) || !s.Missing(fleet.Migrations) || s.Missing(fleet.Servers) {
		t.Errorf("%+v", s.Gaps)
	}
	for _, g := range s.Gaps {
		if g.Part == fleet.Providers && !strings.Contains(g.Why, "1 of 2 trees") {
			t.Errorf("%+v", g)
		}
	}
	c.answers["/resource_providers"] = http.StatusUnauthorized
	if _, _, err := Read(t.Context(), c.services(), Options{}); err == nil {
		t.Error("without providers there is no error")
	}
}

// A service that does not answer does not hold the command beyond its deadline.
func TestReadEndsWithItsContext(t *testing.T) {
	c := newCloud(t)
	stalled := make(chan struct{})
	t.Cleanup(func() { close(stalled) })
	stall := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stalled }))
	services := c.services()
	services.Compute = compute.NewClient(stall.URL, nil, "t")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := Read(ctx, services, Options{}); err == nil { // otherwise it never ends
		t.Error("no error")
	}
}

// The version document decides which service it is, and which microversion is used.
func TestNegotiate(t *testing.T) {
	c := newCloud(t)
	version := func(version string, links ...any) {
		c.answers["/"] = doc{"versions": []any{doc{"id": "v2.1", "version": version, "links": links}}}
	}
	for _, f := range []struct {
		version, uses, wrong string
		berth                bool
	}{{version: "2.90", uses: "compute 2.90"}, {version: "2.999", uses: "compute " + compute.Max.String()},
		{version: "2.60", wrong: "Rocky"}, {version: "", wrong: "Rocky"},
		{version: "2.104", berth: true, uses: "compute 2.104"}} {
		if version(f.version); f.berth {
			version(f.version, doc{"rel": "berth", "href": "x"})
		}
		client := compute.NewClient(c.URL, nil, "t")
		kind, err := Negotiate(t.Context(), client)
		switch {
		case f.wrong != "":
			if err == nil || !strings.Contains(err.Error(), f.wrong) {
				t.Errorf("%q: %v", f.version, err)
			}
		case err != nil || kind.Berth != f.berth || client.REST.Headers[compute.VersionHeader] != f.uses:
			t.Errorf("%q: %v %v %v", f.version, err, kind, client.REST.Headers)
		}
	}
	c.answers["/"] = doc{"versions": []any{}}
	if _, err := Negotiate(t.Context(), compute.NewClient(c.URL, nil, "t")); err == nil {
		t.Error("a service without versions is accepted")
	}
}

// Named traits are read without the others, and aggregates only of sharing providers and their members.
func TestNamedTraitsAndAggregates(t *testing.T) {
	c := newCloud(t)
	c.answers["/traits"] = doc{"traits": []any{"CUSTOM_A", "CUSTOM_B", string(sharing)}}
	c.answers["/resource_providers/cmp2/aggregates"] = doc{"aggregates": []any{"pool"}, "resource_provider_generation": 1}
	c.filtered = map[string][]string{"CUSTOM_A": {"cmp1"}, "CUSTOM_B": {"cmp1"}, string(sharing): {"cmp2"},
		"pool": {"cmp1", "cmp2"}}
	for _, shared := range []bool{false, true} {
		s, _, err := Read(t.Context(), c.services(), Options{Named: []resource.Trait{"CUSTOM_A", "CUSTOM_UNKNOWN"},
			Shared: shared})
		if err != nil || len(s.Gaps) > 0 {
			t.Fatalf("%v %+v", err, s)
		}
		for _, p := range s.Providers {
			traits := map[string][]resource.Trait{"cmp1": {"CUSTOM_A"}, "cmp2": {sharing}}[p.Name]
			if !slices.Equal(p.Traits, traits) || (len(p.Aggregates) == 1) != (shared && traits != nil) {
				t.Errorf("aggregates %v: %s has %v %v", shared, p.Name, p.Traits, p.Aggregates)
			}
		}
	}
	c.answers["/resource_providers/cmp2/aggregates"] = http.StatusForbidden
	s, _, err := Read(t.Context(), c.services(), Options{Shared: true})
	if err != nil || !s.Missing(fleet.Providers) {
		t.Errorf("%v %+v", err, s)
	}
}

// Owners are read for consumers that have allocations.
func TestOwners(t *testing.T) {
	c := newCloud(t)
	c.answers["/allocations/a"] = doc{"allocations": doc{"cmp1": doc{"resources": doc{"VCPU": 1}}},
		"consumer_generation": 3, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
	c.answers["/allocations/b"] = doc{"allocations": doc{}}
	s := &fleet.Snapshot{}
	failed, err := Owners(t.Context(), c.services().Placement, s, []resource.ConsumerID{"a", "b"})
	if err != nil || failed != 0 || len(s.Consumers) != 1 || *s.Consumers["a"].Generation != 3 ||
		s.Consumers["a"].Project != "p" {
		t.Errorf("%d %v %+v", failed, err, s.Consumers)
	}
}
