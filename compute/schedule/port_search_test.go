package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	candidates "github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// portsCase is a host with NICs, which is in Placement as rows, and a server with ports, aliases and cells.
type portsCase struct {
	host     schedule.Host
	rows     []index.Row
	ports    []portrequest.Port
	aliases  []pci.Request
	cells    []numa.GuestCell
	isolate  bool
	groups   []resource.Group // of the flavor
	requests []pci.Request    // of aliases and ports
	ask      resource.Ask     // without the devices of aliases
}

// nics adds NICs with VFs to the host. The bandwidth of a NIC is on a provider above that of its VFs, and below the one
// of its agent, which has the packet rate.
func (c *portsCase) nics(rng *rand.Rand, nodes int) {
	agents := 1 + rng.IntN(2)
	for a := range agents {
		c.add(fmt.Sprint("agent", a), "root-h", resource.Amounts{bandwidth.PacketRate: 1 + rng.IntN(4)})
	}
	for n := range 1 + rng.IntN(4) {
		network := []string{"a", "b"}[rng.IntN(5)/4]
		traits := []resource.Trait{bandwidth.PhysnetTrait(network), bandwidth.VNICTrait("direct")}
		bw, vfs := fmt.Sprint("bw", n), provider.ID(fmt.Sprint("vfs", n))
		c.add(bw, provider.ID(fmt.Sprint("agent", rng.IntN(agents))),
			resource.Amounts{bandwidth.EgressBandwidth: 1 + rng.IntN(5)}, traits...)
		at, all := rng.IntN(nodes+1)-1, 1+rng.IntN(4)
		list := c.nic(bw, vfs, network, all)
		if rng.IntN(3) == 0 {
			c.rows[len(c.rows)-1].Inventories[pci.PortVF] = resource.Whole(1 + rng.IntN(all))
		}
		for i := range list {
			list[i].NUMANode, list[i].Trusted = at, rng.IntN(3) == 0
			if rng.IntN(8) == 0 && !c.isolate { // see isolation: those of a provider are of one card then
				list[i].NUMANode = rng.IntN(nodes)
			}
		}
	}
}

// nic adds a number of VFs of a new NIC, and returns them.
func (c *portsCase) nic(below string, on provider.ID, network string, vfs int) []pci.Offered {
	before := len(c.host.Devices)
	c.add(string(on), provider.ID(below), resource.Amounts{pci.PortVF: vfs}, bandwidth.PhysnetTrait(network),
		bandwidth.VNICTrait("direct"))
	c.host.Devices = append(c.host.Devices, card(uint8(before), on, 0, false, vfs)...)
	list := c.host.Devices[before:]
	for i := range list {
		list[i].ForPorts, list[i].ResourceClass, list[i].PhysicalNetwork = true, pci.PortVF, &network
	}
	return list
}

func (c *portsCase) add(id string, parent provider.ID, free resource.Amounts, traits ...resource.Trait) {
	row := index.Row{Provider: provider.Provider{ID: provider.ID(id), Name: id, Root: "root-h", Parent: parent,
		Traits: traits, Inventories: map[resource.Class]resource.Inventory{}}}
	for class, n := range free {
		if n > 0 {
			row.Inventories[class] = resource.Whole(n)
		}
	}
	c.rows = append(c.rows, row)
}

var policies = []pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Preferred, pci.Socket}

