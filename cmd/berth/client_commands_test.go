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
	try("ACTIVE", "server", "list")
	try("device", "server", "show", "s")
	try("CUSTOM_VF:1", "server", "why", "s")
	try("8086:1515", "device", "list")
	try("cmp1", "host", "list")
	try("allocated", "device", "list", "--state", "allocated")
	try("cmp1_0000:10:00.0", "provider", "list")
	try("CUSTOM_VF 1/2", "provider", "tree")
	try("├─", "provider", "tree", "cmp1_0000:11:00.0")
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
	if _, _, status := output(t, append([]string{"server", "delete", "s", "--wait"}, urls...)...); status != 0 {
		t.Error("server delete failed")
	}
	d.stop(t)
}
