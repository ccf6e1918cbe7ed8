package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/keystone"
	"github.com/openberth/berth/internal/testenv"
)

// accounts is how processes and users of a cloud sign in.
type accounts struct {
	edge      string                                  // the options with which a service authenticates its callers
	calls     func(group, account, url string) string // the options with which a process calls a service
	announce  func(kind, url string)                  // enters a service into the catalog, if there is one
	user      func(name, url string) login            // a user; url is that of the service of the client
	headers   func(name string) []string              // of a request of a user
	challenge string                                  // a part of WWW-Authenticate
}

// TestNetworkWithHTTPBasic runs the network service and its callers with http_basic.
func TestNetworkWithHTTPBasic(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	users := writeUsers(t, "root", "agent1", "berth", "dora", "eve")
	testNetworkWithAccounts(t, accounts{
		edge: "[DEFAULT]\nhttp_basic_auth_user_file = " + users + "\n[api]\nauth_strategy = http_basic\n[berth]\n" +
			"admin_users = root\nservice_users = berth, agent1\nuser_projects = dora:green, eve:grey",
		calls: func(group, account, url string) string {
			return basicCalls(group, account) + "\nendpoint_override = " + url
		},
		announce: func(string, string) {},
		user:     func(name, url string) login { return append(basicLogin(name), "OS_ENDPOINT="+url) },
		headers: func(name string) []string {
			return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+name+"-secret"))}
		},
		challenge: "Basic",
	})
}

// testNetworkWithKeystone runs the network service and its callers with Keystone. All find each other in its catalog.
func testNetworkWithKeystone(t *testing.T, k *keystone.Keystone) {
	k.User(t, "berth", "service", "service")
	k.User(t, "agent1", "service", "service")
	k.User(t, "dora", "green", "member")
	k.User(t, "eve", "grey", "member")
	testNetworkWithAccounts(t, accounts{
		edge: "[api]\nauth_strategy = keystone\n" + keystoneAccount(k, "keystone_authtoken", "berth") +
			"\nwww_authenticate_uri = " + k.URL,
		calls:    func(group, account, _ string) string { return keystoneAccount(k, group, account) },
		announce: func(kind, url string) { register(t, k, kind, url) },
		user: func(name, _ string) login {
			if name == "root" {
				return keystoneLogin(k, k.AdminUser, k.AdminPassword, k.AdminProject)
			}
			return keystoneLogin(k, name, name, map[string]string{"dora": "green", "eve": "grey"}[name])
		},
		headers:   func(name string) []string { return []string{"X-Auth-Token", k.Token(t, name, name, "green")} },
		challenge: k.URL,
	})
}

