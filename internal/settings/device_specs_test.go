package settings

import (
	"strings"
	"testing"
)

// Every occurrence of device_spec is read, in the order of the file, lists included. Occurrences under a deprecated
// name come first, as in oslo.config.
func TestEveryDeviceSpecIsRead(t *testing.T) {
	s, warned, err := readText(t, `[api]
auth_strategy = noauth2
[pci]
device_spec = {"vendor_id":"0001"}
device_spec = [{"vendor_id":"0002"},
  {"vendor_id":"0003"}]
passthrough_whitelist = {"vendor_id":"0004"}
`)
	var got []string
	for _, r := range s.Rules {
		got = append(got, r.Vendor)
	}
	if strings.Join(got, " ") != "0004 0001 0002 0003" || err != nil || !strings.Contains(warned,
		"passthrough_whitelist") {
		t.Errorf("%v %v %s", got, err, warned)
	}
}

// Devices for ports are reported only together with the others.
func TestReportNetworkDevicesNeedsReportInPlacement(t *testing.T) {
	const conf = "[api]\nauth_strategy = noauth2\n[berth]\nreport_network_devices = true\n"
	if _, _, err := readText(t, conf); err == nil || !strings.Contains(err.Error(), "[pci] report_in_placement = true") {
		t.Errorf("%v", err)
	}
	if s, _, err := readText(t, conf+"[pci]\nreport_in_placement = true\n"); err != nil || !s.ReportNetwork {
		t.Errorf("%v %v", s.ReportNetwork, err)
	}
}
