package server

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// withHost returns a fixture with the host cmp1 and a server of ann that runs there.
func withHost(t *testing.T) (h *fixture, id string) {
	h = startWith(t, func(o *Options) { o.Providers = &fakeProviders{} })
	if err := h.hosts.PutReport(t.Context(), host.Report{Host: "cmp1", Instance: "a", Start: "s",
		HostIP: "192.0.2.7", MoveAddress: "192.0.2.8", Provider: string(rootID)}); err != nil {
		t.Fatal(err)
	}
	return h, h.running("web")
}

func TestHypervisors(t *testing.T) {
	h, id := withHost(t)
	const number = "18764998447377" // the first 48 bits of rootID
	uuid := string(rootID)
	h.exchanges("admin", []exchange{
		{"2.1", "GET", "/os-hypervisors", "", 200, `"id":` + number},
		{"2.53", "GET", "/os-hypervisors", "", 200, `"id":"` + uuid + `"`},
		{"2.1", "GET", "/os-hypervisors/" + number, "", 200, `"cpu_info":""`},
		{"2.28", "GET", "/os-hypervisors/" + number, "", 200, `"cpu_info":{}`},
		{"2.53", "GET", "/os-hypervisors/" + uuid, "", 200, `"memory_mb":32768,"memory_mb_used":512,"free_ram_mb":32256`},
		{"2.88", "GET", "/os-hypervisors/" + uuid, "", 200, `"host_ip":"192.0.2.7"`},
		{"2.53", "GET", "/os-hypervisors/" + number, "", 404, "could not be found"},
		{"2.53", "GET", "/os-hypervisors/detail?with_servers=true", "", 200, `"servers":[{"uuid":"` + id + `"`},
		{"2.53", "GET", "/os-hypervisors?hypervisor_hostname_pattern=mp", "", 200, "cmp1"},
		{"2.53", "GET", "/os-hypervisors?hypervisor_hostname_pattern=x", "", 404, "No hypervisor matching 'x'"},
		{"2.33", "GET", "/os-hypervisors?marker=" + number, "", 200, `{"hypervisors":[]}`},
		{"2.33", "GET", "/os-hypervisors?marker=7", "", 400, "marker [7] not found"},
		{"2.52", "GET", "/os-hypervisors/cmp/search", "", 200, "cmp1"},
		{"2.52", "GET", "/os-hypervisors/cmp/servers", "", 200, id},
		{"2.53", "GET", "/os-hypervisors/cmp/search", "", 404, "there is nothing"},
		{"2.53", "GET", "/os-hypervisors/" + uuid + "/uptime", "", 400, "is not known"},
		{"2.1", "GET", "/os-hypervisors/statistics", "", 200, `"count":1,"vcpus":16,"vcpus_used":2`},
		{"2.42", "GET", "/os-hosts", "", 200, `{"hosts":[{"host_name":"cmp1","service":"compute","zone":"nova"}]}`},
		{"2.42", "GET", "/os-hosts?zone=z", "", 200, `{"hosts":[]}`},
		{"2.42", "GET", "/os-hosts/cmp1", "", 200, `{"resource":{"project":"p1","host":"cmp1","cpu":2,`},
		{"2.42", "GET", "/os-hosts/cmp2", "", 404, "Compute host cmp2 could not be found."},
		{"2.43", "GET", "/os-hosts", "", 404, "there is nothing"},
		{"2.1", "PUT", "/os-hosts/cmp1", `{"status": "disable"}`, 501, "cannot power hosts"},
		{"2.1", "GET", "/os-availability-zone/detail", "", 200, `"cmp1":{"nova-compute":{"active":true,"available":true`},
		{"2.1", "GET", "/os-availability-zone/detail", "", 200, `"nova-scheduler":{"active":true,"available":true`},
		{"2.1", "GET", "/os-availability-zone/detail", "", 200, `"zoneName":"internal"`},
		{"2.1", "GET", "/os-aggregates", "", 200, `{"aggregates":[]}`},
		{"2.1", "PUT", "/os-services/disable", `{"host": "cmp1", "binary": "nova-compute"}`, 200,
			`{"service":{"binary":"nova-compute","host":"cmp1","status":"disabled"}}`},
		{"2.11", "PUT", "/os-services/disable-log-reason",
			`{"host": "cmp1", "binary": "nova-compute", "disabled_reason": "x"}`, 200,
			`{"service":{"binary":"nova-compute","host":"cmp1","status":"disabled","disabled_reason":"x"}}`},
		{"2.52", "PUT", "/os-services/enable", `{"host": "cmp1", "binary": "nova-compute"}`, 200,
			`{"service":{"binary":"nova-compute","host":"cmp1","status":"enabled"}}`},
	})
	h.exchanges("ann:p1", []exchange{
		{"2.53", "GET", "/os-hypervisors", "", 403, "role admin"},
		{"2.53", "GET", "/os-hypervisors/statistics", "", 403, "role admin"},
		{"2.1", "GET", "/os-hosts", "", 403, "role admin"},
		{"2.1", "GET", "/os-availability-zone/detail", "", 403, "role admin"},
		{"2.1", "GET", "/os-availability-zone", "", 200, `{"zoneName":"nova","zoneState":{"available":true},"hosts":null}`},
		{"2.1", "GET", "/os-server-groups", "", 200, `{"server_groups":[]}`},
		{"2.1", "POST", "/servers/" + id + "/action", `{"addFloatingIp": {}}`, 400,
			"Berth does not support the action addFloatingIp"},
		{"2.1", "GET", "/servers/" + id + "/os-volume_attachments", "", 200, `{"volumeAttachments":[]}`},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.6", "POST", "/servers/" + id + "/remote-consoles", `{}`, 404, "could not be found"},
		{"2.1", "GET", "/servers/" + id + "/os-volume_attachments", "", 404, "could not be found"},
	})
}

