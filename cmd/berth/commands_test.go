package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

func TestMistypedCommandIsAnError(t *testing.T) {
	for _, args := range [][]string{{"provider", "lst"}, {"devise"}, {"server", "create"}, {"device", "list", "--colour"},
		{"device", "list", "-o", "xml"}} {
		stdout, stderr, status := output(t, args...)
		if status == 0 || stderr == "" || strings.Contains(stdout, "panic") {
			t.Errorf("berth %v: status %d, stderr %q", args, status, stderr)
		}
	}
	if _, stderr, _ := output(t, "provider", "lst"); !strings.Contains(stderr, "list") {
		t.Errorf("no suggestion: %s", stderr)
	}
}

func TestUnreachableService(t *testing.T) {
	_, stderr, status := output(t, "device", "list", "--compute-url", "http://127.0.0.1:1")
	if status != 1 || !strings.Contains(stderr, "http://127.0.0.1:1 does not answer") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// A wrong option stops the start with file, line, option and value. Nothing is written.
func TestWrongConfigurationStopsTheStart(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"device_spec is not JSON": {"[pci]\nreport_in_placement = true\ndevice_spec = {'vendor_id': '8086'}\n",
			`:3: [pci] device_spec = {'vendor_id': '8086'}: `},
		"device_spec with a wrong number": {"[pci]\ndevice_spec = {\"vendor_id\": \"8o86\"}\n", `8o86`},
		"device_spec with an unknown key": {"[pci]\ndevice_spec = {\"vendorid\": \"8086\"}\n", `vendor_id`},
		"not a boolean": {"[pci]\nreport_in_placement = maybe\n",
			`:2: [pci] report_in_placement = maybe: `},
		"incomplete alias": {"[pci]\nalias = {\"name\": \"a\"}\n", `:2: [pci] alias`},
		"contradicting aliases": {"[pci]\nalias = {\"name\": \"a\", \"resource_class\": \"X\"}\nalias = {\"name\": \"a\", " +
			"\"resource_class\": \"Y\"}\n[filter_scheduler]\npci_in_placement = true\n", `:3: [pci] alias`},
		"unknown authentication": {"[api]\nauth_strategy = none\n", `:2: [api] auth_strategy = none: `},
		"Keystone":               {"[api]\nauth_strategy = keystone\n", `auth_strategy = noauth2`},
		"no section":             {"report_in_placement true\n[pci]\n", `:1`},
		"database without a scheme": {"[placement_database]\nconnection = placement.db\n",
			`:2: [placement_database] connection`},
		"unknown database scheme": {"[database]\nconnection = foo://u:secret@h/d\n",
			`:2: [database] connection = foo://u:***@h/d: `},
		"sysfs is not a sysfs": {"[berth]\nsysfs = /etc\n", `not shaped like /sys`},
		"invalid host": {"[DEFAULT]\nhost = ../../etc\n",
			`:2: [DEFAULT] host = ../../etc: "../../etc" is not a valid host name`},
		"host of dots":         {"[DEFAULT]\nhost = ..\n", `:2: [DEFAULT] host = ..: ".." is not a valid host name`},
		"long host":            {"[DEFAULT]\nhost = " + strings.Repeat("x", 156) + "\n", `at most 155 are allowed`},
		"sysfs does not exist": {"[berth]\nsysfs = /nowhere\n", `:2: [berth] sysfs = /nowhere: `},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, data := filepath.Join(dir, "berth.conf"), filepath.Join(dir, "data")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			// With these, the start does not look for a policy in /etc/placement, which only root may be able to read.
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "policy.d"), 0o700),
				os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("{}\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, status := output(t, "up", "--config-file", path, "--data-dir", data, "--listen-placement",
				"127.0.0.1:0", "--listen-compute", "127.0.0.1:0")
			if status != 1 || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("status %d, want %q in:\n%s%s", status, c.want, stdout, stderr)
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("the data directory was created")
			}
		})
	}
}

