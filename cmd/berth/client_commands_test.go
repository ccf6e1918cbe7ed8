package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Every client command works on a running cloud and prints a table or JSON.
func TestClientCommands(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	d := up(t, conf(t, machine(t, 2, 2)), t.TempDir())
	urls := []string{"--placement-url", d.urls["placement"], "--compute-url", d.urls["compute"]}
	try := func(want string, args ...string) string {
		t.Helper()
		stdout, stderr, status := output(t, append(args, urls...)...)
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("berth %v: status %d, want %q in\n%s%s", args, status, want, stdout, stderr)
		}
		asJSON, stderr, status := output(t, append(append(args, "-o", "json"), urls...)...)
		if args[0] != "server" || args[1] != "create" {
			if status != 0 || !json.Valid([]byte(asJSON)) {
				t.Errorf("berth %v -o json: status %d %s %s", args, status, asJSON, stderr)
			}
		}
		return stdout
	}
	stdout, stderr, status := output(t, append([]string{"flavor", "create", "f", "--ram", "64", "--property",
		"pci_passthrough:alias=vf:1"}, urls...)...)
	if status != 0 || !strings.Contains(stdout, "pci_passthrough:alias=vf:1") {
		t.Fatalf("%s%s", stdout, stderr)
	}
	try("pci_passthrough:alias=vf:1", "flavor", "list")
	if _, stderr, status := output(t, append([]string{"server", "create", "s", "--flavor", "f", "--wait"},
		urls...)...); status != 0 {
		t.Fatal(stderr)
	}
	id := try("ACTIVE", "server", "list", "-o", "json")
	id, _, _ = strings.Cut(id[strings.Index(id, `"id": "`)+len(`"id": "`):], `"`)
	try("cmp1  f       0000:1", "server", "list")
	try("allocated  s       -\n", "device", "list")
	try("allocated  "+id, "device", "list", "--long")
	try(id, "device", "list", "-o", "json")
	try("alias vf: devices 0000:1", "server", "why", "s")
	try(" cmp1  cmp1\n", "provider", "list")
	try("root_provider_uuid", "provider", "list", "-o", "json")
	try("1  cmp1_0000:1", "candidates", "resources1=CUSTOM_VF:2")
	if shown := try("", "provider", "show", "cmp1_0000:10:00.0") + try("", "provider", "show",
		"cmp1_0000:11:00.0"); !strings.Contains(shown, "held by s ("+id+")") {
		t.Errorf("no provider is held by s: %s", shown)
	}
	if own := try("ID", "server", "list", "--token", "ann:p1"); strings.Contains(own, id) {
		t.Errorf("a user lists the server of another project: %s", own)
	}
	if _, stderr, status := output(t, append([]string{"server", "list", "--all", "--token", "ann:p1"},
		urls...)...); status != 1 || !strings.Contains(stderr, "needs the role admin") {
		t.Errorf("server list --all of a user: status %d %s", status, stderr)
	}
	try("device", "server", "show", "s")
	try("CUSTOM_VF:1", "server", "why", "s")
	try("8086:1515", "device", "list")
	try("cmp1", "host", "list")
	try("allocated", "device", "list", "--state", "allocated")
	try("cmp1_0000:10:00.0", "provider", "list")
	try("CUSTOM_VF 1/2", "tree")
	try("├─", "tree", "cmp1_0000:11:00.0")
	try("inventory CUSTOM_VF", "provider", "show", "cmp1_0000:10:00.0")
	try("CUSTOM_VF:2", "candidates", "resources1=CUSTOM_VF:2")
	try("CUSTOM_VF", "candidates", "resources=CUSTOM_VF:4&limit=2", "--explain")
	if stdout, _, _ := output(t, append([]string{"candidates", "resources1=CUSTOM_VF:9"}, urls...)...); !strings.HasPrefix(
		stdout, "no candidates: ") {
		t.Errorf("%s", stdout)
	}
	if _, stderr, status := output(t, append([]string{"flavor", "create", "g", "--property",
		"pci_passthrough:alias=nope:1"}, urls...)...); status != 1 || !strings.Contains(stderr, "nope") {
		t.Errorf("status %d %s", status, stderr)
	}
	try("server s", "host", "show", "cmp1")
	try("device 0000:10:00.1", "host", "show", "cmp1")
	try("property pci_passthrough:alias  vf:1", "flavor", "show", "f")
	try("small", "flavor", "set", "f", "--description", "small", "--property", "hw:cpu_policy=shared")
	if shown := try("hw:cpu_policy", "flavor", "show", "f"); !strings.Contains(shown, "small") {
		t.Errorf("no description: %s", shown)
	}
	if out, stderr, status := output(t, append([]string{"flavor", "set", "f", "--unset", "hw:cpu_policy",
		"--description", ""}, urls...)...); status != 0 || strings.Contains(out, "hw:cpu_policy") ||
		strings.Contains(out, "small") {
		t.Errorf("flavor set --unset: status %d %s%s", status, out, stderr)
	}
	out, stderr, status := output(t, append([]string{"server", "delete", "s", "--wait", "-o", "json"}, urls...)...)
	if status != 0 || !strings.Contains(out, `"result": "deleted"`) || !json.Valid([]byte(out)) {
		t.Errorf("server delete: status %d %s%s", status, out, stderr)
	}
	out, stderr, status = output(t, append([]string{"flavor", "delete", "nope", "f", "-o", "json"}, urls...)...)
	if status != 1 || !strings.Contains(out, `"result": "deleted"`) || !json.Valid([]byte(out)) ||
		!strings.Contains(stderr, "failed for 1 of 2 flavors") {
		t.Errorf("flavor delete: status %d %s%s", status, out, stderr)
	}
	out, stderr, status = output(t, append([]string{"host", "down", "cmp1", "--force", "-o", "json"}, urls...)...)
	if status != 0 || !strings.Contains(out, `"result": "down"`) || !json.Valid([]byte(out)) {
		t.Errorf("host down: status %d %s%s", status, out, stderr)
	}
	d.stop(t)
}
