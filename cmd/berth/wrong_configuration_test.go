package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong option stops the start with file, line, option and value. Nothing is written.
func TestWrongConfigurationStopsTheStart(t *testing.T) {
	t.Parallel()
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
		"incomplete Keystone":    {"[api]\nauth_strategy = keystone\n", `[keystone_authtoken] auth_type is missing`},
		"no user file": {"[DEFAULT]\nhttp_basic_auth_user_file = /nowhere\n[api]\nauth_strategy = http_basic\n",
			`[DEFAULT] http_basic_auth_user_file = /nowhere`},
		"no section": {"report_in_placement true\n[pci]\n", `:1`},
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
				"127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image",
				"127.0.0.1:0")
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
	t.Parallel()
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
