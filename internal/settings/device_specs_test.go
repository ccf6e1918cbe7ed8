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
