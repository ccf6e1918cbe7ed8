package portrequest

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

func TestParsePort(t *testing.T) {
	got, err := ParsePort("vnic_type=direct, physical_network=a,physical_network=b,egress=10,ingress=20", 3)
	want := []Group{{ID: "bandwidth-3", Required: [][]resource.Trait{{"CUSTOM_PHYSNET_A", "CUSTOM_PHYSNET_B"},
		{"CUSTOM_VNIC_TYPE_DIRECT"}},
		Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 10, "NET_BW_IGR_KILOBIT_PER_SEC": 20}}}
	if err != nil || got.VNICType != "direct" || !reflect.DeepEqual(got.Groups, want) ||
		!reflect.DeepEqual(got.PhysicalNetworks, []string{"a", "b"}) {
		t.Errorf("%+v %v", got, err)
	}
	other, err := ParsePort("egress=1", 4)
	if err != nil || other.VNICType != "normal" || other.ID == got.ID ||
		other.Groups[0].Required[0][0] != "CUSTOM_NETWORK_TUNNEL_PROVIDER" {
		t.Errorf("%+v %v", other, err)
	}
	for _, text := range []string{"", "egress", "egress=-1", "egress=fast", "speed=1", "egress=4294967296"} {
		if _, err := ParsePort(text, 0); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