func randomPortsCase(rng *rand.Rand) (c portsCase) {
	nodes := 2 + rng.IntN(3)
	c.host, c.isolate = host("h"), rng.IntN(8) == 0
	c.add("root-h", "", resource.Amounts{"VCPU": 8})
	c.nics(rng, nodes)
	forPorts := len(c.rows)
	for n := range rng.IntN(3) {
		list := card(uint8(0x40+n), provider.ID(fmt.Sprint("gpu", n)), rng.IntN(nodes+1)-1, false, 1+rng.IntN(2))
		c.add(fmt.Sprint("gpu", n), "root-h", resource.Amounts{list[0].ResourceClass: len(list)})
		c.host.Devices = append(c.host.Devices, list...)
	}
	var cells []numa.Cell
	for id := range nodes {
		cells = append(cells, node(id, id/2, 2*rng.IntN(3)/2*2))
	}
	c.host = withCells(c.host, cells...)
	c.host.InPlacement = true
	c.cells = guest(rng.IntN(3))
	for n := range 1 + rng.IntN(4) {
		c.ports = append(c.ports, randomPort(rng, n))
	}
	if rng.IntN(3) == 0 {
		r := withPolicy(policies[rng.IntN(4)], requestFor(1+rng.IntN(2), pci.Virtual, "1515"))
		r.ID = "alias"
		c.aliases = append(c.aliases, r)
	}
	if rng.IntN(4) == 0 { // on a provider for ports, of another class
		c.rows[rng.IntN(forPorts)].Inventories["CUSTOM_EXTRA"] = resource.Whole(1)
		c.groups = append(c.groups, resource.Group{Suffix: "1", Resources: resource.Amounts{"CUSTOM_EXTRA": 1}})
	}
	if rng.IntN(8) == 0 { // competes with the ports
		c.groups = append(c.groups, resource.Group{Suffix: "2",
			Resources: resource.Amounts{bandwidth.EgressBandwidth: 1}})
	}
	c.prepare()
	return c
}

// randomPort returns a direct port, with a guarantee of bandwidth, of bandwidth and a packet rate, or of none.
func randomPort(rng *rand.Rand, n int) portrequest.Port {
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)
	p := portrequest.Port{ID: id, VNICType: "direct", PhysicalNetworks: []string{"a"}, Trusted: rng.IntN(3) == 0,
		NUMAPolicy: string(policies[rng.IntN(4)])}
	if rng.IntN(8) == 0 {
		p.PhysicalNetworks = []string{"a", "b"}
	}
	var networks []resource.Trait
	for _, network := range p.PhysicalNetworks {
		networks = append(networks, bandwidth.PhysnetTrait(network))
	}
	kind := rng.IntN(4)
	if kind > 0 {
		p.Groups = append(p.Groups, portrequest.Group{ID: fmt.Sprint("bw-", n), Required: [][]resource.Trait{networks},
			Resources: resource.Amounts{bandwidth.EgressBandwidth: 1 + rng.IntN(3)}})
	}
	if kind == 3 {
		p.Groups = append(p.Groups, portrequest.Group{ID: fmt.Sprint("rate-", n),
			Resources: resource.Amounts{bandwidth.PacketRate: 1 + rng.IntN(2)}})
		p.SameSubtree = []string{fmt.Sprint("bw-", n), fmt.Sprint("rate-", n)}
	}
	return p
}

// prepare makes the requests.
func (c *portsCase) prepare() {
	request, err := portrequest.Make(c.ports, portrequest.Options{DevicesInPlacement: true})
	if err == nil {
		c.ask.Groups = append([]resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}, c.groups...)
		if c.isolate {
			c.ask.GroupPolicy = resource.PolicyIsolate
		}
		c.ask, err = portrequest.Add(c.ask, request)
	}
	if err != nil {
		panic(err)
	}
	c.requests = append(slices.Clone(c.aliases), request.Devices...)
}

// String describes the case for a failure.
func (c portsCase) String() string {
	var b strings.Builder
	for _, r := range c.rows {
		fmt.Fprintf(&b, "%s below %q:", r.ID, r.Parent)
		for class, of := range r.Inventories {
			fmt.Fprintf(&b, " %s %d", class, of.Total)
		}
		fmt.Fprintln(&b, "", r.Traits)
	}
	for _, d := range c.host.Devices {
		fmt.Fprintf(&b, "%s of %s on node %d, for ports %t, trusted %t\n", d.Address, d.Provider, d.NUMANode,
			d.ForPorts, d.Trusted)
	}
	for _, r := range c.requests {
		fmt.Fprintf(&b, "%s: %d, policy %s, %+v\n", r.ID, r.Count, r.Policy, r.Port)
	}
	return b.String() + fmt.Sprintf("%+v\n%d cells, nodes %+v %+v", c.ask, len(c.cells), c.host.Cells, c.host.Nodes)
}

