package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A candidate of Placement has chosen the NIC of each port with a guarantee, because its device is below that NIC. If a
// host has more candidates than an answer may have, those near nodes with room may be missing. Then the groups of the
// ports are searched here, for each set of nodes that the cells of the guest may have. Devices for ports serve no
// aliases. So on one set of nodes the ports are independent of everything else, and one way to place them is enough to
// decide whether the server fits.
//
// The search is that of Placement (placement/candidate), in a tree with more providers: below each provider of devices
// for ports one for each kind of its free devices. A kind serves the same requests on the set of nodes. The device of a
// port is one of the original provider, so that Placement's count limits the sum of the kinds, and one of a kind below.

const (
	kindClass  resource.Class = "CUSTOM_DEVICE_OF_KIND"
	kindSuffix                = "_KIND" // of the group of a kind, after the suffix of the device

	waysOfPorts = 1000    // how many ways to place the ports are planned on; there may be more
	maxNodeSets = 1 << 13 // how many sets of nodes are searched; with more the host is undecided
	stepWork    = 1 << 8  // how much of Input.Work a step of the search of ports is
)

// SplitPorts splits a request into the rest and the groups of ports with devices. Groups in a same_subtree with those
// of a port belong to the port, and so do groups with a suffix that compete with these for a resource class.
func SplitPorts(ask resource.Ask, requests []pci.Request) (rest, ports resource.Ask) {
	of := map[string]bool{}
	for _, r := range requests {
		if r.Port != nil {
			of[r.GroupSuffix(0)] = true
		}
	}
	isPort := func(g resource.Group) bool { return of[g.Suffix] }
	for before := -1; before < len(of); {
		before = len(of)
		addRelated(ask, of)
	}
	rest, ports = ask, resource.Ask{GroupPolicy: ask.GroupPolicy}
	rest.Groups = slices.DeleteFunc(slices.Clone(ask.Groups), isPort)
	rest.SameSubtree = nil
	for _, g := range ask.Groups {
		if isPort(g) {
			ports.Groups = append(ports.Groups, g)
		}
	}
	for _, together := range ask.SameSubtree {
		if of[together[0]] {
			ports.SameSubtree = append(ports.SameSubtree, together)
		} else {
			rest.SameSubtree = append(rest.SameSubtree, together)
		}
	}
	if rest.GroupPolicy == resource.PolicyIsolate && rest.Suffixed() < 2 {
		rest.GroupPolicy = resource.PolicyNone
	}
	return rest, ports
}

// addRelated adds to the suffixes of ports those of groups that must be placed together with them.
func addRelated(ask resource.Ask, of map[string]bool) {
	for _, together := range ask.SameSubtree {
		if slices.ContainsFunc(together, func(suffix string) bool { return of[suffix] }) {
			for _, suffix := range together {
				of[suffix] = true
			}
		}
	}
	for _, g := range ask.Groups {
		for _, o := range ask.Groups {
			if of[o.Suffix] && g.Suffix != "" && len(g.MemberOf)+len(g.NotMemberOf) == 0 &&
				slices.ContainsFunc(g.Resources.Sorted(), func(c resource.Class) bool { return o.Resources[c] > 0 }) {
				of[g.Suffix] = true
			}
		}
	}
}

// PlanPorts is PlanOn for a server with ports, whose groups SplitPorts has split off. The candidates of the input are
// those for the rest without the devices of aliases. It finds a place if there is one, except that a refusal is
// undecided if the search for the ports has reached its limit.
func PlanPorts(p Input, root provider.ID, requests []pci.Request, tree Tree, ports resource.Ask) (Choice, Host,
	Refusal) {
	return planPorts(p, root, requests, tree, ports, waysOfPorts)
}

