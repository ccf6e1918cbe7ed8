package treeplan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const bandwidthRoot provider.ID = "00000000-0000-4000-8000-000000000001"

// nicAgent returns an SR-IOV agent with a device for each rate; egress and ingress are equal.
func nicAgent(rates map[string]int) bandwidth.Agent {
	a := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: "cmp1", VNICTypes: []string{"direct"},
		Bandwidths: map[string]bandwidth.Rates{}}
	for device, n := range rates {
		a.Mappings = append(a.Mappings, bandwidth.Mapping{Physnet: "physnet0", Device: device})
		rate := bandwidth.Rate{Amount: n, Set: true}
		a.Bandwidths[device] = bandwidth.Rates{Egress: rate, Ingress: rate}
	}
	return a
}

// bandwidthAim returns the desired providers of agents below the root cmp1, of which all are owned.
func bandwidthAim(agents ...bandwidth.Agent) Bandwidth {
	aim := Bandwidth{Owns: func(provider.Provider, bandwidth.Name) bool { return true }}
	for _, a := range agents {
		for _, d := range a.Providers() {
			if d.Provider.Parent == "" {
				d.Provider.Parent = bandwidthRoot
			}
			aim.Providers = append(aim.Providers, d)
		}
	}
	return aim
}

// hostTree returns a tree of a root with VCPU and one PCI device.
func hostTree() provider.Tree {
	return provider.Tree{Providers: []provider.Provider{
		{ID: bandwidthRoot, Name: "cmp1", Root: bandwidthRoot, Generation: 3,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}},
		{ID: "00000000-0000-4000-8000-000000000002", Name: "cmp1_0000:81:00.0", Parent: bandwidthRoot, Root: bandwidthRoot,
			Traits:      []resource.Trait{Managed},
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(1)}},
	}}
}

// nicID returns the ID of the provider of a device; with an empty one, of the agent.
func nicID(device string) provider.ID {
	return bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.NICSwitch, Device: device}.ID()
}

// reported returns the host's tree with the bandwidth of devices.
func reported(t *testing.T, rates map[string]int) provider.Tree {
	t.Helper()
	plan := MakeBandwidth(bandwidthAim(nicAgent(rates)), hostTree(), Uses{}, nil)
	if len(plan.Objections) > 0 {
		t.Fatal(plan.Objections)
	}
	return Apply(plan, hostTree())
}

// text returns the steps and the objections of a plan, one a line.
func text(p Plan) string {
	var lines []string
	for _, s := range p.Steps {
		lines = append(lines, fmt.Sprintf("%s %s %s", s.Op, s.Name, s.Change))
	}
	for _, o := range p.Objections {
		lines = append(lines, "cannot "+o.Text)
	}
	for _, n := range p.Notes {
		lines = append(lines, "note "+n)
	}
	return strings.Join(lines, "\n")
}

// change returns a tree with a changed provider.
func change(tree provider.Tree, id provider.ID, to func(*provider.Provider)) provider.Tree {
	list := slices.Clone(tree.Providers)
	for i := range list {
		if list[i].ID == id {
			list[i].Inventories = maps.Clone(list[i].Inventories)
			to(&list[i])
		}
	}
	return provider.Tree{Providers: list}
}