// testNetworkWithAccounts starts placement, the network service, compute and an agent as separate processes. A user
// creates a network and a server with a port; another one does not see them. The administrator changes the policy of
// the port, with the account of the network service in Placement.
func testNetworkWithAccounts(t *testing.T, a accounts) {
	dir := t.TempDir()
	base := conf(t, machine(t, 1, 2), "[ovs]", "bridge_mappings = physnet0:br-ex",
		"resource_provider_bandwidths = br-ex:10000:10000", "[ml2]", "tenant_network_types = vlan", "[ml2_type_vlan]",
		"network_vlan_ranges = physnet0:100:199")
	serve := func(name string, options ...string) *daemon {
		return start(t, []string{name}, name, "--config-file", base, "--config-file", writeConfig(t, name+".conf",
			append([]string{a.edge}, options...)...), "--data-dir", filepath.Join(dir, name), "--listen", "127.0.0.1:0")
	}
	p := serve("placement")
	a.announce("placement", p.urls["placement"])
	n := serve("network", a.calls("placement", "berth", p.urls["placement"]))
	a.announce("network", n.urls["network"])
	c := serve("compute", a.calls("placement", "berth", p.urls["placement"]),
		a.calls("neutron", "berth", n.urls["network"]))
	a.announce("compute", c.urls["compute"]+"/v2.1")
	agent := start(t, nil, "agent", "--data-dir", filepath.Join(dir, "cmp1"), "--config-file", base, "--config-file",
		writeConfig(t, "agent.conf", a.calls("placement", "agent1", p.urls["placement"]),
			a.calls("neutron", "agent1", n.urls["network"]), a.calls("compute", "agent1", c.urls["compute"])))

	root, dora, eve := a.user("root", n.urls["network"]), a.user("dora", n.urls["network"]),
		a.user("eve", n.urls["network"])
	testenv.Until(t, "the agent is reported", func() (bool, error) {
		return strings.Contains(root.openstack(t, "network", "agent", "list", "-f", "json"), `"Host": "cmp1"`), nil
	})
	id := func(text string) string {
		var made struct{ ID string }
		must(t, json.Unmarshal([]byte(text), &made))
		return made.ID
	}
	dora.openstack(t, "network", "create", "lan")
	dora.openstack(t, "subnet", "create", "--network", "lan", "--subnet-range", "10.0.0.0/24", "four")
	port := id(dora.openstack(t, "port", "create", "--network", "lan", "one", "-f", "json"))
	eve.openstackFails(t, "No Network found for lan", "network", "show", "lan")
	eve.openstackFails(t, "No Port found", "port", "show", port)
	dora.openstackFails(t, "is disallowed by policy", "port", "set", "--host", "cmp1", port)
	resp, text := request(t, "GET", n.urls["network"]+"/v2.0/networks", "", "X-Auth-Token", "nonsense")
	if resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(resp.Header.Get("WWW-Authenticate"), a.challenge) {
		t.Errorf("a wrong token: %d %v %s", resp.StatusCode, resp.Header, text)
	}

	services := []*daemon{p, n, c}
	root.ok(t, services, "flavor", "create", "small", "--vcpus", "1", "--ram", "64")
	flavor := id(root.ok(t, services, "flavor", "show", "small", "-o", "json"))
	resp, text = request(t, "POST", c.urls["compute"]+"/v2.1/servers", fmt.Sprintf(`{"server": {"name": "web",
		"flavorRef": %q, "networks": [{"port": %q}]}}`, flavor, port), append(a.headers("dora"), "Content-Type",
		"application/json")...)
	var made struct{ Server compute.Server }
	if err := json.Unmarshal([]byte(text), &made); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	server := made.Server
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		must(t, json.Unmarshal([]byte(dora.ok(t, services, "server", "show", server.ID, "-o", "json")), &server))
		return server.Status == "ACTIVE", nil
	})
	shown := func() string { return root.openstack(t, "port", "show", port, "-f", "json") }
	for _, part := range []string{`"binding_vif_type": "ovs"`, `"binding_host_id": "cmp1"`, server.ID} {
		if text := shown(); !strings.Contains(text, part) {
			t.Errorf("the port does not show %s: %s", part, text)
		}
	}
	for _, policy := range []string{"3000", "4000"} {
		root.openstack(t, "network", "qos", "policy", "create", policy)
		root.openstack(t, "network", "qos", "rule", "create", "--type", "minimum-bandwidth", "--min-kbps", policy, "--egress",
			policy)
		root.openstack(t, "port", "set", "--qos-policy", policy, port)
		if text := a.user("root", p.urls["placement"]).openstack(t, "resource", "provider", "allocation", "show",
			server.ID); !strings.Contains(text, policy) {
			t.Errorf("the allocation has no %s: %s", policy, text)
		}
	}
	dora.ok(t, services, "server", "delete", "web", "--wait")
	dora.openstack(t, "port", "delete", port)
	for _, d := range []*daemon{agent, c, n, p} {
		d.stop(t)
		if i := strings.Index(d.log.String(), "-secret"); i >= 0 {
			t.Errorf("a log contains a password: %s", d.log)
		}
	}
}