// planPorts is PlanPorts with a limit of the ways to place the ports, for all sets of nodes together. One for each set
// is always tried.
func planPorts(p Input, root provider.ID, requests []pci.Request, tree Tree, ports resource.Ask, ways int) (best Choice,
	after Host, refused Refusal) {
	s := p.newPortSearch(root, requests, ports)
	s.ways = ways
	rest := p.Candidates
	for _, c := range rest {
		if c.Root != root {
			continue
		}
		var refusal Refusal
		incomplete := false
		p.Candidates, incomplete, refusal = s.candidates(c, tree)
		if len(p.Candidates) > 0 {
			if best, after, refusal = PlanOn(p, root, requests, tree); best.Root != "" {
				return best, after, refusal
			}
		}
		if incomplete {
			refusal = undecided()
		}
		if !refused.Undecided {
			refused = refusal
		}
	}
	if refused.Reason == "" {
		refused.Reason = "Placement has no candidate for the rest of the server"
	}
	refused.Host = s.host.Name
	return Choice{}, s.host, refused
}

// portSearch is the search for the ports of a server on one host.
type portSearch struct {
	input Input
	root  provider.ID
	host  Host
	free  []pci.Offered
	needs []portNeed
	kinds []deviceKind
	ports resource.Ask // for the groups of ports
	ask   resource.Ask // for these and kinds
	text  string       // of the amounts that are left, for known
	known map[string][]Candidate

	ways         int // limit of those to place the ports
	steps, limit int // of placement/candidate
}

// portNeed is what ports request that the same devices can serve.
type portNeed struct {
	key    string
	policy pci.NUMAPolicy
	trait  resource.Trait // of the kinds that serve it
	slot   slot
}

// deviceKind is a number of free devices of one provider on one node.
type deviceKind struct {
	on           provider.ID
	node         int
	near, beside []int  // see plan.Device
	serves       []bool // by portNeed, on some node
	count        int
}

// newPortSearch returns the search on a host.
func (p Input) newPortSearch(root provider.ID, requests []pci.Request, ports resource.Ask) *portSearch {
	s := &portSearch{input: p, root: root, host: p.Hosts[root], ports: ports, ask: ports,
		known: map[string][]Candidate{}}
	s.free, s.limit = s.host.Free(), plan.MaxWork/stepWork
	if p.Work != nil {
		s.limit = max(min(s.limit, *p.Work/stepWork), leastWork/stepWork)
	}
	s.ask.Groups, s.ask.SameSubtree = slices.Clone(ports.Groups), slices.Clone(ports.SameSubtree)
	for i := range requests {
		device := requests[i].GroupSuffix(0)
		if !slices.ContainsFunc(ports.Groups, func(g resource.Group) bool { return g.Suffix == device }) {
			continue
		}
		kind := resource.Group{Suffix: device + kindSuffix, Resources: resource.Amounts{kindClass: 1},
			Required: [][]resource.Trait{{s.need(&requests[i])}}}
		s.ask.Groups = append(s.ask.Groups, kind)
		s.ask.SameSubtree = append(s.ask.SameSubtree, []string{device, kind.Suffix})
	}
	s.findKinds()
	return s
}

// need returns the trait of the devices for a request of a port.
func (s *portSearch) need(r *pci.Request) resource.Trait {
	port := *r.Port
	port.ID = ""
	key := fmt.Sprintf("%s %+v %+v", r.Policy, r.Requirement, port)
	for _, n := range s.needs {
		if n.key == key {
			return n.trait
		}
	}
	trait := resource.Trait(fmt.Sprintf("CUSTOM_SERVES_%d", len(s.needs)))
	s.needs = append(s.needs, portNeed{key: key, policy: r.Policy, trait: trait, slot: slot{request: r}})
	return trait
}

// findKinds counts the free devices for the ports.
func (s *portSearch) findKinds() {
	for _, d := range s.free {
		kind := deviceKind{on: d.Provider, node: d.NUMANode, count: 1}
		for _, n := range s.needs {
			kind.serves = append(kind.serves, s.host.mismatch(d, n.slot) == "")
		}
		if d.Provider == "" || !slices.Contains(kind.serves, true) {
			continue
		}
		same := slices.IndexFunc(s.kinds, func(o deviceKind) bool {
			return o.on == kind.on && o.node == kind.node && slices.Equal(o.serves, kind.serves)
		})
		if same >= 0 {
			s.kinds[same].count++
			continue
		}
		kind.near = s.host.near(d)
		kind.beside = s.host.Nodes.Beside(kind.near)
		s.kinds = append(s.kinds, kind)
	}
}