// checkBandwidth compares the plan for an agent with the expected lines, and checks the plan.
func checkBandwidth(t *testing.T, aim Bandwidth, tree provider.Tree, uses Uses, want ...string) Plan {
	t.Helper()
	plan := MakeBandwidth(aim, tree, uses, nil)
	if got := text(plan); got != strings.Join(want, "\n") {
		t.Errorf("\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if wrong := CheckBandwidth(plan, tree, uses); len(wrong) > 0 {
		t.Error(wrong)
	}
	return plan
}

func TestBandwidthIsReportedOnce(t *testing.T) {
	aim := bandwidthAim(nicAgent(map[string]int{"ens1f0": 1000}))
	plan := checkBandwidth(t, aim, hostTree(), Uses{},
		"create trait CUSTOM_VNIC_TYPE_DIRECT ",
		"create trait CUSTOM_PHYSNET_PHYSNET0 ",
		"create provider cmp1:NIC Switch agent under cmp1",
		"put traits cmp1:NIC Switch agent +CUSTOM_VNIC_TYPE_DIRECT",
		"create provider cmp1:NIC Switch agent:ens1f0 under cmp1:NIC Switch agent",
		"put traits cmp1:NIC Switch agent:ens1f0 +CUSTOM_PHYSNET_PHYSNET0 +CUSTOM_VNIC_TYPE_DIRECT",
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 1000, NET_BW_IGR_KILOBIT_PER_SEC 1000")
	after := Apply(plan, hostTree())
	checkBandwidth(t, aim, after, Uses{})
	if len(after.Providers) != 4 {
		t.Errorf("%v", after)
	}
}

func TestOnlyDifferencesOfBandwidthAreWritten(t *testing.T) {
	tree := change(reported(t, map[string]int{"ens1f0": 1000}), nicID("ens1f0"), func(p *provider.Provider) {
		p.Traits = []resource.Trait{"CUSTOM_FAST", "CUSTOM_PHYSNET_OLD", "CUSTOM_VNIC_TYPE_DIRECT"}
		p.Inventories["CUSTOM_SLOTS"] = resource.Whole(3)
	})
	a := nicAgent(map[string]int{"ens1f0": 2000})
	a.Bandwidths["ens1f0"] = bandwidth.Rates{Egress: a.Bandwidths["ens1f0"].Egress}
	plan := checkBandwidth(t, bandwidthAim(a), tree, Uses{},
		"create trait CUSTOM_PHYSNET_PHYSNET0 ",
		"put traits cmp1:NIC Switch agent:ens1f0 +CUSTOM_PHYSNET_PHYSNET0 -CUSTOM_PHYSNET_OLD",
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 1000 → 2000, "+
			"NET_BW_IGR_KILOBIT_PER_SEC 1000 → none")
	p, _ := Apply(plan, tree).ByID(nicID("ens1f0"))
	if !p.HasTrait("CUSTOM_FAST") || p.Inventories["CUSTOM_SLOTS"].Total != 3 {
		t.Errorf("the trait and the class of another client are gone: %+v", p)
	}
}

// The last value is removed too: Neutron leaves its inventory, on which servers are still placed.
func TestLastBandwidthOfADeviceIsRemoved(t *testing.T) {
	checkBandwidth(t, bandwidthAim(nicAgent(map[string]int{"ens1f0": 0})), reported(t, map[string]int{"ens1f0": 9}),
		Uses{},
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 9 → none, "+
			"NET_BW_IGR_KILOBIT_PER_SEC 9 → none")
}

func TestUnusedBandwidthProviderIsDeleted(t *testing.T) {
	tree := reported(t, map[string]int{"ens1f0": 1, "ens1f1": 2})
	checkBandwidth(t, bandwidthAim(nicAgent(map[string]int{"ens1f1": 2})), tree, Uses{},
		"delete provider cmp1:NIC Switch agent:ens1f0 it is no longer configured")
	checkBandwidth(t, bandwidthAim(), tree, Uses{},
		"delete provider cmp1:NIC Switch agent:ens1f1 it is no longer configured",
		"delete provider cmp1:NIC Switch agent:ens1f0 it is no longer configured",
		"delete provider cmp1:NIC Switch agent it is no longer configured")
}

// A provider in use is reserved and reported while it is in use, and deleted afterwards.
func TestBandwidthProviderInUseIsReserved(t *testing.T) {
	tree := reported(t, map[string]int{"ens1f0": 5})
	uses := Uses{nicID("ens1f0"): {"server-1": {bandwidth.EgressBandwidth: 2}}}
	const reason = "cannot cmp1:NIC Switch agent:ens1f0 stays with all of it reserved: it is no longer configured, but " +
		"server-1 holds of it"
	const child = "cannot cmp1:NIC Switch agent stays: it is no longer configured, but the provider " +
		"cmp1:NIC Switch agent:ens1f0 is its child"
	plan := checkBandwidth(t, bandwidthAim(), tree, uses,
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 5, reserved 0 → 5, "+
			"NET_BW_IGR_KILOBIT_PER_SEC 5, reserved 0 → 5", reason, child)
	tree = Apply(plan, tree)
	checkBandwidth(t, bandwidthAim(), tree, uses, reason, child)
	// Configured again, it is offered again.
	checkBandwidth(t, bandwidthAim(nicAgent(map[string]int{"ens1f0": 5})), tree, uses,
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 5, reserved 5 → 0, "+
			"NET_BW_IGR_KILOBIT_PER_SEC 5, reserved 5 → 0")
	checkBandwidth(t, bandwidthAim(), tree, Uses{},
		"delete provider cmp1:NIC Switch agent:ens1f0 it is no longer configured",
		"delete provider cmp1:NIC Switch agent it is no longer configured")
}

func TestRemovedBandwidthInUseIsReserved(t *testing.T) {
	tree := reported(t, map[string]int{"ens1f0": 5})
	uses := Uses{nicID("ens1f0"): {"server-1": {bandwidth.IngressBandwidth: 5}}}
	a := nicAgent(map[string]int{"ens1f0": 5})
	a.Bandwidths["ens1f0"] = bandwidth.Rates{Egress: a.Bandwidths["ens1f0"].Egress}
	checkBandwidth(t, bandwidthAim(a), tree, uses,
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_IGR_KILOBIT_PER_SEC 5, reserved 0 → 5",
		"cannot cmp1:NIC Switch agent:ens1f0 keeps its NET_BW_IGR_KILOBIT_PER_SEC: it is no longer configured and all of "+
			"it is reserved, but server-1 holds of it")
}

func TestBandwidthBelowItsAllocationsIsReported(t *testing.T) {
	tree := reported(t, map[string]int{"ens1f0": 5})
	uses := Uses{nicID("ens1f0"): {"server-1": {bandwidth.EgressBandwidth: 4}}}
	checkBandwidth(t, bandwidthAim(nicAgent(map[string]int{"ens1f0": 3})), tree, uses,
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 5 → 3, NET_BW_IGR_KILOBIT_PER_SEC 5 → 3",
		"note cmp1:NIC Switch agent:ens1f0 has 4 NET_BW_EGR_KILOBIT_PER_SEC allocated, more than its capacity of 3: "+
			"server-1 holds of it; nothing more is placed there until it fits")
}

func TestBandwidthProvidersOfOthersAreLeft(t *testing.T) {
	tree := reported(t, map[string]int{"ens1f0": 5})
	aim := bandwidthAim()
	aim.Owns = func(_ provider.Provider, n bandwidth.Name) bool { return n.Agent != bandwidth.NICSwitch }
	checkBandwidth(t, aim, tree, Uses{})
	// A name of the right form with another ID is not a bandwidth provider.
	other := change(hostTree(), "00000000-0000-4000-8000-000000000002", func(p *provider.Provider) {
		p.Name = "cmp1:NIC Switch agent"
	})
	checkBandwidth(t, bandwidthAim(), other, Uses{})
	checkBandwidth(t, bandwidthAim(nicAgent(map[string]int{"ens1f0": 5})), other, Uses{},
		"cannot cmp1:NIC Switch agent cannot be reported: provider 00000000-0000-4000-8000-000000000002 has this name and "+
			"another ID; delete or rename that provider")
}

// Old releases of Neutron put devices below the root.
func TestBandwidthProviderBelowTheRootIsMoved(t *testing.T) {
	tree := change(reported(t, map[string]int{"ens1f0": 5}), nicID("ens1f0"), func(p *provider.Provider) {
		p.Parent = bandwidthRoot
	})
	aim := bandwidthAim(nicAgent(map[string]int{"ens1f0": 5}))
	plan := checkBandwidth(t, aim, tree, Uses{},
		"move provider cmp1:NIC Switch agent:ens1f0 under cmp1:NIC Switch agent")
	checkBandwidth(t, aim, Apply(plan, tree), Uses{})
}

func TestProviderOfAnAbsentInterfaceIsReserved(t *testing.T) {
	aim := bandwidthAim(nicAgent(map[string]int{"ens1f0": 5}))
	aim.Providers[1].Absent = "interface ens1f0 does not exist"
	plan := MakeBandwidth(aim, hostTree(), Uses{}, nil)
	if got := text(plan); strings.Contains(got, "create provider cmp1:NIC Switch agent:ens1f0") ||
		!strings.Contains(got, "cannot cmp1:NIC Switch agent:ens1f0 is not reported: interface ens1f0 does not exist") {
		t.Error(got)
	}
	checkBandwidth(t, aim, reported(t, map[string]int{"ens1f0": 5}), Uses{},
		"put inventories cmp1:NIC Switch agent:ens1f0 NET_BW_EGR_KILOBIT_PER_SEC 5, reserved 0 → 5, "+
			"NET_BW_IGR_KILOBIT_PER_SEC 5, reserved 0 → 5",
		"cannot cmp1:NIC Switch agent:ens1f0 is reserved: interface ens1f0 does not exist")
}

// A provider with a child of another owner, such as the PCI provider of its interface, is not deleted.
func TestBandwidthProviderWithAChildStays(t *testing.T) {
	tree := change(reported(t, map[string]int{"ens1f0": 5}), "00000000-0000-4000-8000-000000000002",
		func(p *provider.Provider) { p.Parent = nicID("ens1f0") })
	got := text(MakeBandwidth(bandwidthAim(), tree, Uses{}, nil))
	if strings.Contains(got, "delete") || !strings.Contains(got, "the provider cmp1_0000:81:00.0 is its child") ||
		!strings.Contains(got, "reserved 0 → 5") {
		t.Error(got)
	}
}

// From any state the plan leads to a state whose plan is empty, whatever consumers hold.
func TestRandomBandwidthPlansConverge(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		random := func() map[string]int {
			rates := map[string]int{}
			for _, device := range []string{"a", "b", "c"} {
				if r.IntN(3) > 0 {
					rates[device] = r.IntN(4) * 10
				}
			}
			return rates
		}
		tree, uses := reported(t, random()), Uses{}
		for _, p := range tree.Providers {
			for class := range p.Inventories {
				if r.IntN(4) == 0 {
					uses[p.ID] = map[resource.ConsumerID]resource.Amounts{"server-1": {class: 5}}
				}
			}
		}
		aim := bandwidthAim(nicAgent(random()))
		if r.IntN(4) == 0 {
			aim = bandwidthAim()
		}
		plan := MakeBandwidth(aim, tree, uses, nil)
		if wrong := CheckBandwidth(plan, tree, uses); len(wrong) > 0 {
			t.Fatalf("seed %d: %v", seed, wrong)
		}
		tree = Apply(plan, tree)
		if again := MakeBandwidth(aim, tree, uses, plan.Owned); !again.Empty() {
			t.Fatalf("seed %d: the second plan is\n%s", seed, text(again))
		}
		for id, holders := range uses {
			p, _ := tree.ByID(id)
			for class := range holders["server-1"] {
				if p.Inventories[class].Total == 0 {
					t.Fatalf("seed %d: %s lost the held %s", seed, id, class)
				}
			}
		}
	}
}

func TestCheckRefusesWrongBandwidthPlans(t *testing.T) {
	tree := change(reported(t, map[string]int{"ens1f0": 5}), nicID("ens1f0"), func(p *provider.Provider) {
		p.Traits = append(p.Traits, "CUSTOM_FAST")
		p.Inventories["CUSTOM_SLOTS"] = resource.Whole(3)
	})
	uses := Uses{nicID("ens1f0"): {"server-1": {bandwidth.EgressBandwidth: 2}}}
	p, _ := tree.ByID(nicID("ens1f0"))
	put := Step{Op: PutInventories, Provider: p.ID, Name: p.Name, Generation: p.Generation,
		Inventories: maps.Clone(p.Inventories)}
	lost, foreign := put, put
	lost.Inventories = maps.Clone(p.Inventories)
	delete(lost.Inventories, bandwidth.EgressBandwidth)
	foreign.Inventories = maps.Clone(p.Inventories)
	foreign.Inventories["CUSTOM_SLOTS"] = resource.Whole(2)
	for words, step := range map[string]Step{
		"it removes NET_BW_EGR_KILOBIT_PER_SEC": lost,
		"it changes CUSTOM_SLOTS":               foreign,
		"it takes the trait CUSTOM_FAST":        {Op: PutTraits, Provider: p.ID, Name: p.Name, Generation: p.Generation},
		"generation 77": {Op: PutTraits, Provider: p.ID, Name: p.Name, Generation: 77,
			Traits: p.Traits},
		"it touches cmp1,": {Op: PutTraits, Provider: bandwidthRoot, Name: "cmp1", Generation: 3},
		"it touches cmp1_0000:81:00.0,": {Op: DeleteProvider, Provider: "00000000-0000-4000-8000-000000000002",
			Name: "cmp1_0000:81:00.0"},
	} {
		wrong := CheckBandwidth(Plan{Steps: []Step{step}}, tree, uses)
		if !slices.ContainsFunc(wrong, func(o Objection) bool { return strings.Contains(o.Text, words) }) {
			t.Errorf("%s: %v", words, wrong)
		}
	}
	if wrong := CheckBandwidth(Plan{Steps: []Step{put}}, tree, uses); len(wrong) > 0 {
		t.Error(wrong)
	}
}