// input returns the input of a plan, with these candidates.
func (c portsCase) input(of []schedule.Candidate) (schedule.Input, schedule.Tree) {
	p := schedule.Input{Hosts: hosts(c.host), Now: noon, Silence: schedule.Silence, Cells: c.cells,
		Counted: map[string]bool{}, Isolate: c.isolate, Candidates: of}
	for _, r := range c.requests {
		p.Counted[r.ID] = true
	}
	tree := schedule.Tree{Free: resource.Allocation{}, Traits: map[provider.ID][]resource.Trait{},
		Parents: map[provider.ID]provider.ID{}}
	for _, r := range c.rows {
		tree.Free[r.ID], tree.Traits[r.ID] = resource.Amounts{}, r.Traits
		if r.Parent != "" {
			tree.Parents[r.ID] = r.Parent
		}
		for class, of := range r.Inventories {
			tree.Free[r.ID][class] = of.Total
		}
	}
	return p, tree
}

// all returns all candidates of Placement for a request.
func (c portsCase) all(ask resource.Ask) (list []schedule.Candidate) {
	for one := range candidates.Find(index.Build(slices.Clone(c.rows)), ask, candidates.Options{}) {
		list = append(list, schedule.Candidate{Root: "root-h", Allocation: one.Allocation(), Mappings: one.Mappings()})
	}
	return list
}

// plan plans the server with the search for its ports. ways limits how many ways to place them are tried. There is one
// way to place the rest.
func (c portsCase) plan(ways int) (schedule.Choice, schedule.Host, schedule.Refusal) {
	rest, ports := schedule.SplitPorts(c.ask, c.requests)
	p, tree := c.input(c.all(rest)[:1])
	return schedule.PlanPortsWithin(p, "root-h", c.requests, tree, ports, ways)
}

// fits reports whether some candidate, some nodes and some devices serve the server.
func (c portsCase) fits() bool {
	for _, one := range c.all(c.ask) {
		a := question{requests: c.requests, cells: c.cells}
		if len(c.aliases) > 0 {
			a.on = make([]provider.ID, c.aliases[0].Count) // any
		}
		for _, r := range c.requests[len(c.aliases):] {
			a.on = append(a.on, one.Mappings[r.GroupSuffix(0)][0])
		}
		if c.someNodes(a, nil) {
			return true
		}
	}
	return false
}

// someNodes tries all nodes for the remaining cells.
func (c portsCase) someNodes(a question, nodes []int) bool {
	if len(nodes) == len(a.cells) {
		return c.someDevices(a, nodes, nil)
	}
	for _, cell := range c.host.Cells {
		if !slices.Contains(nodes, cell.ID) && len(cell.Dedicated) >= 2 &&
			c.someNodes(a, append(slices.Clone(nodes), cell.ID)) {
			return true
		}
	}
	return false
}

// someDevices tries all devices for the remaining requested ones.
func (c portsCase) someDevices(a question, nodes, chosen []int) bool {
	var wants []pci.Request
	for _, r := range a.requests {
		for range r.Count {
			wants = append(wants, r)
		}
	}
	n := len(chosen)
	if n == len(wants) {
		return true
	}
	for i, d := range c.host.Devices {
		r := wants[n]
		fits := !slices.Contains(chosen, i) && nearEnough(c.host.Nodes, r.Policy, d.NUMANode, nodes)
		if r.Port == nil {
			fits = fits && !d.ForPorts && !(c.isolate && slices.ContainsFunc(chosen, func(o int) bool {
				return c.host.Devices[o].Provider == d.Provider
			}))
		} else {
			fits = fits && d.ForPorts && d.Provider == a.on[n] && (d.Trusted || !r.Port.Trusted) &&
				slices.Contains(r.Port.PhysicalNetworks, *d.PhysicalNetwork)
		}
		if fits && c.someDevices(a, nodes, append(slices.Clone(chosen), i)) {
			return true
		}
	}
	return false
}