// candidates returns candidates for everything except the devices of aliases, from one without the groups of ports: all
// if they are few, otherwise for each set of nodes at least one, if the ports can be placed for a guest there.
// incomplete is set if that was not decided for some set.
func (s *portSearch) candidates(rest Candidate, tree Tree) (list []Candidate, incomplete bool, refused Refusal) {
	left := tree.without(rest.Allocation)
	rows, have := s.rows(left, rest), map[string]bool{}
	limit := s.limit
	s.limit = (s.steps + limit) / 2
	all, decided := s.search(rows, s.ports, s.ways)
	if s.limit = limit; decided && len(all) < s.ways {
		for _, way := range all {
			list = append(list, rest.joined(way))
		}
		return list, false, noNICs(nil)
	}
	sets, incomplete, refused := s.nodeSets(left)
	if refused.Reason != "" {
		return nil, false, refused
	}
	for _, nodes := range sets {
		found, decided := s.near(nodes, rows, max(1, s.ways/len(sets)))
		incomplete = incomplete || !decided
		for _, way := range found {
			if key := fmt.Sprint(way.Mappings); !have[key] {
				have[key] = true
				list = append(list, rest.joined(way))
			}
		}
	}
	return list, incomplete, noNICs(slices.Concat(sets...))
}

// noNICs returns the refusal of a host without a way to place the ports of a guest on nodes.
func noNICs(nodes []int) Refusal {
	if len(nodes) > 0 {
		return Refusal{Filter: FilterNUMA, Reason: "no NICs have what its ports request, near enough to its NUMA nodes"}
	}
	return Refusal{Filter: FilterDevices, Reason: "no NICs have what its ports request"}
}

// joined returns a candidate for what two request, which have no group in common.
func (c Candidate) joined(o Candidate) Candidate {
	mappings := maps.Clone(c.Mappings)
	if mappings == nil {
		mappings = map[string][]provider.ID{}
	}
	maps.Copy(mappings, o.Mappings)
	return Candidate{Root: c.Root, Allocation: c.Allocation.Add(o.Allocation), Mappings: mappings}
}

// nodeSets returns the sets of nodes that the guest may have; a guest without cells has one without nodes. It refuses a
// guest whose cells do not fit.
func (s *portSearch) nodeSets(left *Tree) (sets [][]int, incomplete bool, refused Refusal) {
	p := s.input
	if len(p.Placed) > 0 || len(p.Cells) == 0 {
		return [][]int{nodesOf(p.Placed)}, false, Refusal{}
	}
	cells, fits, refusal := numa.Options(p.room(s.host, s.free, left), p.Cells, true)
	if refusal.Reason != "" {
		return nil, false, refusalOf(refusal)
	}
	var nodes []int
	for n, cell := range cells {
		if slices.ContainsFunc(fits, func(on []bool) bool { return on[n] }) {
			nodes = append(nodes, cell.ID)
		}
	}
	subsets(nodes, len(p.Cells), func(set []int) (more bool) {
		if incomplete = len(sets) == maxNodeSets; !incomplete {
			sets = append(sets, slices.Clone(set))
		}
		return !incomplete
	})
	return sets, incomplete, Refusal{}
}

// subsets calls visit with each set of size of the numbers, until it returns false. It reports whether all were
// visited.
func subsets(of []int, size int, visit func([]int) bool) bool {
	var chosen []int
	var choose func(from int) bool
	choose = func(from int) bool {
		if len(chosen) == size {
			return visit(chosen)
		}
		for i := from; i <= len(of)-size+len(chosen); i++ {
			chosen = append(chosen, of[i])
			more := choose(i + 1)
			if chosen = chosen[:len(chosen)-1]; !more {
				return false
			}
		}
		return true
	}
	return choose(0)
}