func TestQuotasAndLimits(t *testing.T) {
	h, _ := withHost(t)
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/os-quota-sets/p1", "", 200, `"floating_ips":-1`},
		{"2.36", "GET", "/os-quota-sets/p1", "", 200, `"injected_files":5,"instances":-1,"key_pairs":100`},
		{"2.57", "GET", "/os-quota-sets/p1", "", 200, `{"cores":-1,"id":"p1","instances":-1,"key_pairs":100,` +
			`"metadata_items":128,"ram":-1,"server_group_members":10,"server_groups":10}`},
		{"2.57", "GET", "/os-quota-sets/p1/detail", "", 200, `"ram":{"in_use":512,"limit":-1,"reserved":0}`},
		{"2.57", "GET", "/os-quota-sets/p2", "", 403, "role admin"},
		{"2.57", "GET", "/os-quota-sets/p2/detail", "", 403, "role admin"},
		{"2.57", "GET", "/os-quota-sets/p2/defaults", "", 200, `"id":"p2"`},
		{"2.57", "PUT", "/os-quota-sets/p1", `{}`, 403, "role admin"},
		{"2.57", "DELETE", "/os-quota-sets/p1", "", 403, "role admin"},
		{"2.1", "GET", "/limits", "", 200, `"maxPersonality":5`},
		{"2.57", "GET", "/limits", "", 200, `"totalCoresUsed":2,"totalInstancesUsed":1,"totalRAMUsed":512`},
		{"2.57", "GET", "/limits?tenant_id=p2", "", 403, "role admin"},
		{"2.57", "GET", "/os-quota-class-sets/default", "", 403, "role admin"},
		{"2.57", "PUT", "/os-quota-class-sets/default", `{}`, 403, "role admin"},
	})
	h.exchanges("bob:p2", []exchange{{"2.57", "GET", "/limits", "", 200, `"totalInstancesUsed":0`}})
	h.exchanges("admin", []exchange{
		{"2.57", "GET", "/os-quota-sets/p1", "", 200, `"id":"p1"`},
		{"2.57", "GET", "/limits?tenant_id=p1", "", 200, `"totalInstancesUsed":1`},
		{"2.57", "PUT", "/os-quota-sets/p1", `{}`, 400, "quota_set"},
		{"2.50", "GET", "/os-quota-class-sets/default", "", 200, `"server_groups":10`},
	})
	for _, c := range []struct {
		version, path string
		absent        []string
	}{
		{"2.36", "/os-quota-sets/p1", []string{"floating_ips", "fixed_ips", "security_group"}},
		{"2.57", "/limits", []string{"maxImageMeta", "maxPersonality", "FloatingIps", "SecurityGroup"}},
		{"2.49", "/os-quota-class-sets/x", []string{"server_group"}},
		{"2.50", "/os-quota-class-sets/x", []string{"floating_ips"}},
		{"2.57", "/os-quota-class-sets/x", []string{"injected_files"}},
	} {
		r := h.at(c.version, "GET", "/v2.1"+c.path, "")
		for _, key := range c.absent {
			if r.status != 200 || strings.Contains(r.text, key) {
				t.Errorf("%s at %s shows %s: %s", c.path, c.version, key, r.text)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := startWith(t, func(o *Options) { o.Now = func() time.Time { return now } })
	id := h.running("web")
	ended := h.running("gone")
	for server, times := range map[string][2]time.Time{id: {now.Add(-10 * time.Hour), {}},
		ended: {now.Add(-8 * time.Hour), now.Add(-7 * time.Hour)}} {
		if _, err := h.store.Change(t.Context(), server, func(s lifecycle.Server) lifecycle.Server {
			s.Created, s.Launched, s.Ended = times[0], times[0], times[1]
			return s
		}); err != nil {
			t.Fatal(err)
		}
	}
	const period = "?start=2026-03-01T08:00:00&end=2026-03-02" // both ran before; one ends before
	const all = "?start=2026-02-01&end=2026-03-02&detailed=1"
	h.exchanges("admin", []exchange{
		{"2.1", "GET", "/os-simple-tenant-usage" + period, "", 200, `"tenant_id":"p1"`},
		{"2.1", "GET", "/os-simple-tenant-usage" + period, "", 200,
			`"total_hours":4,"total_vcpus_usage":8,"total_memory_mb_usage":2048,"total_local_gb_usage":12}`},
		{"2.1", "GET", "/os-simple-tenant-usage" + all, "", 200, `"total_hours":11`},
		{"2.1", "GET", "/os-simple-tenant-usage" + all, "", 200, `"state":"terminated","uptime":3600`},
		{"2.40", "GET", "/os-simple-tenant-usage" + all + "&limit=1", "", 200, "marker=" + id},
		{"2.40", "GET", "/os-simple-tenant-usage" + all + "&marker=" + id, "", 200, `"total_hours":1,`},
		{"2.40", "GET", "/os-simple-tenant-usage" + all + "&marker=x", "", 400, "marker [x] not found"},
		{"2.1", "GET", "/os-simple-tenant-usage?start=2027-01-01", "", 400, "Invalid start time"},
		{"2.1", "GET", "/os-simple-tenant-usage/p1" + period, "", 200, `"server_usages":[{"instance_id":"` + id},
		{"2.1", "GET", "/os-simple-tenant-usage/p3" + period, "", 200, `{"tenant_usage":{}}`},
	})
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/os-simple-tenant-usage" + period, "", 403, "role admin"},
		{"2.1", "GET", "/os-simple-tenant-usage/p1" + period, "", 200, `"total_hours":4`},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.1", "GET", "/os-simple-tenant-usage/p1" + period, "", 403, "role admin"}})
}

// TestHypervisorWithNodesInPlacement shows a host of which Placement counts the threads for dedicated CPUs on providers
// of its NUMA nodes: they belong to its vCPUs. Nodes that Placement does not have (yet) and nodes without such threads
// do not count. An error of Placement is not taken for an empty node.
func TestHypervisorWithNodesInPlacement(t *testing.T) {
	node := func(n int) provider.ID { return provider.IDFromName(rootID, numa.ProviderName("cmp1", n)) }
	placement := &fakeProviders{nodes: map[provider.ID]resource.Amounts{node(0): {"PCPU": 3, "CUSTOM_NUMA_VCPU": 5},
		node(1): {}}}
	h := startWith(t, func(o *Options) { o.Providers = placement })
	report := host.Report{Host: "cmp1", Instance: "a", Start: "s", Provider: string(rootID), NodesInPlacement: true,
		Cells: []host.Cell{{ID: 0, Dedicated: []int{0, 1, 2, 3}}, {ID: 1, Dedicated: []int{4, 5}}, {ID: 2},
			{ID: 3, Dedicated: []int{6}}}}
	put := func() {
		t.Helper()
		if err := h.hosts.PutReport(t.Context(), report); err != nil {
			t.Fatal(err)
		}
	}
	put()
	show := func(status int, text string) {
		t.Helper()
		h.exchanges("admin", []exchange{{"2.53", "GET", "/os-hypervisors/" + string(rootID), "", status, text}})
	}
	show(200, `"vcpus":22,"vcpus_used":5`) // the root has 16, of which 2 are used
	placement.nodesErr = fault.New(fault.Unavailable, "stopped")
	show(503, "stopped")
	report.NodesInPlacement = false
	put()
	show(200, `"vcpus":16,"vcpus_used":2`)
}

// TestHypervisorOfDisabledHost disables the only host: the hypervisor and the zone show it.
func TestHypervisorOfDisabledHost(t *testing.T) {
	h, _ := withHost(t)
	show := "/os-hypervisors/" + string(rootID)
	h.exchanges("admin", []exchange{
		{"2.53", "GET", show, "", 200, `"status":"enabled"`},
		{"2.53", "PUT", "/os-services/" + serviceID("cmp1"), `{"status": "disabled", "disabled_reason": "fans"}`, 200,
			"fans"},
		{"2.53", "GET", show, "", 200, `"status":"disabled"`},
		{"2.53", "GET", show, "", 200, `"disabled_reason":"fans"`},
		{"2.53", "GET", "/os-availability-zone", "", 200, `"available":false`},
		{"2.53", "GET", "/os-availability-zone/detail", "", 200, `{"active":false,"available":true`},
		{"2.53", "PUT", "/os-services/" + serviceID("cmp1"), `{"status": "enabled"}`, 200, "enabled"},
		{"2.53", "GET", "/os-availability-zone/detail", "", 200, `{"active":true,"available":true`},
	})
}
