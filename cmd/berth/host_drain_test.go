package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

// A host is drained: --plan changes nothing; then a server without devices moves live, one with a device cold, and one
// that finds no host remains. No server is scheduled to the drained host.
func TestHostDrain(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const alias = "[pci]\nalias = {\"name\": \"vf\", \"resource_class\": \"CUSTOM_VF\", \"device_type\": \"type-VF\"}\n"
	f := newFleet(t, alias+pciInPlacement)
	f.startAgent("cmp1", f.host("cmp1", machine(t, 1, 4), drainSpec))
	f.flavor("vf:1")
	f.run(0, "", "flavor", "create", "plain", "--ram", "64")
	f.run(0, "", "server", "create", "live", "--flavor", "plain", "--wait")
	f.run(0, "", "server", "create", "cold", "--flavor", "vf:1", "--count", "2", "--wait")
	f.startAgent("cmp2", f.host("cmp2", machine(t, 1, 1), drainSpec))

	plan := f.run(1, "1 of 3 servers of host cmp1 cannot be moved", "host", "drain", "cmp1", "--plan", "-o", "json")
	var rows []struct{ Name, Action, To, Result, Reason string }
	if err := json.Unmarshal([]byte(plan), &rows); err != nil || len(rows) != 3 {
		t.Fatalf("%v: %s", err, plan)
	}
	want := []string{"cold-1 cold cmp2 planned", "cold-2   not moved", "live live cmp2 planned"}
	for i, r := range rows {
		if got := strings.Join([]string{r.Name, r.Action, r.To, r.Result}, " "); got != want[i] {
			t.Errorf("plan: %q, want %q (%s)", got, want[i], r.Reason)
		}
	}
	if list := f.run(0, "", "host", "list"); strings.Contains(list, "disabled") {
		t.Errorf("--plan has disabled the host: %s", list)
	}
	done := f.run(1, "1 of 3 servers remain on host cmp1", "host", "drain", "cmp1", "--reason", "new fans", "-o", "json")
	if err := json.Unmarshal([]byte(done), &rows); err != nil || rows[0].Result != "moved" || rows[0].To != "cmp2" ||
		rows[1].Result != "not moved" || rows[2].Result != "moved" || rows[2].To != "cmp2" || rows[2].Action != "live" {
		t.Errorf("%v: %s", err, done)
	}
	f.run(0, "an operator has disabled this host: new fans", "host", "list")
	f.run(1, "an operator has disabled it: new fans", "server", "create", "late", "--flavor", "vf:1", "--wait")
	f.run(0, "deleted", "server", "delete", "cold-2", "late", "--wait")
	f.run(0, "host cmp1 is drained", "host", "drain", "cmp1")
	f.run(0, "enabled", "host", "enable", "cmp1")
	f.run(0, "", "server", "create", "late", "--flavor", "vf:1", "--wait")
	f.run(0, "disabled", "host", "disable", "cmp1", "--reason", "dust")
	f.run(1, "no agent has reported for host cmp9", "host", "disable", "cmp9")
}

const drainSpec = `[pci]
report_in_placement = true
device_spec = {"vendor_id": "8086", "product_id": "1515", "resource_class": "CUSTOM_VF"}
`

// run runs a client command on the fleet; see expect.
func (f *fleet) run(status int, want string, args ...string) string {
	f.t.Helper()
	return expect(f.t, status, want, f.args(args...)...)
}

// The openstack client disables and enables the service of a host.
func TestOpenStackComputeServiceSet(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	d := up(t, conf(t, machine(t, 1, 1)), t.TempDir())
	eventually(t, "the agent has reported", func() (bool, error) {
		list, err := d.hosts().Hosts(t.Context())
		return len(list) == 1, err
	})
	for _, version := range []string{"2.1", "2.53"} {
		openstack := func(args ...string) string {
			t.Helper()
			base := []string{"--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint",
				d.urls["compute"] + "/v2.1", "--os-compute-api-version", version, "compute", "service"}
			out, err := openstackclient.Command(t, append(base, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("openstack %v: %v\n%s", args, err, out)
			}
			return string(out)
		}
		openstack("set", "--disable", "--disable-reason", "new fans", "cmp1", "nova-compute")
		if out := openstack("list", "--long"); !strings.Contains(out, "disabled") || !strings.Contains(out, "new fans") {
			t.Errorf("%s: not disabled: %s", version, out)
		}
		openstack("set", "--enable", "cmp1", "nova-compute")
		if out := openstack("list", "--long"); strings.Contains(out, "disabled") {
			t.Errorf("%s: not enabled: %s", version, out)
		}
	}
	d.stop(t)
}