// rows returns the providers of the host with what is left of the classes that the ports request. With PolicyIsolate
// nothing is left of the providers of other groups.
func (s *portSearch) rows(left *Tree, rest Candidate) (rows []index.Row) {
	busy, text := map[provider.ID]bool{}, &strings.Builder{}
	for suffix, on := range rest.Mappings {
		for _, id := range on {
			busy[id] = busy[id] || suffix != "" && s.ask.GroupPolicy == resource.PolicyIsolate
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left.Free)) {
		if !left.below(id, s.root) {
			continue
		}
		row := index.Row{Provider: provider.Provider{ID: id, Root: s.root, Parent: left.Parents[id],
			Traits: left.Traits[id], Inventories: map[resource.Class]resource.Inventory{}}}
		for _, g := range s.ask.Groups {
			for class := range g.Resources {
				if n := left.Free[id][class]; n > 0 && !busy[id] {
					row.Inventories[class] = resource.Whole(n)
				}
			}
		}
		fmt.Fprintln(text, id, row.Inventories)
		rows = append(rows, row)
	}
	s.text = text.String()
	return rows
}

// below reports whether a provider is in the tree of a root.
func (t *Tree) below(id, root provider.ID) bool {
	for range len(t.Parents) {
		if id == root {
			return true
		}
		id = t.Parents[id]
	}
	return id == root
}

// near returns ways to place the ports of a guest on these nodes, at most limit; those with near devices if there are
// some. decided is false if the search has ended before it has found one.
func (s *portSearch) near(nodes []int, rows []index.Row, limit int) (found []Candidate, decided bool) {
	for farthest := numa.Local; farthest <= numa.Distant && len(found) == 0; farthest++ {
		kinds := s.kindRows(nodes, farthest)
		key := fmt.Sprint(s.text, kinds)
		known, is := s.known[key]
		if !is {
			if known, decided = s.search(append(slices.Clone(rows), kinds...), s.ask, limit); !decided {
				return known, len(known) > 0
			}
			s.known[key] = known
		}
		found = known
	}
	return found, true
}

// kindRows returns a provider for each kind of devices that are not farther from a guest on these nodes; see numa.Rank.
func (s *portSearch) kindRows(nodes []int, farthest int) (rows []index.Row) {
	for _, k := range s.kinds {
		var traits []resource.Trait
		for i, n := range s.needs {
			rank := plan.Rank(n.policy, k.near, k.beside, nodes)
			if k.serves[i] && rank >= 0 && rank <= farthest {
				traits = append(traits, n.trait)
			}
		}
		if len(traits) == 0 {
			continue
		}
		same := slices.IndexFunc(rows, func(r index.Row) bool {
			return r.Parent == k.on && slices.Equal(r.Traits, traits)
		})
		if same >= 0 {
			of := rows[same].Inventories
			of[kindClass] = resource.Whole(of[kindClass].Total + k.count)
			continue
		}
		rows = append(rows, index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprint("kind ", len(rows))),
			Root: s.root, Parent: k.on, Traits: traits,
			Inventories: map[resource.Class]resource.Inventory{kindClass: resource.Whole(k.count)}}})
	}
	return rows
}

// search returns ways to place the ports with these providers, at most limit. decided is false if the search has
// reached the limit of its steps.
func (s *portSearch) search(rows []index.Row, ask resource.Ask, limit int) (found []Candidate, decided bool) {
	const stepsOfStop = 64 // placement/candidate calls Stop once for these
	before, next, over, have, tries := s.steps, 1, false, map[string]bool{}, 0
	stop := func() bool {
		s.steps += next
		next, over = stepsOfStop, over || s.steps > s.limit
		return over
	}
	for one := range candidate.Find(index.Build(rows), ask, candidate.Options{Stop: stop}) {
		way := Candidate{Allocation: resource.Allocation{}, Mappings: map[string][]provider.ID{}}
		for _, take := range one.Takes {
			if id := take.Node().ID; !strings.HasSuffix(take.Suffix, kindSuffix) {
				way.Allocation = way.Allocation.Add(resource.Allocation{id: take.Amounts})
				way.Mappings[take.Suffix] = []provider.ID{id}
			}
		}
		if key := fmt.Sprint(way.Mappings); !have[key] {
			have[key] = true
			found = append(found, way)
		}
		if tries++; len(found) == limit || tries == limit*16 {
			break
		}
	}
	if s.input.Work != nil {
		*s.input.Work -= (s.steps - before) * stepWork
	}
	return found, !over
}
