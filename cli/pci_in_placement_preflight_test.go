package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

const rootID, pfID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"

// cloudOf serves the APIs of compute and Placement for one host; used is the usage of server s1 on the PF's provider in
// Placement.
func cloudOf(t *testing.T, h host.Report, status string, used int, more ...host.Report) *Globals {
	t.Helper()
	compared := slices.DeleteFunc(slices.Clone(h.Conditions),
		func(c condition.Condition) bool { return !strings.HasPrefix(c.Text, "compared: ") })
	answers := map[string]any{
		"/berth/v1/hosts":                  map[string]any{"hosts": append([]host.Report{h}, more...)},
		"/berth/v1/hosts/cmp0/allocations": host.Allocations{Host: "cmp0"},
		"/berth/v1/hosts/cmp1/allocations": host.Allocations{Host: "cmp1", Conditions: compared},
		"/v2.1/servers/detail": map[string]any{"servers": []map[string]any{{"id": "s1", "name": "web",
			"status": status}}},
		"/resource_providers": map[string]any{"resource_providers": []map[string]any{
			{"uuid": rootID, "name": "cmp1", "root_provider_uuid": rootID},
			{"uuid": pfID, "name": "cmp1_0000:81:00.0", "parent_provider_uuid": rootID, "root_provider_uuid": rootID}}},
		"/resource_providers/" + pfID + "/inventories": map[string]any{"resource_provider_generation": 1,
			"inventories": map[string]any{"CUSTOM_VF": map[string]int{"total": 2}}},
		"/resource_providers/" + pfID + "/allocations": map[string]any{"resource_provider_generation": 1,
			"allocations": map[string]any{"s1": map[string]any{"resources": map[string]int{"CUSTOM_VF": used}}}},
	}
	for _, id := range []string{rootID, pfID} {
		for what, empty := range map[string]any{"inventories": map[string]any{}, "traits": []string{},
			"aggregates": []string{}} {
			if path := "/resource_providers/" + id + "/" + what; answers[path] == nil {
				answers[path] = map[string]any{what: empty, "resource_provider_generation": 1}
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &Globals{PlacementURL: server.URL, ComputeURL: server.URL, Token: "admin",
		OutputFlags: OutputFlags{Output: "table"}}
}

// Each reason that prevents pci_in_placement is reported on its own.
func TestPreflight(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pf := host.Device{Address: "0000:81:00.0", Type: "type-PF", ResourceClass: "CUSTOM_PF"}
	vf := func(n int, holder string) host.Device {
		return host.Device{Address: fmt.Sprintf("0000:81:00.%d", n), VendorID: "8086", ProductID: "1515", Type: "type-VF",
			Parent: pf.Address, ResourceClass: "CUSTOM_VF", Holder: holder}
	}
	heldPF := pf
	heldPF.Holder = "s1"
	counted := func(holder string) []host.Device {
		a, b := vf(1, holder), vf(2, "")
		a.Provider, b.Provider = pfID, pfID
		return []host.Device{a, b}
	}
	for name, c := range map[string]struct {
		reports bool
		devices []host.Device
		silent  time.Duration
		status  string
		used    int
		dead    bool
		cloud   []string
		alias   string
		differs string // what a comparison with Placement finds: a condition too
		want    string // "" when the cloud is ready
	}{
		"ready":     {reports: true, devices: counted("s1"), used: 1},
		"no report": {devices: []host.Device{vf(1, "")}, want: "set [pci] report_in_placement = true there"},
		"both, free": {devices: []host.Device{pf, vf(1, "")}, want: "the PF 0000:81:00.0 and 1 of its VFs: no server " +
			"holds any of them; keep only the PF"},
		"both, PF held": {devices: []host.Device{heldPF, vf(1, "")}, want: "server s1 holds the PF; remove the VFs"},
		"both, VF held": {devices: []host.Device{pf, vf(1, "s1"), vf(2, "")},
			want: "servers hold 0000:81:00.1; remove the PF"},
		"compared": {reports: true, devices: counted("s1"), used: 1,
			differs: "compared: server web lacks VCPU:1", want: "compared: server web lacks VCPU:1"},
		"silent": {reports: true, devices: counted("s1"), used: 1, silent: 4 * time.Minute,
			want: "its agent has not reported for 4m0s"},
		"dead": {dead: true, devices: []host.Device{pf, vf(1, "")}, silent: time.Hour, want: "no agent reports"},
		"moving": {reports: true, devices: counted("s1"), used: 1, status: "VERIFY_RESIZE",
			want: "server web (s1) is moving (VERIFY_RESIZE)"},
		"aliases": {reports: true, devices: counted("s1"), used: 1, cloud: []string{"nova.conf:3: wrong"},
			want: "nova.conf:3: wrong"},
		"alias, its class": {reports: true, devices: counted("s1"), used: 1,
			alias: `{"name": "a", "resource_class": "CUSTOM_VF", "vendor_id": "8086", "product_id": "1515"}`},
		"alias, no device": {reports: true, devices: counted("s1"), used: 1,
			alias: `{"name": "a", "vendor_id": "8086", "product_id": "9999"}`},
		"alias, no class": {reports: true, devices: counted("s1"), used: 1,
			alias: `{"name": "a", "vendor_id": "8086", "product_id": "1515"}`,
			want: `alias "a" requests CUSTOM_PCI_8086_1515 from Placement, ` +
				`but the devices that match it have class CUSTOM_VF, for example on host cmp1`},
		"not healed": {reports: true, devices: counted("s1"), used: 0,
			want: "server s1 holds 1 devices of cmp1_0000:81:00.0, but 0 in Placement"},
		"not counted right": {reports: true, devices: counted("s1")[:1], used: 1,
			want: "it has 1 devices of CUSTOM_VF on provider " + pfID + ", but Placement has 2"},
	} {
		t.Run(name, func(t *testing.T) {
			status := c.status
			if status == "" {
				status = "ACTIVE"
			}
			conditions := []condition.Condition{{Text: "a remark"}}
			if c.differs != "" {
				conditions = append(conditions, condition.Condition{Text: c.differs})
			}
			g := cloudOf(t, host.Report{Host: "cmp1", Provider: rootID, InPlace: c.reports, Dead: c.dead, Devices: c.devices,
				Seen: now.Add(-c.silent), Conditions: conditions}, status, c.used)

			aliases := pci.Aliases{}
			if c.alias != "" {
				if err := aliases.Add(c.alias, true); err != nil {
					t.Fatal(err)
				}
			}
			p, err := AskPreflight(t.Context(), g, now, aliases, c.cloud)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			g.Stdout = &b
			err = PrintPreflight(g, p)
			if p.Ready != (c.want == "") || (err == nil) != p.Ready || !strings.Contains(b.String(), c.want) ||
				!strings.Contains(b.String(), "a remark") {
				t.Errorf("ready %v, fault %v, want %q in\n%s", p.Ready, err, c.want, b.String())
			}
			if stops := len(p.Cloud) + len(p.Hosts[0].Stops); (stops == 0) != (c.want == "") || len(p.Hosts[0].Notes) != 1 {
				t.Errorf("%d reasons: %+v", stops, p)
			}
		})
	}
}

// A dead host prevents nothing, whatever it reported last.
func TestPreflightIgnoresDeadHosts(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	vf := host.Device{Address: "0000:81:00.1", VendorID: "8086", ProductID: "1515", Type: "type-VF",
		ResourceClass: "CUSTOM_OLD"}
	dead := host.Report{Host: "cmp0", Provider: pfID, Dead: true, Devices: []host.Device{vf},
		Conditions: []condition.Condition{{Text: "an operator says that this host is dead"}}}
	alive := host.Report{Host: "cmp1", Provider: rootID, InPlace: true, Seen: now}
	aliases := pci.Aliases{}
	if err := aliases.Add(`{"name": "a", "vendor_id": "8086", "product_id": "1515"}`, true); err != nil {
		t.Fatal(err)
	}
	p, err := AskPreflight(t.Context(), cloudOf(t, alive, "ACTIVE", 0, dead), now, aliases, nil)
	if err != nil || !p.Ready || len(p.Hosts) != 2 || len(p.Hosts[1].Stops) != 0 || len(p.Hosts[1].Notes) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	dead.Dead = false
	if p, err := AskPreflight(t.Context(), cloudOf(t, alive, "ACTIVE", 0, dead), now, aliases,
		nil); err != nil || p.Ready || len(p.Cloud) != 1 || len(p.Hosts[1].Stops) != 2 {
		t.Errorf("were it alive: %+v %v", p, err)
	}
}
