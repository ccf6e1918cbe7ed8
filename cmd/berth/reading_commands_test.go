package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/testenv"
)

// callRecorder records the calls that a service or a command makes to other services.
type callRecorder struct {
	t     *testing.T
	mu    sync.Mutex
	calls []string
}

// link returns the URL of a proxy of a service, which records the calls.
func (r *callRecorder) link(name, target string) string {
	to, err := url.Parse(target)
	must(r.t, err)
	proxy := httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.calls = append(r.calls, name+" "+q.Method+" "+q.URL.Path)
		r.mu.Unlock()
		proxy.ServeHTTP(w, q)
	}))
	r.t.Cleanup(front.Close)
	return front.URL
}

// take returns the calls since the last take.
func (r *callRecorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// readingCommands are the client commands that must change nothing, each with one or several command lines. SERVER is
// the id of a server, and FILE the configuration of the agent of cmp1.
var readingCommands = map[string][]string{
	"agent plan":      {"agent plan --config-file FILE --data-dir DIR"},
	"agent preflight": {"agent preflight --config-file FILE --data-dir DIR"},
	"audit now":       {"audit --between-looks 0s", "audit now --between-looks 10ms"},
	"candidates": {"candidates resources=VCPU:1", "candidates --explain resources=VCPU:9999",
		"candidates resources=VCPU:1 required=CUSTOM_NO_SUCH_TRAIT"},
	"device list":  {"device list", "device list --long"},
	"device show":  {"device show cmp1 0000:81:03.1"},
	"flavor check": {"flavor check", "flavor check plain", "flavor check --property resources:CUSTOM_NO_SUCH_CLASS=1"},
	"flavor list":  {"flavor list"},
	"flavor show":  {"flavor show plain"},
	"headroom": {"headroom", "headroom plain --by zone", "headroom plain --by aggregate",
		"headroom plain --port vnic_type=direct,physical_network=physnet1,egress=1000"},
	"heal ports":    {"heal ports", "heal ports --host cmp1", "heal ports SERVER"},
	"host drain":    {"host drain cmp1 --plan", "host drain cmp2 --plan"},
	"host heal":     {"host heal cmp1"},
	"host list":     {"host list"},
	"host show":     {"host show cmp1"},
	"port list":     {"port list"},
	"network list":  {"network list"},
	"preflight":     {"preflight"},
	"provider list": {"provider list"},
	"provider show": {"provider show cmp1"},
	"tree":          {"tree", "tree cmp1", "tree --long"},
	"server list":   {"server list", "server list --all"},
	"server show":   {"server show SERVER"},
	"server why":    {"server why SERVER"},
	"why":           {"why SERVER"},

	"aggregate list":      {"aggregate list"},
	"keypair list":        {"keypair list"},
	"network show":        {"network show net"},
	"port explain":        {"port explain nope --from 10.0.0.1"},
	"port show":           {"port show nope"},
	"qos policy list":     {"qos policy list"},
	"qos policy show":     {"qos policy show nope"},
	"qos rule list":       {"qos rule list nope"},
	"quota list":          {"quota list"},
	"quota show":          {"quota show admin"},
	"security-group list": {"security-group list"},
	"security-group show": {"security-group show default"},
	"subnet list":         {"subnet list"},
	"subnet show":         {"subnet show nope"},
	"server group list":   {"server group list"},
	"server group show":   {"server group show nope"},

	"security-group rule list": {"security-group rule list", "security-group rule list default"},

	"server migration list": {"server migration list", "server migration list SERVER"},
}

// otherCommands change something, which their names say, or need no service.
var otherCommands = strings.Split("backup,restore,upgrade check,device clean,device disable,device enable,"+
	"host down,host up,host disable,host enable,host bind,host unbind,"+
	"host forget,server create,server delete,server console,server add port,server add network,server remove port,"+
	"server remove network,server stop,server start,server reboot,server rebuild,server resize,server confirm,"+
	"server revert,server migrate,server evacuate,server shelve,server unshelve,flavor create,flavor set,flavor delete,"+
	"server migration abort,server migration force-complete,server restore,options,completion,manual,"+
	"demo,up,console,placement run,placement db sync,placement db version,placement shadow run,"+
	"placement shadow report,watch,"+
	"compute,network run,image run,audit run,image build,image add,"+
	"image list,image delete,image show,image set,image save,image member list,image member add,image member remove,"+
	"launch,cloud,init make,init token,user add,user list,user show,user set,user password,user remove,"+
	"image accept,image reject,version,"+
	"network create,network set,network delete,subnet create,subnet set,subnet delete,port create,port set,port delete,"+
	"qos policy create,qos policy set,qos policy delete,qos rule add,qos rule remove,security-group create,"+
	"security-group set,security-group delete,security-group rule add,security-group rule remove,keypair create,"+
	"keypair show,keypair delete,aggregate create,aggregate show,aggregate set,aggregate delete,aggregate add,"+
	"aggregate remove,server group create,server group delete,quota set,quota reset,"+
	"agent run,agent check,agent images,agent snapshot,agent networks,agent ioslots,agent explain,agent adopt,"+
	"agent destroy",
	",")

// readingPaths are paths of the Compute API and the host API, and the first request of each kind of the Networking API.
var readingPaths = map[string][]string{
	"compute": {"/berth/v1/devices", "/berth/v1/headroom?flavor=plain", "/berth/v1/hosts",
		"/berth/v1/hosts/cmp1", "/berth/v1/differences",
		"/berth/v1/hosts/cmp1/allocations", "/berth/v1/hosts/cmp1/drain", "/berth/v1/servers/SERVER/why",
		"/v2.1/flavors/detail",
		"/v2.1/limits", "/v2.1/os-availability-zone/detail", "/v2.1/os-hosts", "/v2.1/os-hosts/cmp1",
		"/v2.1/os-hypervisors/detail", "/v2.1/os-hypervisors/statistics", "/v2.1/os-migrations", "/v2.1/os-services",
		"/v2.1/os-simple-tenant-usage", "/v2.1/servers/detail", "/v2.1/servers/SERVER",
		"/v2.1/servers/SERVER/os-interface",
		"/v2.1/servers/SERVER/os-instance-actions", "/v2.1/servers/SERVER/migrations", "/v2.1/servers/SERVER/ips",
		"/v2.1/servers/SERVER/os-security-groups"},
	"network": {"/v2.0/networks", "/v2.0/subnets", "/v2.0/ports", "/v2.0/agents", "/v2.0/qos/policies",
		"/v2.0/segments",
		"/v2.0/quotas/admin", "/v2.0/network-ip-availabilities", "/v2.0/extensions"},
}

// TestReadingCommandsWriteNothing runs each command and each GET that only shows something, on a cloud in which there
// is something to repair: the port of a server was released in the network service and has lost its allocation. All
// calls of the commands, of compute and of the network service are reads. A command that is in none of the lists fails
// the test.
func TestReadingCommandsWriteNothing(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1", "cmp2")
	recorder := &callRecorder{t: t}
	server := f.brokenServer(recorder)
	replace := strings.NewReplacer("SERVER", server, "FILE", f.files["cmp1"], "DIR", f.path("cmp1"))

	check := func(what string) {
		t.Helper()
		for _, call := range recorder.take() {
			if !strings.Contains(call, " GET ") && call != "command POST /berth/v1/ports/heal" {
				t.Errorf("%s: %s", what, call)
			}
		}
	}
	check("nothing")
	for service, paths := range readingPaths {
		client := map[string]*daemon{"compute": f.compute, "network": f.network}[service]
		for _, path := range paths {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				client.urls[service]+replace.Replace(path), nil)
			must(t, err)
			request.Header.Set("X-Auth-Token", "admin")
			request.Header.Set("OpenStack-API-Version", "compute 2.61")
			answer, err := http.DefaultClient.Do(request)
			must(t, err)
			must(t, answer.Body.Close())
			check("GET " + path)
		}
	}
	f.compute.urls["compute"] = recorder.link("command", f.compute.urls["compute"])
	f.placement.urls["placement"] = recorder.link("command", f.placement.urls["placement"])
	for _, name := range commandNames(t) {
		lines, reads := readingCommands[name]
		if !reads && !slices.Contains(otherCommands, name) {
			t.Errorf("add `berth %s` to readingCommands, or to otherCommands", name)
		}
		for _, line := range lines {
			args := strings.Fields(replace.Replace(line))
			if slices.Contains([]string{"port", "network", "subnet", "qos", "security-group", "quota", "audit"},
				strings.Fields(name)[0]) {
				args = append(args, "--network-url", recorder.link("command", f.network.urls["network"]))
			}
			_, stderr, status := output(t, f.args(args...)...)
			if status == statusUsage || strings.Contains(stderr, "does not answer") {
				t.Errorf("berth %s: status %d %s", line, status, stderr)
			}
			check("berth " + line)
		}
	}
}

