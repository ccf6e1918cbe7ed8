package server

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// groupNetworks is a network service in memory, with security groups unless groups is nil.
type groupNetworks struct {
	mu            sync.Mutex
	groups        []network.SecurityGroup
	shared        map[string][]string // the ids of groups that a project may use beside its own
	ports         []network.Port
	sharedNetwork string // the project with which alone the network is shared; empty: with all

	silent bool         // it does not answer about its extensions
	asked  atomic.Int32 // how often it was asked about them
}

// Networks returns one network.
func (n *groupNetworks) Networks(context.Context, url.Values) ([]network.Network, error) {
	return []network.Network{{ID: imageID, Name: "net", Project: "owner", Shared: n.sharedNetwork == "",
		Subnets: []string{"s"}}}, nil
}

// Subnets returns none.
func (n *groupNetworks) Subnets(context.Context, url.Values) ([]network.Subnet, error) {
	return nil, nil
}

// Ports returns the ports of devices, or, for a filter by address, those of networks.
func (n *groupNetworks) Ports(_ context.Context, q url.Values) (list []network.Port, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.ports {
		if slices.Contains(q["device_id"], p.Device) ||
			q.Has("fixed_ips") && slices.Contains(q["network_id"], p.Network) {
			list = append(list, p)
		}
	}
	return list, nil
}

// Port returns a port.
func (n *groupNetworks) Port(_ context.Context, id string) (network.Port, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.ports {
		if p.ID == id {
			return p, nil
		}
	}
	return network.Port{}, fault.New(fault.NotFound, "no port %s", id)
}

// UpdatePort changes the groups of a port.
func (n *groupNetworks) UpdatePort(_ context.Context, id string, attributes map[string]any) (network.Port, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.ports {
		if n.ports[i].ID == id {
			n.ports[i].SecurityGroups, _ = attributes["security_groups"].([]string)
			return n.ports[i], nil
		}
	}
	return network.Port{}, fault.New(fault.NotFound, "no port %s", id)
}

// Policies returns none.
func (n *groupNetworks) Policies(context.Context, url.Values) ([]network.Policy, error) {
	return nil, nil
}

// Extensions has that of security groups if there are some.
func (n *groupNetworks) Extensions(context.Context) ([]string, error) {
	if n.asked.Add(1); n.silent {
		return nil, fault.New(fault.Unavailable, "no answer")
	}
	if n.groups == nil {
		return nil, nil
	}
	return []string{network.SecurityGroupExtension, network.SharedSecurityGroupExtension}, nil
}

// SharedWith returns the ids of the groups or networks that others share with a project.
func (n *groupNetworks) SharedWith(_ context.Context, kind, project string) ([]string, error) {
	if kind == network.SharedNetwork && project == n.sharedNetwork {
		return []string{imageID}, nil
	}
	if kind == network.SharedNetwork {
		return nil, nil
	}
	return n.shared[project], nil
}

// SecurityGroups returns the groups with an id, or of a project, or all.
func (n *groupNetworks) SecurityGroups(_ context.Context, q url.Values) (list []network.SecurityGroup, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.groups {
		if len(q) == 0 || slices.Contains(q["id"], g.ID) || g.Project == q.Get("tenant_id") {
			list = append(list, g)
		}
	}
	return list, nil
}

