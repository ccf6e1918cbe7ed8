package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Debian's openstack client works with a running placement.
func TestOpenStackClient(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	client, err := exec.LookPath("openstack")
	if err != nil {
		t.Fatal("the openstack client is not installed: run `make tools`")
	}
	d := up(t, conf(t, machine(t, 1, 4)), t.TempDir())
	openstack := func(args ...string) string {
		t.Helper()
		base := []string{"--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", d.urls["placement"]}
		cmd := exec.Command(client, append(base, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("openstack %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var list []struct{ UUID, Name string }
	if err := json.Unmarshal([]byte(openstack("resource", "provider", "list", "-f", "json")), &list); err != nil {
		t.Fatal(err)
	}
	pf := ""
	for _, p := range list {
		if p.Name == "cmp1_0000:10:00.0" {
			pf = p.UUID
		}
	}
	if pf == "" {
		t.Fatalf("the PF's provider is not listed: %v", list)
	}
	for want, args := range map[string][]string{
		"CUSTOM_VF":                  {"resource", "provider", "inventory", "list", pf},
		"usage":                      {"resource", "provider", "usage", "show", pf},
		"COMPUTE_MANAGED_PCI_DEVICE": {"--os-placement-api-version", "1.6", "resource", "provider", "trait", "list", pf},
		pf: {"--os-placement-api-version", "1.29", "allocation", "candidate", "list", "--resource",
			"CUSTOM_VF=2"},
	} {
		if out := openstack(args...); !strings.Contains(out, want) {
			t.Errorf("openstack %v does not show %q:\n%s", args, want, out)
		}
	}
	d.stop(t)
}
