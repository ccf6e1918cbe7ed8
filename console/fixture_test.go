package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type doc = map[string]any

// apis answers as the services of a cloud. Without an answer for a path it answers 404.
type apis map[string]any

// ServeHTTP implements http.Handler. Tokens are the names of users: "stranger" is refused, and "member" has no right to
// read the whole cloud.
func (a apis) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, basic := r.Header.Get("X-Auth-Token"), ""
	if user, password, has := r.BasicAuth(); has {
		token, basic = user, password
	}
	answer, known := a[r.URL.Path]
	switch {
	case r.URL.Path != "/" && (token == "stranger" || basic == "wrong"):
		w.WriteHeader(http.StatusUnauthorized)
		answer = doc{"unauthorized": doc{"message": "the name or the password is wrong"}}
	case token == "member" && strings.HasPrefix(r.URL.Path, "/resource_providers"):
		w.WriteHeader(http.StatusForbidden)
		answer = doc{"errors": []any{doc{"title": "Forbidden", "detail": "Policy does not allow this to be performed."}}}
	case !known:
		w.WriteHeader(http.StatusNotFound)
		answer = doc{"itemNotFound": doc{"message": "there is none"}}
	}
	if f, is := answer.(http.HandlerFunc); is {
		f(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// newAPIs returns the answers of Berth's services without objects.
func newAPIs() apis {
	return apis{"/": doc{"versions": []any{doc{"id": "v2.1", "version": "2.90", "links": []any{doc{"rel": "berth",
		"href": "/"}}}}}, "/v2.1/servers": doc{"servers": []any{}}, "/v2.1/servers/detail": doc{"servers": []any{}},
		"/v2.1/os-aggregates": doc{"aggregates": []any{}}, "/resource_providers": doc{"resource_providers": []any{}},
		"/traits": doc{"traits": []any{}}, "/berth/v1/hosts": doc{"hosts": []any{}},
		"/v2.1/os-migrations": doc{"migrations": []any{}}, "/v2.1/os-services": doc{"services": []any{}},
		"/v2.1/os-hypervisors/detail": doc{"hypervisors": []any{}}}
}

// site is a console with the services behind it.
type site struct {
	*httptest.Server
	console *Console
	apis    apis
}

// newSite starts a console that reads source, if it is not nil, in place of the services.
func newSite(t testing.TB, kind SignInKind, source func() view.Source) *site {
	s := &site{apis: newAPIs()}
	back := rest.InMemory(s.apis)
	s.console = New(Options{Version: "test", Log: slog.New(slog.DiscardHandler), Cloud: Cloud{Kind: kind, Name: "test",
		SignIn: func(c Credentials) (Clients, error) {
			token := c.Token
			p, n := placement.NewClient("http://p", back, token), network.NewClient("http://n", back, token)
			v := compute.NewClient("http://c", back, token)
			h := host.Client{REST: &rest.Client{Base: "http://c", HTTP: back,
				Headers: map[string]string{"X-Auth-Token": token}}}
			if c.User != "" {
				for _, client := range []*rest.Client{p.REST, n.REST, v.REST, h.REST} {
					client.Account = basicAccount(c)
				}
			}
			return Clients{Services: read.Services{Placement: p, Compute: v, Network: n, Hosts: &h}}, nil
		}}})
	if source != nil {
		s.console.read = func(context.Context, Clients, func(int, int)) (view.Source, error) { return source(), nil }
	}
	s.Server = httptest.NewServer(s.console)
	t.Cleanup(func() { s.Close(); _ = s.console.Close() })
	return s
}

type basicAccount Credentials

// Sign implements rest.Account.
func (a basicAccount) Sign(r *http.Request) error { r.SetBasicAuth(a.User, a.Password); return nil }

// Renew implements rest.Account.
func (a basicAccount) Renew(*http.Request) bool { return false }

// signIn signs a user in with a token in the browser.
func (s *site) signIn(b *browser.Browser, token, next string) {
	b.Open(s.URL + "/sign-in?next=" + url.QueryEscape(next))
	b.Evaluate(fmt.Sprintf(`document.getElementById("token").value = %q; document.forms[0].requestSubmit()`, token))
	b.Await("the page after the sign-in", `document.readyState === "complete" && location.pathname !== "/sign-in"`)
}

// made is a cloud of n hosts by a rule, so that every run shows the same: with two accelerators, a card with 4 and a
// NIC with 8 VFs each, some held, some hosts with a mark.
func made(n int) view.Source {
	s := &fleet.Snapshot{Taken: time.Date(2026, 11, 27, 17, 10, 36, 0, time.UTC), Berth: true}
	var reports []host.Report
	zones := []string{"zone-1", "zone-2", "zone-3"}
	racks := map[string]*compute.Aggregate{}
	var names []string
	for i := range n {
		name := fmt.Sprintf("cmp-%05d", i+1)
		root := provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		id := resource.ConsumerID(fmt.Sprintf("10000000-0000-4000-8000-%012d", i))
		server := fleet.Server{ID: string(id), Name: fmt.Sprintf("db-%05d", i), Project: fmt.Sprintf("project-%d", i%7),
			Node: name, Host: name, Status: "ACTIVE", Flavor: fleet.Flavor{Name: "nvme2"}}
		s.Servers = append(s.Servers, server)
		add := func(name string, parent provider.ID, traits []resource.Trait, held resource.Amounts,
			have map[resource.Class]resource.Inventory) provider.ID {
			p := fleet.Provider{Provider: provider.Provider{ID: provider.ID(fmt.Sprintf("20000000-0000-4000-8000-%012d",
				len(s.Providers))), Name: name, Parent: parent, Root: root, Inventories: have, Traits: traits}}
			if parent == "" {
				p.ID = root
			}
			if len(held) > 0 {
				p.Held = map[resource.ConsumerID]resource.Amounts{id: held}
			}
			s.Providers = append(s.Providers, p)
			return p.ID
		}
		add(name, "", nil, resource.Amounts{"VCPU": 4, "MEMORY_MB": 8192}, map[resource.Class]resource.Inventory{
			"VCPU": resource.Whole(16), "PCPU": resource.Whole(32), "MEMORY_MB": resource.Whole(131072)})
		ids := map[string]string{} // providers by class and address
		for j, address := range []string{"0000:14:00.0", "0000:15:00.0"} {
			held, inventory := resource.Amounts(nil), resource.Whole(1)
			if (i+j)%3 == 0 {
				held = resource.Amounts{"CUSTOM_ACCEL": 1}
			} else if (i+j)%11 == 0 {
				inventory.Reserved = 1
			}
			ids["CUSTOM_ACCEL"+address] = string(add(name+"_"+address, root, []resource.Trait{"CUSTOM_FAST"}, held,
				map[resource.Class]resource.Inventory{"CUSTOM_ACCEL": inventory}))
		}
		add(name+"_0000:13:00.0", root, nil, resource.Amounts{"CUSTOM_NVME": i % 5},
			map[resource.Class]resource.Inventory{"CUSTOM_NVME": resource.Whole(4)})
		ids["SRIOV_NET_VF"] = string(add(name+"_0000:18:00.0", root, nil, resource.Amounts{"SRIOV_NET_VF": i % 9},
			map[resource.Class]resource.Inventory{"SRIOV_NET_VF": resource.Whole(8)}))
		s.Services = append(s.Services, fleet.Service{Host: name, Zone: zones[i%3], State: "up", Status: "enabled"})
		s.Hypervisors = append(s.Hypervisors, fleet.Hypervisor{ID: root, Name: name, Host: name})
		r := host.Report{Host: name, Connected: true, SilentAfter: 60, Provider: string(root), Seen: s.Taken}
		machine(&r, i, string(id))
		for j := range r.Devices {
			d := &r.Devices[j]
			d.Provider = cmp.Or(ids[d.ResourceClass], ids[d.ResourceClass+d.Address])
		}
		if i%20 == 3 { // the NIC has guaranteed bandwidth
			whole := map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(25000000),
				bandwidth.IngressBandwidth: resource.Whole(25000000)}
			nic := add(name+":NIC Switch agent:ens1", root, nil, resource.Amounts{bandwidth.EgressBandwidth: 10000000,
				bandwidth.IngressBandwidth: 4000000}, whole)
			for j := range r.Devices {
				if r.Devices[j].Parent != "" {
					r.Devices[j].Bandwidth = string(nic)
				}
				if r.Devices[j].Address == "0000:18:00.2" && r.Devices[j].Holder != "" {
					r.Devices[j].Present = new(false)
				}
			}
		}
		switch i % 20 {
		case 3:
			r.Conditions = []condition.Condition{condition.New(condition.Plan, "0000:15:00.0", "0000:15:00.0: is held by "+
				"server "+string(id)+", though it is no longer on the host; put the card back, or `berth server migrate "+
				server.Name+"`").At(s.Taken), condition.New(condition.Transfer, "", "a second condition")}
		case 7:
			r.Disabled = true
		case 11:
			r.Quiet = 180
		case 13:
			r.Dead = true
		}
		reports = append(reports, r)
		rack := fmt.Sprintf("rack-%c", 'a'+i/20%26)
		if racks[rack] == nil {
			racks[rack] = &compute.Aggregate{Name: rack, AggregateContent: &compute.AggregateContent{}}
			names = append(names, rack)
		}
		racks[rack].Hosts = append(racks[rack].Hosts, name)
	}
	source := view.Source{Fleet: fleet.NewView(s), Reports: reports}
	for _, rack := range names {
		source.Aggregates = append(source.Aggregates, *racks[rack])
	}
	return source
}

// machine adds the machine of a host of made to its report: two sockets, the cards behind a port and a switch, and one
// guest with pinned CPUs.
func machine(r *host.Report, i int, holder string) {
	for n := range 2 {
		cell := host.Cell{ID: n, Socket: n, MemoryMB: 65536, UsedMemory: 8192 * n,
			Pages: []host.Pages{{SizeKB: 1 << 20, Total: 16, Used: 4 * n}}}
		for c := range 16 {
			cell.Siblings = append(cell.Siblings, []int{32*n + c, 32*n + c + 16})
		}
		for c := range 32 {
			if c%16 < 4 {
				cell.CPUs = append(cell.CPUs, 32*n+c)
			} else {
				cell.Dedicated = append(cell.Dedicated, 32*n+c)
			}
		}
		cell.Pinned = cell.Dedicated[:4*n]
		if n == 1 {
			pins := map[int]int{}
			for cpu, thread := range cell.Pinned {
				pins[cpu] = thread
			}
			r.Counted = []host.CountedGuest{{ID: holder, Cells: []host.GuestCell{{VCPUs: []int{0, 1, 2, 3, 4, 5},
				Dedicated: []int{0, 1, 2, 3}, MemoryMB: 4096}}, Placed: []host.PlacedCell{{Node: 1, CPUs: pins,
				PageKB: 1 << 20}}}}
		}
		r.Cells = append(r.Cells, cell)
		r.Nodes = append(r.Nodes, host.Node{ID: n, CPUs: true, Socket: n})
	}
	device := func(address, parent, class string, node int, held bool, bridges ...string) {
		d := host.Device{Host: r.Host, Address: address, Parent: parent, VendorID: "8086", ProductID: "1515",
			ResourceClass: class, NUMANode: node, Bridges: bridges, Type: "type-VF", State: "available"}
		if held {
			d.Holder = holder
		}
		r.Devices = append(r.Devices, d)
	}
	for j, address := range []string{"0000:14:00.0", "0000:15:00.0"} {
		device(address, "", "CUSTOM_ACCEL", j, (i+j)%3 == 0, "0000:10:00.0", "0000:11:00.0")
	}
	for j := range 8 {
		device(fmt.Sprintf("0000:18:00.%d", j), "0000:17:00.0", "SRIOV_NET_VF", 0, j < i%9, "0000:10:01.0")
	}
}

// picture writes the visible part of a page into the directory that BERTH_PICTURES names, if it is set.
func picture(t *testing.T, b *browser.Browser, name string) {
	dir := os.Getenv("BERTH_PICTURES")
	if dir == "" {
		return
	}
	if err := os.WriteFile(dir+"/"+name+".png", b.Picture(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// jsonTo writes a value as JSON.
func jsonTo(w http.ResponseWriter, value any) error { return json.NewEncoder(w).Encode(value) }