// networkedServer creates a server as ann with keys, gives it two ports with groups, and returns its id.
func networkedServer(h *fixture, n *groupNetworks, keys string) string {
	h.Helper()
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "web", "flavorRef": "small"`+keys+`}}`)
	id, _ := r.dig("server/id").(string)
	if r.status != 202 {
		h.Fatalf("%d %s", r.status, r.text)
	}
	s, err := h.store.Read(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	var ids []string
	for _, g := range s.SecurityGroups {
		ids = append(ids, g.ID)
	}
	if _, err := h.store.Change(h.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Ports = []lifecycle.Port{{ID: "p1"}, {ID: "p2"}}
		return s
	}); err != nil {
		h.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports = nil
	for _, p := range []string{"p1", "p2"} {
		n.ports = append(n.ports, network.Port{ID: p, Device: id, SecurityGroups: ids, FixedIPs: []network.FixedIP{{}}})
	}
	return id
}

// groupsIn returns the names of the groups in an answer.
func groupsIn(r reply, path string) string {
	list, _ := r.dig(path).([]any)
	var names []string
	for _, one := range list {
		g, _ := one.(map[string]any)
		name, _ := g["name"].(string)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestSecurityGroupsOfServers tests a network service that has security groups: the groups of a request are found by
// name or id, and shown, added and removed at the ports.
func TestSecurityGroupsOfServers(t *testing.T) {
	n := &groupNetworks{groups: []network.SecurityGroup{
		{ID: "g1", Name: "web", Project: "p1", Rules: []network.SecurityGroupRule{
			{ID: "r1", Group: "g1", Direction: "ingress", Protocol: "tcp", RemoteGroup: "g1"},
			{ID: "r2", Group: "g1", Direction: "egress"}}},
		{ID: "g2", Name: "db", Project: "p1"}, {ID: "g3", Name: "twice", Project: "p1"},
		{ID: "g4", Name: "twice", Project: "p1"}, {ID: "g5", Name: "other", Project: "p2"},
		{ID: "g6", Name: "lent", Project: "p2"}},
		shared: map[string][]string{"p1": {"g6"}, "service": {"g5"}}}
	h := startWith(t, func(o *Options) { o.Networks = n })
	h.flavor("small", nil)
	id := networkedServer(h, n, `, "security_groups": [{"name": "web"}, {"name": "g2"}, {"name": "web"}]`)
	show := func(want string) {
		t.Helper()
		for path, at := range map[string]string{"/servers/" + id: "server/security_groups",
			"/servers/detail": "servers/0/security_groups"} {
			if got := groupsIn(h.ask("GET", "/v2.1"+path, ""), at); got != want {
				t.Errorf("%s shows %q, want %q", path, got, want)
			}
		}
	}
	show("web db")
	own := h.ask("GET", "/v2.1/servers/"+id+"/os-security-groups", "")
	if groupsIn(own, "security_groups") != "db web" || own.dig("security_groups/1/tenant_id") != "p1" ||
		own.dig("security_groups/1/rules/0/group/name") != "web" || own.dig("security_groups/1/rules/1") != nil ||
		own.dig("security_groups/1/rules/0/to_port") != 65535.0 {
		t.Error(own.text)
	}
	path := "/servers/" + id + "/action"
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": "g3"}}`, 202, ""},
		{"2.1", "POST", path, `{"removeSecurityGroup": {"name": "web"}}`, 202, ""},
		{"2.1", "POST", path, `{"removeSecurityGroup": {"name": "web"}}`, 404, "not associated with the instance"},
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": "twice"}}`, 409, "Multiple security groups"},
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": "other"}}`, 404, "not found"},
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": "g5"}}`, 404, "not found"},
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": "lent"}}`, 202, ""},
		{"2.1", "POST", path, `{"removeSecurityGroup": {"name": "g6"}}`, 202, ""},
		{"2.1", "POST", path, `{"addSecurityGroup": {"name": " "}}`, 400, "cannot be empty"},
		{"2.1", "POST", path, `{"addSecurityGroup": {"group": "web"}}`, 400, "name: it is missing"},
		{"2.1", "POST", path, `{"addSecurityGroup": null}`, 400, "must be an object"},
	})
	show("db twice")
	create := `{"server": {"name": "x", "flavorRef": "small", "security_groups": [{"name": "`
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", "/servers", create + `other"}]}}`, 400, "Security group other not found"},
		{"2.1", "POST", "/servers", create + `g5"}]}}`, 400, "Security group g5 not found"},
		{"2.1", "POST", "/servers", create + `lent"}]}}`, 202, `"name":"lent"`},
		{"2.1", "POST", "/servers", create + `x"}` + strings.Repeat(`, {"name": "x"}`, 250) + `]}}`, 400, "more than 250"},
		{"2.1", "POST", "/servers", `{"server": {"name": "x", "flavorRef": "small", "networks": [{"uuid": "x"}` +
			strings.Repeat(`, {"uuid": "x"}`, 250) + `]}}`, 400, "more than 250"},
		{"2.1", "POST", "/servers", create + `twice"}]}}`, 409, "Multiple security groups"},
		{"2.1", "POST", "/servers", create + `"}]}}`, 400, "from 1 to 255"},
		{"2.1", "POST", "/servers", create + `default"}]}}`, 202, `"security_groups":[{"name":"default"}]`},
	})
}