// A server with ports is planned if and only if a candidate of Placement, nodes and devices serve it, also if only one
// way to place its ports is tried for each set of nodes. The plan is a candidate, with one device for each request.
func TestPortSearchAgreesWithExhaustiveSearch(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(3000) {
		c := randomPortsCase(rand.New(rand.NewPCG(seed, 11)))
		choice, after, refusal := c.plan([]int{1, 3, 1000}[seed%3])
		if want := c.fits(); want != (refusal.Reason == "") {
			t.Fatalf("case %d: fits %t, refused %+v\n%s", seed, want, refusal, c)
		}
		if refusal.Reason != "" {
			refused++
			continue
		}
		placed++
		c.check(t, seed, choice, after)
	}
	if placed < 800 || refused < 800 {
		t.Errorf("%d servers fit, %d do not: the cases are too similar", placed, refused)
	}
}

// check checks that a choice is a candidate of Placement with the devices of aliases, and that the devices of ports are
// those of the providers in it.
func (c portsCase) check(t *testing.T, seed uint64, choice schedule.Choice, after schedule.Host) {
	mappings := maps.Clone(choice.Mappings)
	maps.DeleteFunc(mappings, func(suffix string, _ []provider.ID) bool { return strings.HasPrefix(suffix, "alias") })
	if !slices.ContainsFunc(c.all(c.ask), func(one schedule.Candidate) bool {
		return fmt.Sprint(one.Mappings) == fmt.Sprint(mappings)
	}) {
		t.Fatalf("case %d: no candidate has %v\n%s", seed, mappings, c)
	}
	left, taken := after.Free(), map[provider.ID]int{}
	for _, d := range c.host.Free() {
		if !slices.ContainsFunc(left, func(o pci.Offered) bool { return o.Address == d.Address }) {
			taken[d.Provider]++
		}
	}
	for id, amounts := range choice.Allocation {
		for class, n := range amounts {
			device := class == pci.PortVF || class == pci.ClassFor("8086", "1515")
			if device && n != taken[id] {
				t.Fatalf("case %d: %d devices of %s are taken, %v is claimed\n%s", seed, taken[id], id, amounts, c)
			}
		}
	}
}

// A search for ports that reaches the limit of the work is undecided. Without the limit it decides that the ports
// cannot be divided among the NICs: they need nearly all bandwidth of each direction.
func TestUndecidedPortSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := portsCase{host: host("h")}
	c.add("root-h", "", resource.Amounts{"VCPU": 8})
	for n := range 4 {
		bw, vfs := fmt.Sprint("bw", n), provider.ID(fmt.Sprint("vfs", n))
		c.add(bw, "root-h", resource.Amounts{bandwidth.EgressBandwidth: 1000, bandwidth.IngressBandwidth: 1000},
			bandwidth.PhysnetTrait("a"))
		c.nic(bw, vfs, "a", 8)
	}
	left := [2]int{3990, 3990}
	for n := range 10 {
		p := randomPort(rng, n)
		out, in := left[0]/(10-n), left[1]/(10-n)
		if n < 9 {
			out, in = out/2+rng.IntN(out), in/2+rng.IntN(in)
		}
		left[0], left[1] = left[0]-out, left[1]-in
		p.Trusted, p.SameSubtree, p.PhysicalNetworks = false, nil, []string{"a"}
		p.Groups = []portrequest.Group{{ID: fmt.Sprint("bw-", n), Resources: resource.Amounts{
			bandwidth.EgressBandwidth: out, bandwidth.IngressBandwidth: in}}}
		c.ports = append(c.ports, p)
	}
	c.prepare()
	rest, ports := schedule.SplitPorts(c.ask, c.requests)
	p, tree := c.input(c.all(rest))
	if _, _, refusal := schedule.PlanPorts(p, "root-h", c.requests, tree, ports); refusal.Reason == "" ||
		refusal.Undecided {
		t.Errorf("without a limit: %+v", refusal)
	}
	work := 0
	p.Work = &work
	if _, _, refusal := schedule.PlanPorts(p, "root-h", c.requests, tree, ports); !refusal.Undecided || work >= 0 {
		t.Errorf("with the limit: %+v, %d left", refusal, work)
	}
}
