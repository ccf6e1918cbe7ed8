package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/settings"
)

const sampleMachine = root + "/agent/sysfs/sample.txtar"

// writeConf writes a configuration file and returns its path.
func writeConf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nova.conf")
	text := strings.Join(lines, "\n") + "\n[DEFAULT]\ncompute_driver = fake.FakeDriver\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each finding is a sentence with its position. Errors lead to a failure, warnings do not.
func TestAgentCheck(t *testing.T) {
	t.Parallel()
	const functions = `device_spec = {"vendor_id":"1b36","product_id":"0010","address":{"bus":"11|21",` +
		`"function":"[1-4]"},"resource_class":"nvme","traits":"fast, small"}`
	for _, c := range []struct {
		name   string
		lines  []string
		status int
		want   []string
	}{
		{"a valid configuration", []string{"[DEFAULT]", "host = cmp1", "[pci]", "report_in_placement = true", functions}, 0,
			[]string{"0000:11:00.1", "cmp1_0000:11:00.0", "CUSTOM_NVME", "COMPUTE_MANAGED_PCI_DEVICE CUSTOM_FAST CUSTOM_SMALL " +
				"OWNER_NOVA", "21 devices in", "8 of them reported; 0 errors, 0 warnings",
				"is a bridge", "no entry of device_spec matches it"}},
		{"an empty configuration", nil, 0, []string{"device_spec is not set", "0 of them reported; 0 errors"}},
		{"devices that are not reported", []string{"[pci]", functions}, 0,
			[]string{"is offered, but [pci] report_in_placement is off",
				"0 of them reported"}},
		{"warnings", []string{"[pci]", "report_in_placement = true", functions, `device_spec = [{"vendor_id":"ffff"},`,
			` {"address":"0000:11:00.1","traits":"late"}]`,
			`passthrough_whitelist = {"address":"0000:00:1f.0"}`, "reprot = 1", "[libvirt]", "cpu_mode = none",
			"[workarounds]", "skip = 1"}, 0,
			[]string{"nova.conf:4, {\"vendor_id\": \"ffff\"} matches no device",
				"nova.conf:4, {\"address\": \"0000:11:00.1\", \"traits\": \"CUSTOM_LATE\"} is never reached",
				"nova.conf:6: [pci] passthrough_whitelist: deprecated name", "nothing but bridges",
				"nova.conf:7: [pci] reprot: Berth does not know", "2 options of other groups are ignored", "0 errors, 6 warnings"}},
		{"all errors at once", []string{"[pci]", "report_in_placement = true",
			`device_spec = {"vendor_id":"1b36","product_id":"0010"}`, `device_spec = {"vendor":"8086"}`,
			`device_spec = {"devname":"eth0"}`, `alias = {"name":"a"}`}, 1,
			[]string{"nova.conf:4: [pci] device_spec = ", `unknown key "vendor"`, "nova.conf:6: [pci] alias", "PF 0000:11:00.0",
				"PF 0000:21:00.0", `devname "eth0"`, "5 errors", "(errors: 5)",
				"cannot be reported as device_spec at"}},
		{"a devname and an address of wildcards", []string{"[pci]", `device_spec = {"vendor_id":"8086"}`,
			`device_spec = [{"vendor_id":"1b36"},`, ` {"devname":"eth0","address":"*:*:*.*"}]`}, 1,
			[]string{"nova.conf:3: [pci] device_spec = ", `device_spec, entry 2 of 2 has devname "eth0" beside ` +
				`address "*:*:*.*"; keep one of them`, "1 errors"}},
		{"one_time_use without reporting",
			[]string{"[pci]", `device_spec = {"address":"0000:22:00.0","one_time_use":true}`}, 1,
			[]string{"nova.conf:2", "needs [pci] report_in_placement"}},
		{"a sysfs that does not exist", []string{"[berth]", "sysfs = /nowhere"}, 1, []string{"nova.conf:2", "/nowhere"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			path := writeConf(t, c.lines...)
			if status := run([]string{"agent", "check", "--config-file", path, "--sysfs", sampleMachine}, &out,
				&out); status != c.status {
				t.Errorf("status %d", status)
			}
			for _, word := range c.want {
				if !strings.Contains(out.String(), word) {
					t.Errorf("no %q in the output:\n%s", word, &out)
				}
			}
		})
	}
}