// TestDefaultSecurityGroup tests a network service without security groups: a server with ports has the group default,
// and others are refused with the reason.
func TestDefaultSecurityGroup(t *testing.T) {
	n := &groupNetworks{}
	h := startWith(t, func(o *Options) { o.Networks = n })
	h.flavor("small", nil)
	for _, keys := range []string{``, `, "security_groups": [{"name": "default"}]`} {
		id := networkedServer(h, n, keys)
		if got := groupsIn(h.ask("GET", "/v2.1/servers/"+id, ""), "server/security_groups"); got != "default" {
			t.Errorf("created with %q, shows %q", keys, got)
		}
		h.exchanges("ann:p1", []exchange{
			{"2.1", "GET", "/servers/" + id + "/os-security-groups", "", 200, `"name":"default"`},
			{"2.1", "POST", "/servers/" + id + "/action", `{"addSecurityGroup": {"name": "default"}}`, 202, ""},
			{"2.1", "POST", "/servers/" + id + "/action", `{"addSecurityGroup": {"name": "web"}}`, 404,
				"has no security groups"},
			{"2.1", "POST", "/servers/" + id + "/action", `{"removeSecurityGroup": {"name": "default"}}`, 400,
				"has no security groups"},
		})
	}
	h.exchanges("ann:p1", []exchange{{"2.1", "POST", "/servers",
		`{"server": {"name": "x", "flavorRef": "small", "security_groups": [{"name": "web"}]}}`, 400,
		"has no security groups"}})
}

// A network service that does not answer delays one list of servers, which has the groups that were requested, and not
// those after it.
func TestSecurityGroupsOfASilentNetworkService(t *testing.T) {
	n := &groupNetworks{silent: true}
	h := startWith(t, func(o *Options) { o.Networks = n })
	h.flavor("small", nil)
	if r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "web", "flavorRef": "small"}}`); r.status != 202 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	for range 3 {
		if r := h.ask("GET", "/v2.1/servers/detail", ""); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.text)
		}
	}
	if asked := n.asked.Load(); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

// Only the project of a network and administrators choose addresses in it; others do not learn which ports have them.
func TestAddressInNetworkOfAnotherProject(t *testing.T) {
	n := &groupNetworks{ports: []network.Port{{ID: "hidden-port", Project: "p2", Network: imageID}}}
	h := startWith(t, func(o *Options) { o.Networks = n })
	h.flavor("small", nil)
	body := `{"server": {"name": "web", "flavorRef": "small", "networks": [{"uuid": "` + imageID +
		`", "fixed_ip": "10.0.0.5"}]}}`
	h.exchanges("ann:p1", []exchange{{"2.1", "POST", "/servers", body, 403, "not allowed to choose an address"}})
	h.exchanges("ann:owner", []exchange{{"2.1", "POST", "/servers", body, 400, "is already in use; request"}})
	h.exchanges("admin", []exchange{{"2.1", "POST", "/servers", body, 400, "in use by port hidden-port"}})
	n.ports = nil
	h.exchanges("ann:owner", []exchange{{"2.1", "POST", "/servers", body, 202, "id"}})
}

// A network that its project shares with another one alone serves servers of that project, and of no third one.
func TestServerInNetworkOfAnotherProject(t *testing.T) {
	for project, status := range map[string]int{"p1": 202, "p3": 400} {
		n := &groupNetworks{sharedNetwork: project}
		h := startWith(t, func(o *Options) { o.Networks = n })
		h.flavor("small", nil)
		body := `{"server": {"name": "web", "flavorRef": "small", "networks": [{"uuid": "` + imageID + `"}]}}`
		if r := h.ask("POST", "/v2.1/servers", body); r.status != status {
			t.Errorf("shared with %s: %d %s", project, r.status, r.text)
		}
	}
}
