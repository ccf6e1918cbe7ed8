package fleet

import (
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/resource"
)

// The request of a server has its flavor, the devices of known aliases and the guarantees of its ports.
func TestRequestOfAServer(t *testing.T) {
	s := &Server{FromVolume: true, Flavor: Flavor{VCPUs: 2, MemoryMB: 512, DiskGB: 9,
		ExtraSpecs: map[string]string{"pci_passthrough:alias": "gpu:2"}}}
	ports := []PortRequest{{ID: "p", VNICType: "normal", Groups: []PortGroup{{ID: "g",
		Required: [][]resource.Trait{RequiredTraits("CUSTOM_A")}, Resources: resource.Amounts{
			bandwidth.EgressBandwidth: 5}}}}}
	ask, left, err := s.Request(ports, options(t).Aliases, true)
	if got := ask.Total().String(); err != nil || left != "" ||
		got != (resource.Amounts{"VCPU": 2, "MEMORY_MB": 512, "CUSTOM_GPU": 2, bandwidth.EgressBandwidth: 5}).String() {
		t.Errorf("%v %s %s", err, left, got)
	}
	if ask, left, err = s.Request(nil, nil, false); err != nil || left == "" || ask.Total()["CUSTOM_GPU"] != 0 {
		t.Errorf("%v %q %v", err, left, ask)
	}
	if _, _, err = s.Request(nil, nil, true); err == nil {
		t.Error("an unknown alias is accepted")
	}
}
