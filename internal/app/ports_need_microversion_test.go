package app

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// sendAt sends a request for servers at a microversion.
func (l *portsLab) sendAt(version, method, path string, body any) error {
	client := *l.compute().REST
	client.Headers = maps.Clone(client.Headers)
	client.Headers[compute.VersionHeader] = compute.Service + " " + version
	delete(client.Headers, compute.LegacyVersionHeader)
	_, err := client.Do(l.t.Context(), method, "/v2.1/servers"+path, body, nil)
	return err
}

// TestPortsNeedMicroversion tests the rule of specification 004 about versions: servers with ports that have a resource
// request are created, moved and get such ports from 2.72 on; deletion and detachment work at every version.
func TestPortsNeedMicroversion(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	send := l.sendAt
	refused := func(method, path string, body any) {
		t.Helper()
		if err := send("2.71", method, path, body); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), "before microversion 2.72") {
			t.Errorf("%s %s %v at 2.71: %v", method, path, body, err)
		}
	}
	policy := l.policy(1000)
	first, second := l.port(policy), l.port(policy)
	create := func(networks any) any {
		return map[string]any{"server": map[string]any{"name": "web", "flavorRef": l.flavor, "networks": networks}}
	}
	refused(http.MethodPost, "", create([]map[string]string{{"port": first.ID}}))
	if err := send("2.72", http.MethodPost, "", create([]map[string]string{{"port": first.ID}})); err != nil {
		t.Fatal(err)
	}
	list, err := l.compute().Servers(t.Context(), compute.ListServers{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d servers: %v", len(list), err)
	}
	id := l.reach(list[0].ID, "ACTIVE").ID
	l.check(id, 1, 1000)
	attach := map[string]any{"interfaceAttachment": map[string]string{"port_id": second.ID}}
	refused(http.MethodPost, "/"+id+"/os-interface", attach)
	refused(http.MethodPost, "/"+id+"/action", map[string]any{"migrate": nil})
	refused(http.MethodPost, "/"+id+"/action", map[string]any{"os-migrateLive": map[string]any{"host": nil,
		"block_migration": "auto"}})
	larger, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "larger", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	refused(http.MethodPost, "/"+id+"/action", map[string]any{"resize": map[string]string{"flavorRef": larger.ID}})
	refused(http.MethodPost, "/"+id+"/action", map[string]any{"evacuate": map[string]any{}})
	if err := send("2.72", http.MethodPost, "/"+id+"/os-interface", attach); err != nil {
		t.Fatal(err)
	}
	l.check(id, 2, 2000)
	if err := send("2.1", http.MethodDelete, "/"+id+"/os-interface/"+second.ID, nil); err != nil {
		t.Fatal(err)
	}
	l.check(id, 1, 1000)
	if _, err := l.cloud.NetworkClient().REST.Do(t.Context(), http.MethodPut, "/v2.0/networks/"+l.net.ID,
		map[string]any{"network": map[string]any{"qos_policy_id": policy}}, nil); err != nil {
		t.Fatal(err)
	}
	refused(http.MethodPost, "", create([]map[string]string{{"uuid": l.net.ID}}))
	refused(http.MethodPost, "", create("auto"))
	l.act(id, "shelve", "SHELVED_OFFLOADED", nil)
	refused(http.MethodPost, "/"+id+"/action", map[string]any{"unshelve": nil})
	if err := send("2.1", http.MethodDelete, "/"+id, nil); err != nil {
		t.Fatal(err)
	}
}

// TestPortsAtAnyVersion turns the rule of specification 004 off.
func TestPortsAtAnyVersion(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLabWith(t, "\n[compute]\nports_need_microversion = false\n", &faultyNetwork{})
	defer l.down()
	first, second := l.port(l.policy(1000)), l.port(l.policy(1000))
	if err := l.sendAt("2.37", http.MethodPost, "", map[string]any{"server": map[string]any{"name": "web",
		"flavorRef": l.flavor, "networks": []map[string]string{{"port": first.ID}}}}); err != nil {
		t.Fatal(err)
	}
	list, err := l.compute().Servers(t.Context(), compute.ListServers{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d servers: %v", len(list), err)
	}
	id := l.reach(list[0].ID, "ACTIVE").ID
	if err := l.sendAt("2.1", http.MethodPost, "/"+id+"/os-interface",
		map[string]any{"interfaceAttachment": map[string]string{"port_id": second.ID}}); err != nil {
		t.Fatal(err)
	}
	l.check(id, 2, 2000)
	if err := l.sendAt("2.1", http.MethodPost, "/"+id+"/action", map[string]any{"migrate": nil}); strings.Contains(
		fault.TextOf(err), "before microversion") {
		t.Error(err)
	}
}