func TestNoAuthListensOnLoopbackOnly(t *testing.T) {
	dir := t.TempDir()
	path := conf(t, machine(t, 1, 1))
	for _, args := range [][]string{
		{"placement", "--config-file", path, "--data-dir", dir, "--listen", "0.0.0.0:0"},
		{"compute", "--config-file", path, "--data-dir", dir, "--listen", "[::]:0"},
		{"up", "--config-file", path, "--data-dir", dir, "--listen-placement", ":0"},
	} {
		_, stderr, status := output(t, args...)
		if status != 1 || !strings.Contains(stderr, "not a loopback address") {
			t.Errorf("berth %v: status %d: %s", args, status, stderr)
		}
	}
}

// The tour succeeds on a captured machine and on this machine.
func TestDemo(t *testing.T) {
	testenv.Long(t)
	for _, args := range [][]string{{"demo"}, {"demo", "--sysfs", machine(t, 2, 3)}} {
		stdout, stderr, status := output(t, args...)
		if status != 0 {
			t.Fatalf("berth %v: status %d\n%s%s", args, status, stdout, stderr)
		}
		for _, want := range []string{"COMPUTE_MANAGED_PCI_DEVICE", "first", "A race", "its plan: ",
			"usages in Placement are 0", "Every step of the tour succeeded"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("berth %v does not print %q:\n%s", args, want, stdout)
			}
		}
	}
	if _, stderr, status := output(t, "demo", "--sysfs", machine(t, 1, 0)); status != 1 || !strings.Contains(stderr,
		"fewer than 2") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// On a machine without devices the tour uses a captured one and prints that.
func TestDemoOnAMachineWithoutDevices(t *testing.T) {
	var out strings.Builder
	sample, list, err := devices(&out, machine(t, 1, 0), true)
	if err != nil || !sample || len(list) < 10 || !strings.Contains(out.String(),
		"CAPTURED machine instead, not this one") {
		t.Errorf("%v %v %d devices: %s", sample, err, len(list), out.String())
	}
}

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

// Separate processes of placement, compute and agent form a cloud. The agent's plan changes nothing.
func TestSeparateServices(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 2), "[placement_database]",
		"connection = sqlite:////"+strings.TrimPrefix(t.TempDir(), "/")+"/placement.db"), t.TempDir()
	p := start(t, []string{"placement"}, "placement", "--config-file", path, "--listen", "127.0.0.1:0")
	c := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--placement-url", p.urls["placement"])
	agent := []string{"--config-file", path, "--data-dir", dir, "--placement-url", p.urls["placement"], "--compute-url",
		c.urls["compute"]}
	stdout, stderr, status := output(t, append([]string{"agent", "plan"}, agent...)...)
	if status != 0 || !strings.Contains(stdout, "cmp1_0000:10:00.0") {
		t.Fatalf("plan: status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, _, _ := output(t, "provider", "list", "--placement-url", p.urls["placement"], "-o",
		"json"); strings.TrimSpace(stdout) != "[]" {
		t.Errorf("a dry run changed providers: %s", stdout)
	}
	a := start(t, nil, append([]string{"agent"}, agent...)...)
	cc := c.compute()
	eventually(t, "the agent has reported", func() (bool, error) {
		list, err := c.hosts().Devices(t.Context())
		return len(list) == 2, err
	})
	f, err := cc.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := cc.SetExtraSpecs(t.Context(), f.ID, map[string]string{"pci_passthrough:alias": "vf:2"}); err != nil {
		t.Fatal(err)
	}
	made, err := cc.CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: f.ID})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is ACTIVE", func() (bool, error) {
		s, err := cc.Server(t.Context(), made.ID)
		return s.Status == "ACTIVE", err
	})
	stdout, stderr, status = output(t, append([]string{"agent", "plan"}, agent...)...)
	if status != 0 || !strings.Contains(stdout, "nothing to do") {
		t.Errorf("the plan while an agent runs: status %d\n%s%s", status, stdout, stderr)
	}
	for _, one := range []*daemon{a, c, p} {
		one.stop(t)
	}
}

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
