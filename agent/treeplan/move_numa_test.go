package treeplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nodeID returns the id of the provider of a node of the host h.
func nodeID(n int) provider.ID { return provider.IDFromName("H", numa.ProviderName("h", n)) }

// numaNode returns the provider of a node, with generation 5.
func numaNode(n int, i inv) provider.Provider {
	return provider.Provider{ID: nodeID(n), Name: numa.ProviderName("h", n), Generation: 5, Inventories: i,
		Traits: traits(numa.NodeTrait)}
}

// onNode returns amounts of a node.
func onNode(n int, amounts resource.Amounts) resource.Allocation {
	return resource.Allocation{nodeID(n): amounts}
}

// usesOf returns what allocations say of each provider.
func usesOf(all map[resource.ConsumerID]resource.Allocation) Uses {
	out := Uses{}
	for consumer, a := range all {
		for id, amounts := range a {
			if out[id] == nil {
				out[id] = map[resource.ConsumerID]resource.Amounts{}
			}
			out[id][consumer] = amounts
		}
	}
	return out
}

// numaGuest is a guest with cells, and its allocation in Placement.
func numaGuest(nodes, has resource.Allocation) holder {
	return holder{Expected: Expected{Nodes: nodes}, has: has}
}

func TestMoveBetweenRootAndNodes(t *testing.T) {
	onRoot := stock("VCPU", 8, "MEMORY_MB", 1024, "PCPU", 4)
	perNode := stock("PCPU", 2, "CUSTOM_NUMA_VCPU", 4, "CUSTOM_NUMA_MEMORY_MB", 512)
	rest := stock("VCPU", 8, "MEMORY_MB", 1024)
	nodes := func(root inv, i inv, more ...provider.Provider) provider.Tree {
		return tree(root, append(more, numaNode(0, i), numaNode(1, i))...)
	}
	card := pf("3b", with(stock("CUSTOM_NIC", 1), "CUSTOM_NIC", func(i *resource.Inventory) { i.Reserved = 1 }))
	former := bandwidth.Name{Hypervisor: "h", Agent: "Open vSwitch agent", Device: "br-ex"}
	bridge := provider.Provider{ID: former.ID(), Name: "h:Open vSwitch agent:br-ex", Generation: 9,
		Inventories: with(stock(string(bandwidth.EgressBandwidth), 1000), bandwidth.EgressBandwidth,
			func(i *resource.Inventory) { i.Reserved = 1000 })} // it is no longer configured
	root := resource.Allocation{"H": {"MEMORY_MB": 256, "PCPU": 3}}
	two := onNode(0, resource.Amounts{"PCPU": 2, "CUSTOM_NUMA_MEMORY_MB": 128}).Add(
		onNode(1, resource.Amounts{"PCPU": 1, "CUSTOM_NUMA_MEMORY_MB": 128}))
	shared := onNode(1, resource.Amounts{"CUSTOM_NUMA_VCPU": 2, "CUSTOM_NUMA_MEMORY_MB": 64})
	small := stock("PCPU", 1, "CUSTOM_NUMA_VCPU", 4, "CUSTOM_NUMA_MEMORY_MB", 512)
	for _, c := range []struct {
		name            string
		desired, actual provider.Tree
		guests          map[resource.ConsumerID]holder
		want            string // allocations afterwards, or a part of a note if nothing moves
		waits           bool
	}{
		{name: "no guests", desired: nodes(rest, perNode), actual: tree(onRoot), want: ""},
		{name: "to nodes", desired: nodes(rest, perNode), actual: tree(onRoot), guests: map[resource.ConsumerID]holder{
			"s1": numaGuest(two, root), "s2": numaGuest(shared, resource.Allocation{"H": {"VCPU": 2, "MEMORY_MB": 64}}),
			"s3": numaGuest(nil, resource.Allocation{"H": {"VCPU": 1}})},
			want: "s1 H MEMORY_MB:256 NUMA0 CUSTOM_NUMA_MEMORY_MB:128,PCPU:2 NUMA1 CUSTOM_NUMA_MEMORY_MB:128,PCPU:1\n" +
				"s2 H MEMORY_MB:64,VCPU:2 NUMA1 CUSTOM_NUMA_MEMORY_MB:64,CUSTOM_NUMA_VCPU:2\ns3 H VCPU:1\n"},
		{name: "a consumer that holds nothing else of the root", desired: nodes(rest, perNode), actual: tree(onRoot),
			guests: map[resource.ConsumerID]holder{"s1": numaGuest(onNode(0, resource.Amounts{"PCPU": 1}),
				resource.Allocation{"H": {"PCPU": 1}, "disks": {"DISK_GB": 5}})},
			want: "s1 NUMA0 PCPU:1 disks DISK_GB:5\n"},
		{name: "a guest that is here while its allocation is on another host", desired: nodes(rest, perNode),
			actual: tree(onRoot), guests: map[resource.ConsumerID]holder{
				"s1": numaGuest(two, resource.Allocation{"elsewhere": {"PCPU": 3}})},
			want: "s1 elsewhere PCPU:3\n"},
		{name: "fewer threads than guests use", desired: nodes(rest, small), actual: tree(onRoot),
			guests: map[resource.ConsumerID]holder{"s1": numaGuest(two, root)},
			want:   "s1 H MEMORY_MB:256 NUMA0 CUSTOM_NUMA_MEMORY_MB:128,PCPU:2 NUMA1 CUSTOM_NUMA_MEMORY_MB:128,PCPU:1\n"},
		{name: "less memory than guests use", desired: nodes(stock("VCPU", 8, "MEMORY_MB", 100), perNode),
			actual: tree(onRoot), guests: map[resource.ConsumerID]holder{"s1": numaGuest(two, root)},
			want: "s1 H MEMORY_MB:256 NUMA0 CUSTOM_NUMA_MEMORY_MB:128,PCPU:2 NUMA1 CUSTOM_NUMA_MEMORY_MB:128,PCPU:1\n"},
		{name: "an older agent has offered the threads on the root again", desired: nodes(rest, perNode),
			actual: nodes(onRoot, perNode), guests: map[resource.ConsumerID]holder{
				"s1": numaGuest(two, resource.Allocation{"H": {"MEMORY_MB": 256}}.Add(two)),
				"s2": numaGuest(onNode(1, resource.Amounts{"PCPU": 1}), resource.Allocation{"H": {"PCPU": 1}})},
			want: "s1 H MEMORY_MB:256 NUMA0 CUSTOM_NUMA_MEMORY_MB:128,PCPU:2 NUMA1 CUSTOM_NUMA_MEMORY_MB:128,PCPU:1\n" +
				"s2 NUMA1 PCPU:1\n"},
		{name: "a claim that is not in the journal", desired: nodes(rest, perNode), actual: tree(onRoot),
			guests: map[resource.ConsumerID]holder{"s1": numaGuest(two, root), "s2": numaGuest(nil, root)}, waits: true,
			want: "s2 has 3 PCPU of h, and no guest here has its CPUs; wait until its guest is built, or if compute does not " +
				"know it, remove its allocation with `berth host heal h --apply --remove s2`"},
		{name: "a claim that is smaller than its guest", desired: nodes(rest, perNode), actual: tree(onRoot),
			guests: map[resource.ConsumerID]holder{"s1": numaGuest(two, resource.Allocation{"H": {"PCPU": 2}})}, waits: true,
			want: "s1 has 2 PCPU of h, and its guest has 3 CPUs of its own; write what is missing with `berth host heal h " +
				"--apply`"},
		{name: "a claim that is larger than its guest", desired: nodes(rest, perNode), actual: tree(onRoot),
			guests: map[resource.ConsumerID]holder{"s1": numaGuest(onNode(0, resource.Amounts{"PCPU": 2}), root)}, waits: true,
			want: "s1 has 3 PCPU of h, and its guest has 2 CPUs of its own; set its PCPU in Placement to 2"},
		{name: "to nodes, of a guest whose device is reserved", desired: nodes(rest, perNode, card),
			actual: tree(onRoot, card), guests: map[resource.ConsumerID]holder{
				"s1": numaGuest(two, root.Add(resource.Allocation{card.ID: {"CUSTOM_NIC": 1}}))},
			want: "s1 0000:3b:00.0 CUSTOM_NIC:1 H MEMORY_MB:256 NUMA0 CUSTOM_NUMA_MEMORY_MB:128,PCPU:2 " +
				"NUMA1 CUSTOM_NUMA_MEMORY_MB:128,PCPU:1\n"},
		{name: "to the root, of a guest whose device is reserved", desired: tree(onRoot, card),
			actual: nodes(rest, perNode, card), guests: map[resource.ConsumerID]holder{"s1": numaGuest(nil,
				resource.Allocation{"H": {"MEMORY_MB": 256}, card.ID: {"CUSTOM_NIC": 1}}.Add(two))},
			want: "s1 0000:3b:00.0 CUSTOM_NIC:1 H MEMORY_MB:256,PCPU:3\n"},
		{name: "to the root, of a guest with bandwidth of a bridge that is reserved", desired: tree(onRoot),
			actual: nodes(rest, perNode, bridge), guests: map[resource.ConsumerID]holder{"s1": numaGuest(nil,
				resource.Allocation{"H": {"MEMORY_MB": 256}, bridge.ID: {bandwidth.EgressBandwidth: 100}}.Add(two))},
			want: "s1 H MEMORY_MB:256,PCPU:3 h:Open vSwitch agent:br-ex NET_BW_EGR_KILOBIT_PER_SEC:100\n"},
		{name: "to the root, with a claim whose guest is not here yet", desired: tree(onRoot), actual: nodes(rest, perNode),
			guests: map[resource.ConsumerID]holder{
				"s1": numaGuest(nil, resource.Allocation{"H": {"MEMORY_MB": 256}}.Add(two)),
				"s2": numaGuest(nil, resource.Allocation{"H": {"VCPU": 2}}.Add(shared))},
			want: "s1 H MEMORY_MB:256,PCPU:3\ns2 H VCPU:2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			aim := aimOf(c.desired, c.guests)
			w := world{tree: c.actual, all: maps.Clone(aim.Allocations), owned: OwnedSet{bridge.ID: {}}}
			plan := w.plan(t, aim)
			if c.waits {
				if got := fmt.Sprint(plan.Notes); !strings.Contains(got, c.want) {
					t.Errorf("notes %s, want %q", got, c.want)
				}
				plan = w.plan(t, aim)
				if root, _ := w.tree.Root(); !plan.Empty() || root.Inventories["PCPU"].Total != 4 || offersNodes(w.tree) {
					t.Errorf("it has moved: %+v, then %+v", w.tree, plan)
				}
				return
			}
			for range 3 {
				plan = w.plan(t, aim)
			}
			if got := w.text(); got != c.want || !plan.Empty() || plan.More {
				t.Errorf("got\n%swant\n%s; the last plan is %+v", got, c.want, plan)
			}
			if moved := len(nodesOf(c.desired)) > 0; OnNodes(w.tree) != moved || len(nodesOf(w.tree)) > 0 != moved {
				t.Errorf("the tree is %+v", w.tree)
			}
		})
	}
}