// commandNames returns the commands of the command line.
func commandNames(t *testing.T) (names []string) {
	t.Helper()
	g := grammar{Commands: cli.NewCommands()}
	parser, err := kong.New(&g, kong.Vars{"version": "test"})
	must(t, err)
	for _, leaf := range parser.Model.Leaves(false) {
		names = append(names, leaf.Path())
	}
	return names
}

// brokenServer returns the id of a server on cmp1 that needs repair, and makes the recorder record the calls of compute
// and of the network service.
func (f *portFleet) brokenServer(recorder *callRecorder) string {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	port := f.port(2000)
	server := f.begin(port)
	f.await(server, "ACTIVE")

	placement, network := f.placement.urls["placement"], f.network
	network.stop(t)
	f.network = start(t, []string{"network"}, "network", "--config-file", f.file("network", ""), "--data-dir",
		f.path("network"), "--listen", strings.TrimPrefix(network.urls["network"], "http://"), "--placement-url",
		recorder.link("network to placement", placement))
	client := f.network.network()
	_, err := client.UpdatePort(ctx, port.ID, map[string]any{"device_id": "", "device_owner": "", "binding:host_id": "",
		"binding:profile": map[string]any{}})
	must(t, err)
	f.placement.urls["placement"] = recorder.link("compute to placement", placement)
	f.startCompute("[neutron]\nendpoint_override = " + recorder.link("compute to network", f.network.urls["network"]) +
		"\n")
	f.placement.urls["placement"] = placement
	testenv.Until(t, "the hosts have reported to the new compute", func() (bool, error) {
		services, err := f.compute.compute().Services(ctx)
		down := func(s compute.ServiceDoc) bool { return s.State != "up" }
		return len(services) == 2 && !slices.ContainsFunc(services, down), err
	})
	recorder.take()
	return server
}
