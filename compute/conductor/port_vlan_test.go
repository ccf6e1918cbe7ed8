package conductor

import (
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
)

// TestVLANOfAPort reads vif_details of Berth's network service and of Neutron: only the former says that a bridge of
// Open vSwitch adds the VLAN.
func TestVLANOfAPort(t *testing.T) {
	for _, c := range []struct {
		vif, vnic string
		vlan      any
		want      int
	}{
		{"ovs", "normal", "100", 100},
		{"ovs", "normal", "0", lifecycle.Untagged},
		{"ovs", "normal", nil, 0},
		{"ovs", "direct", "100", 0},
		{"hw_veb", "direct", "100", 100},
		{"hw_veb", "direct", "0", 0},
		{"hostdev_physical", "direct-physical", "100", 0},
	} {
		details := map[string]any{"bridge_name": "br-ex"}
		if c.vlan != nil {
			details["vlan"] = c.vlan
		}
		got := scheduler.WithDetails(lifecycle.Port{VLAN: 7}, network.Port{
			ActiveBinding: network.ActiveBinding{VIF: c.vif, VNIC: c.vnic, VIFDetails: details}})
		if got.VLAN != c.want || got.Bridge != "br-ex" {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
