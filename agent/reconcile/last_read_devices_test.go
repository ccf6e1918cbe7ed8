package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/reconcile/sync"
	"github.com/openberth/berth/pci"
)

// A NIC keeps the MAC address that was read last while it has no network interface, because a guest has it; another
// device in its slot does not, and neither does a NIC that now has an interface.
func TestNICKeepsItsAddress(t *testing.T) {
	nic := pci.Device{Vendor: "8086", Product: "1528", Type: pci.Physical, PFMAC: "52:54:00:12:34:56"}
	for name, test := range map[string]struct {
		change func(*pci.Device)
		want   string
	}{
		"a guest has it":       {func(d *pci.Device) { d.Driver = "vfio-pci" }, nic.PFMAC},
		"another device":       {func(d *pci.Device) { d.Product = "1529" }, ""},
		"with its interface":   {func(d *pci.Device) { d.Net = []string{"ens1"} }, ""},
		"with another address": {func(d *pci.Device) { d.PFMAC = "52:54:00:00:00:01" }, "52:54:00:00:00:01"},
	} {
		now := nic
		now.PFMAC = ""
		test.change(&now)
		got := sync.WithLastRead(facts.Facts{Devices: []pci.Device{now}}, []pci.Device{nic})
		if got.Devices[0].PFMAC != test.want {
			t.Errorf("%s: %q, want %q", name, got.Devices[0].PFMAC, test.want)
		}
	}
}
