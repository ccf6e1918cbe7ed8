package lifecycle

import (
	"fmt"
	"maps"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
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

// TestGuaranteesAreCounted follows the guarantee of a port: policies change it, and ports are attached and detached.
func TestGuaranteesAreCounted(t *testing.T) {
	const egress resource.Class = "NET_BW_EGR_KILOBIT_PER_SEC"
	rate := func(n int) resource.Amounts { return resource.Amounts{egress: n} }
	port := func(id string, revision, n int) Port {
		return Port{ID: id, Host: "h", Revision: revision, Groups: []resource.Group{{Suffix: id, Resources: rate(n)}}}
	}
	s := Server{ID: "s", State: Active, Host: "h", Flavor: flavor.Flavor{VCPUs: 1},
		Networks: []NetworkRequest{{Port: "p"}}, Ports: []Port{port("p", 3, 10)},
		Ask: resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}}}
	check := func(what string, s Server, want int) {
		t.Helper()
		if got := s.QuotaUse()["class:"+string(egress)]; got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	reserved := s.ReserveGuarantees("c", rate(5)).ReserveGuarantees("c", rate(500))
	check("a change is reserved once", reserved, 15)
	check("with another change", reserved.ReserveGuarantees("d", rate(7)), 22)
	ended := func(revision, n int) map[string]Guarantee {
		return map[string]Guarantee{"p": {revision, rate(n)}, "foreign": {9, rate(99)}}
	}
	changed := reserved.ReportGuarantees("c", ended(4, 15))
	check("the change has ended", changed, 15)
	check("a late report", changed.ReportGuarantees("c", ended(3, 10)), 15)
	check("it was refused", reserved.ReportGuarantees("c", ended(3, 10)), 10)
	check("the policy is smaller", changed.ReportGuarantees("e", ended(5, 2)), 2)
	read := changed
	read.Ports = []Port{port("p", 5, 30)}
	check("compute has read it later", read, 30)
	if next, _ := Next(read, PortDetachRequested{ID: "x", Port: "other"}, noon); next.Guarantees != nil {
		t.Errorf("kept: %v", next.Guarantees)
	}
	source := changed
	source.State, source.Ports = Moving, []Port{port("p", 6, 4)}
	source.Move = &Move{Kind: Resizing, Phase: Resized, From: Residence{Ports: s.Ports, Host: "h"}}
	check("at the source of a move", source, 15)

	detached, _ := Next(changed, PortDetachRequested{ID: "x", Port: "p"}, noon)
	check("until it is detached", detached, 15)
	if detached.PortChange == nil {
		t.Fatal("it is not being detached")
	}
	detached, _ = Next(detached, PortDetached{ID: "x"}, noon)
	check("detached", detached, 0)
	if detached.Guarantees != nil {
		t.Errorf("kept: %v", detached.Guarantees)
	}

	attach := PortAttachRequested{ID: "y", Request: NetworkRequest{Port: "q"}, Amounts: rate(20)}
	attached, _ := Next(s, attach, noon)
	check("requested", attached, 30)
	check("read before it is claimed", attached.WithPortToAttach("y", port("q", 1, 25)), 35)
	check("a late result", attached.WithPortToAttach("z", port("q", 1, 25)), 30)
	device := pci.Request{ID: "d", Port: &pci.PortNeeds{ID: "q"}, Requirement: pci.Requirement{Class: "SRIOV_NET_VF"}}
	claimed, _ := Next(attached.WithPortToAttach("y", port("q", 1, 25)), PortClaimed{ID: "y", Port: port("q", 1, 25),
		Device: device}, noon)
	check("claimed with its device", claimed, 35)
	if n := claimed.QuotaUse()["class:SRIOV_NET_VF"]; n != 1 {
		t.Errorf("%d devices", n)
	}
}

// TestChoicesBeyondQuota: a choice whose allocation exceeds a quota is lost, and the search ends after the last one.
func TestChoicesBeyondQuota(t *testing.T) {
	choice := func(host string, n int) schedule.Choice {
		return schedule.Choice{Host: host, Allocation: resource.Allocation{"card": {"CUSTOM_FPGA": n}}}
	}
	s := Server{ID: "s", State: Scheduling, Ask: resource.Ask{Groups: []resource.Group{{
		Resources: resource.Amounts{"CUSTOM_FPGA": 1}}}}}
	within := func(most int) Server {
		return s.WithQuota(func(claimed Server) error {
			if n := claimed.ClaimUse()["class:CUSTOM_FPGA"]; n > most {
				return fmt.Errorf("%d are too many", n)
			}
			return nil
		})
	}
	chosen := Chosen{Choices: []schedule.Choice{choice("h1", 8), choice("h2", 4)}, Candidates: 2}
	for most, want := range map[int]string{8: "h1", 4: "h2", 3: ""} {
		next, _ := Next(within(most), chosen, noon)
		if next.ClaimedHost() != want {
			t.Errorf("with %d: claimed on %q, want %q", most, next.ClaimedHost(), want)
		}
		if want == "" && (next.State != Error || next.Fault.Message != "No valid host was found: 4 are too many.") {
			t.Errorf("%s %+v", next.State, next.Fault)
		}
		if BeginsClaim(s, next) != (want != "") {
			t.Errorf("with %d: a claim begins: %t", most, want == "")
		}
	}
}