// The JSON output has the same content, also if the configuration is wrong.
func TestAgentCheckJSON(t *testing.T) {
	t.Parallel()
	var out, errors bytes.Buffer
	path := writeConf(t, "[DEFAULT]", "host = cmp1", "[pci]", "report_in_placement = true",
		`device_spec = {"address":"0000:22:00.0","traits":"a"}`, `device_spec = {"devname":"x"}`)
	if status := run([]string{"agent", "check", "-o", "json", "--config-file", path, "--sysfs", sampleMachine}, &out,
		&errors); status != 1 {
		t.Errorf("status %d", status)
	}
	var c settings.CheckReport
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	d := c.Devices[len(c.Devices)-1]
	if c.Host != "cmp1" || !c.Report || c.Errors() != 1 || len(c.Devices) != 21 || !d.Reported ||
		d.Provider != "cmp1_0000:22:00.0" || d.ResourceClass != "CUSTOM_PCI_8086_10D3" ||
		strings.Join(d.Traits, " ") != "COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A OWNER_NOVA" || !strings.Contains(d.Entry,
		"nova.conf:5") {
		t.Errorf("%s", &out)
	}
	if !strings.Contains(errors.String(), "would not start") {
		t.Errorf("%s", &errors)
	}
}

// Unreadable devices and remote-managed cards lead to warnings; the other devices are reported.
func TestAgentCheckOddMachines(t *testing.T) {
	t.Parallel()
	remote := filepath.Join(t.TempDir(), "remote.txtar")
	card := ""
	for _, d := range []struct{ at, product, more string }{
		{"0000:81:00.0", "0xa2d6", "-- bus/pci/devices/0000:81:00.0/sriov_totalvfs --\n4\n-- " +
			"bus/pci/devices/0000:81:00.0/sriov_vf_device --\n101e\n"},
		{"0000:81:00.1", "0x101e", "-- bus/pci/devices/0000:81:00.1/physfn -> ../0000:81:00.0 --\n-- " +
			"bus/pci/devices/0000:81:00.1/vpd.SN --\n0\n"},
		{"0000:81:00.2", "0x101e", "-- bus/pci/devices/0000:81:00.2/physfn -> ../0000:81:00.0 --\n"},
	} {
		dir := "-- bus/pci/devices/" + d.at
		card += dir + "/vendor --\n0x15b3\n" + dir + "/device --\n" + d.product + "\n" + dir + "/class --\n0x020000\n" +
			d.more
	}
	if err := os.WriteFile(remote, []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, machine, rule string
		status              int
		want                []string
	}{
		{"domains of five digits and unreadable devices", root + "/agent/sysfs/testdata/odd_host.txtar",
			`{"vendor_id":"8086","product_id":"0b60"}`, 0,
			[]string{"cmp1_10000:E1:00.0  CUSTOM_PCI_8086_0B60", `warning: 0000:02:00.0: vendor "garbage" is not a ` +
				`number such as 0x8086, so the device is unreadable`, "0000:07:00.0: vanished while it was read",
				"warning: 0000:01:00.0: numa_node is missing: the node is taken as unknown; ",
				"warning: node0: meminfo is missing: the node is taken as one without memory",
				"1 of them reported; 0 errors, 11 warnings"}},
		{"remote_managed without a serial number", remote,
			`{"address":"0000:81:00.0","product_id":"101e","remote_managed":true,"physical_network":null}`, 0,
			[]string{"is for ports of tunnelled networks", "has remote_managed, but the card has no readable serial number",
				"0000:81:00.0: the MAC address of this PF is unknown, so no port gets its VFs with remote_managed",
				"0 errors, 1 warnings"}},
		{"remote_managed for a PF", remote, `{"address":"0000:81:00.0","remote_managed":true}`, 1,
			[]string{`error: device_spec at `, `product_id "101e"`, "1 errors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			path := writeConf(t, "[DEFAULT]", "host = cmp1", "[pci]", "report_in_placement = true", "device_spec = "+c.rule)
			if status := run([]string{"agent", "check", "--config-file", path, "--sysfs", c.machine}, &out,
				&out); status != c.status {
				t.Errorf("status %d", status)
			}
			for _, word := range c.want {
				if !strings.Contains(out.String(), word) {
					t.Errorf("no %q in the output:\n%s", word, &out)
				}
			}
		})
	}
}