// world is what Placement has.
type world struct {
	tree  provider.Tree
	all   map[resource.ConsumerID]resource.Allocation
	owned OwnedSet
}

// plan makes a plan for an aim, and executes it as Placement does: it fails for allocations without room.
func (w *world) plan(t interface {
	Helper()
	Fatalf(string, ...any)
}, aim Aim) Plan {
	t.Helper()
	used := usesOf(w.all)
	aim.Allocations = map[resource.ConsumerID]resource.Allocation{}
	for _, consumer := range append(Lacking(aim, used), Moved(aim, w.tree, used)...) {
		aim.Allocations[consumer] = w.all[consumer]
	}
	plan, err := Make(aim, w.tree, used, w.owned)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if bad := Check(plan, aim, w.tree, used, w.owned); len(bad) > 0 {
		t.Fatalf("Check rejects the plan: %v\n%+v", bad, plan)
	}
	for _, s := range plan.Steps {
		if s.Op == DeleteProvider && len(usesOf(w.all)[s.Provider]) > 0 {
			t.Fatalf("%s is deleted in use", s.Name)
		}
	}
	for _, s := range plan.Steps { // with the inventories of the step itself: a later one may reduce them again
		w.tree = Apply(Plan{Steps: []Step{s}}, w.tree)
		maps.Copy(w.all, s.Allocations)
		for _, a := range s.Allocations { // an older Placement refuses what exceeds the capacity, also if it is unchanged
			for id := range a {
				if _, here := w.tree.ByID(id); here {
					w.checkRoom(t, id)
				}
			}
		}
	}
	return plan
}

// checkRoom fails if consumers hold more of a provider than it has.
func (w *world) checkRoom(t interface {
	Helper()
	Fatalf(string, ...any)
}, id provider.ID) {
	t.Helper()
	p, _ := w.tree.ByID(id)
	sum := resource.Amounts{}
	for consumer, amounts := range usesOf(w.all)[id] {
		for class, n := range amounts {
			sum[class] += n
			if inv := p.Inventories[class]; n > inv.MaxUnit || sum[class] > inv.Capacity() {
				t.Fatalf("%s has %d %s of %s, which offers %+v", consumer, n, class, p.Name, inv)
			}
		}
	}
}

// text returns the allocations, by consumer and provider.
func (w *world) text() string {
	var b strings.Builder
	for _, consumer := range slices.Sorted(maps.Keys(w.all)) {
		b.WriteString(string(consumer))
		names := map[string]resource.Amounts{}
		for id, amounts := range w.all[consumer] {
			p, _ := w.tree.ByID(id)
			name := strings.TrimPrefix(p.Name, "h_")
			if name == "" || name == "h" {
				name = string(id)
			}
			names[name] = amounts
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&b, " %s %s", name, names[name])
		}
		b.WriteString("\n")
	}
	return b.String()
}
