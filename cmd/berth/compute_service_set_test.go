package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

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
	testenv.Until(t, "the agent has reported", func() (bool, error) {
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
