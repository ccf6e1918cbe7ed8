package read

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fleet"
)

// berth is a cloud of Berth's services in which a test changes objects and announces them.
type berth struct {
	servers, hosts []string
	placement      []string // events of Placement
	compute        []string // events of compute
	own            bool     // the user may not watch everything

	mu    sync.Mutex
	asked []string
}

func (b *berth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.asked = append(b.asked, r.Method+" "+r.URL.Path)
	b.mu.Unlock()
	list := func(key string, names []string, object func(string) any) {
		objects := []any{}
		for _, name := range names {
			objects = append(objects, object(name))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{key: objects})
	}
	server := func(id string) any {
		return map[string]any{"id": id, "name": "name of " + id, "OS-EXT-SRV-ATTR:host": "h1"}
	}
	report := func(name string) any {
		return host.Report{Host: name, Quiet: float64(strings.Count(strings.Join(b.compute, ""), `:"`+name+`"}`))}
	}
	service := func(name string) any { return map[string]any{"host": name, "zone": "nova", "binary": "nova-compute"} }
	hypervisor := func(name string) any {
		return map[string]any{"id": "root of " + name, "hypervisor_hostname": name, "service": map[string]any{"host": name}}
	}
	one := func(of []string, object func(string) any) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if !slices.Contains(of, name) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(object(name))
	}
	named := func(key string, all []string) []string {
		if name := r.URL.Query().Get(key); name != "" {
			return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n != name })
		}
		return all
	}
	switch path := r.URL.Path; {
	case path == "/p/berth/v1/events":
		b.events(w, r, b.placement)
	case path == "/c/berth/v1/events" && b.own && r.URL.Query().Has("host"):
		w.WriteHeader(http.StatusForbidden)
	case path == "/c/berth/v1/events":
		b.events(w, r, b.compute)
	case path == "/c/v2.1/servers/detail" && r.URL.Query().Has("deleted"):
		list("servers", nil, server)
	case path == "/c/v2.1/servers/detail":
		list("servers", b.servers, server)
	case strings.HasPrefix(path, "/c/v2.1/servers/"):
		one(b.servers, func(id string) any { return map[string]any{"server": server(id)} })
	case path == "/c/v2.1/os-migrations":
		list("migrations", named("instance_uuid", []string{"s1"}), func(id string) any {
			return map[string]any{"uuid": "move of " + id, "instance_uuid": id, "status": "running"}
		})
	case path == "/c/v2.1/os-services":
		list("services", named("host", b.hosts), service)
	case path == "/c/v2.1/os-hypervisors/detail":
		list("hypervisors", named("hypervisor_hostname_pattern", b.hosts), hypervisor)
	case path == "/c/berth/v1/hosts":
		list("hosts", b.hosts, report)
	default:
		one(b.hosts, report)
	}
}

// events answers with the events after the cursor, or with all as the whole state.
func (b *berth) events(w http.ResponseWriter, r *http.Request, all []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	from := 0
	if _, err := fmt.Sscan(r.Header.Get("Last-Event-ID"), &from); err == nil && from > len(all) {
		_, _ = fmt.Fprint(w, "data: {\"action\":\"reset\"}\n\n")
		from = 0
	} else if err != nil && !r.URL.Query().Has("state") {
		from = len(all)
	}
	for i, event := range all[from:] {
		_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", from+i+1, event)
	}
	_, _ = fmt.Fprintf(w, "id: %d\ndata: {\"action\":\"synced\"}\n\n", len(all))
}

// A read with a copy of Berth's services reads what their events name, and returns what a read of everything does.
// Snapshots of earlier reads do not change.
func TestCopy(t *testing.T) {
	provider := `{"action":"created","kind":"provider","object":{"uuid":"p%[1]d","name":"p%[1]d",` +
		`"root_provider_uuid":"p1"}}`
	inventory := `{"action":"%s","kind":"inventory","object":{"provider":"p1","resource_class":"VCPU","total":%d}}`
	allocation := `{"action":"%s","kind":"allocation","object":{"provider":"p1","consumer":"%s","resources":{"VCPU":1}}}`
	event := `{"action":"changed","kind":"%s","object":{"id":"%s","host":"%s"}}`
	b := &berth{servers: []string{"s1", "s2"}, hosts: []string{"h1", "h2"}, placement: []string{
		fmt.Sprintf(provider, 1), fmt.Sprintf(inventory, "created", 4), fmt.Sprintf(allocation, "created", "s1")}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	services := Services{Placement: placement.NewClient(server.URL+"/p", nil, "t"),
		Compute: compute.NewClient(server.URL+"/c", nil, "t"),
		Hosts:   &host.Client{REST: &rest.Client{Base: server.URL + "/c"}}}
	kept := &Copy{}
	text := func(c *Copy) string { // what a read returns
		b.asked = nil
		s, _, err := Read(t.Context(), services, Options{Traits: true, Copy: c, Without: unread})
		if err != nil {
			t.Fatal(err)
		}
		s.Taken = s.Taken.Truncate(1 << 60)
		data, err := json.Marshal([]any{s, c.Reports()})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before, _, err := Read(t.Context(), services, Options{Copy: kept, Without: unread})
	if err != nil || len(before.Servers) != 2 || len(kept.Reports()) != 2 || len(before.Gaps) > 0 {
		t.Fatalf("%+v %v", before, err)
	}
	for _, step := range []struct {
		what     string
		change   func()
		requests int // of this read
	}{
		{"nothing", func() {}, 3},
		{"allocations and inventories", func() {
			b.placement = append(b.placement, fmt.Sprintf(allocation, "deleted", "s1"), fmt.Sprintf(allocation, "created", "s2"),
				fmt.Sprintf(inventory, "changed", 8), fmt.Sprintf(provider, 2))
		}, 3},
		{"a server is created, one deleted", func() {
			b.servers = []string{"s1", "s3"}
			b.compute = append(b.compute, fmt.Sprintf(event, "server", "s2", ""), fmt.Sprintf(event, "server", "s3", ""))
		}, 7},
		{"a report, and a device", func() {
			b.compute = append(b.compute, fmt.Sprintf(event, "host", "", "h2"), fmt.Sprintf(event, "device", "", "h2"))
		}, 5},
		{"a host comes, one goes", func() {
			b.hosts = []string{"h2", "h3"}
			b.compute = append(b.compute, fmt.Sprintf(event, "host", "", "h1"), fmt.Sprintf(event, "host", "", "h3"))
		}, 9},
		{"the services have started again", func() { b.placement, b.compute = b.placement[:2], nil }, 9},
		{"everything is removed", func() {
			b.placement = append(b.placement, `{"action":"deleted","kind":"inventory","object":{"provider":"p1",`+
				`"resource_class":"VCPU"}}`, `{"action":"deleted","kind":"provider","object":{"uuid":"p1"}}`)
		}, 3},
		{"the user may not watch everything", func() { b.own = true; b.servers = nil }, 8},
	} {
		step.change()
		got := text(kept)
		requests := len(b.asked)
		if want := text(&Copy{}); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", step.what, got, want)
		}
		if requests != step.requests {
			t.Errorf("%s: %d requests, want %d", step.what, requests, step.requests)
		}
	}
	if p := before.Providers[0]; len(before.Providers) != 1 || p.Used("VCPU") != 1 || p.Inventories["VCPU"].Total != 4 {
		t.Errorf("the first snapshot has changed: %+v", before.Providers)
	}
}

// unread are the parts that the test does not read.
var unread = []fleet.Part{fleet.Ports, fleet.Agents, fleet.Reported}
