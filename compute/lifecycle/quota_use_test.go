package lifecycle

import (
	"maps"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// TestQuotaUse follows a server through its states: what it counts changes with them.
func TestQuotaUse(t *testing.T) {
	const egress resource.Class = "NET_BW_EGR_KILOBIT_PER_SEC"
	groups := func(amounts resource.Amounts) []resource.Group { return []resource.Group{{Resources: amounts}} }
	small := flavor.Flavor{ID: "small", VCPUs: 2, MemoryMB: 512}
	s := Server{ID: "s", State: Preparing, Flavor: small,
		RequestedAmounts: resource.Amounts{"VCPU": 2, "CUSTOM_FPGA": 1},
		Networks:         []NetworkRequest{{Port: "p"}, {Network: "n"}},
		PortAmounts:      map[string]resource.Amounts{"p": {egress: 10}, "old": {egress: 1000}}}
	check := func(what string, s Server, want quota.Amounts) {
		t.Helper()
		if got := s.QuotaUse(); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	all := quota.Amounts{"instances": 1, "cores": 2, "ram": 512, "class:VCPU": 2, "class:CUSTOM_FPGA": 1,
		"class:" + string(egress): 10}
	check("before its request is prepared", s, all)
	s.State, s.Ask = Active, resource.Ask{Groups: groups(resource.Amounts{"VCPU": 2, "CUSTOM_FPGA": 1})}
	s.Ports = []Port{{ID: "p", Groups: groups(resource.Amounts{egress: 10})}, {ID: "created"}}
	check("with its ports", s, all)

	claimed := s
	claimed.Choices = []schedule.Choice{{Host: "h", Allocation: resource.Allocation{"root": {"VCPU": 2},
		"card": {"CUSTOM_FPGA": 8}, "nic": {egress: 99}, "vf": {"SRIOV_NET_VF": 1}}}}
	has := all.With(quota.Amounts{"class:CUSTOM_FPGA": 8, "class:SRIOV_NET_VF": 1})
	check("as it is allocated", claimed, has)
	claimed.State = Claiming
	check("while it is being claimed", claimed, has)
	claimed.State = Scheduling
	check("before it is claimed", claimed, all)
	claimed.State, claimed.Host = Moving, "h"
	claimed.Move = &Move{Kind: Migrating, Phase: Planning, From: claimed.ownResidence()}
	claimed.Choices = nil
	check("while it leaves its host", claimed, has)

	attach := PortAttachRequested{ID: "a", Request: NetworkRequest{Port: "q"}, Amounts: resource.Amounts{egress: 5}}
	s.PortChange = &PortChange{ID: "b", Request: NetworkRequest{Port: "r"}}
	s.PortAmounts = map[string]resource.Amounts{"p": {egress: 10}, "r": {egress: 7}}
	s.Networks = append(s.Networks, s.PortChange.Request)
	queued, _ := Next(s, attach, noon)
	check("with ports that are attached", queued, all.With(quota.Amounts{"class:" + string(egress): 22}))
	if len(queued.PortAmounts) != 2 {
		t.Errorf("amounts of ports that nothing requests are kept: %v", queued.PortAmounts)
	}
	s.PortChange, s.PortAmounts = nil, nil

	moved := s
	moved.State, moved.Flavor = Moving, flavor.Flavor{ID: "other", VCPUs: 1, MemoryMB: 1024}
	moved.Move = &Move{Kind: Resizing, Phase: PreparingMove, From: s.ownResidence()}
	moved.Ask, moved.RequestedAmounts = resource.Ask{}, resource.Amounts{"VCPU": 1, "VGPU": 3}
	check("during a resize", moved, all.With(quota.Amounts{"ram": 1024, "class:VGPU": 3}))

	counted := quota.Amounts{"instances": 1, "cores": 2, "ram": 512}
	for _, state := range []State{Shelved, Error} {
		s.State = state
		check(string(state), s, counted)
	}
	s.State, s.Ended = DeletingGuest, noon
	check("shown as deleted", s, nil)
}
