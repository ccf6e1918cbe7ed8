package candidate

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// mostMisses is how many of the nearest hosts are told.
const mostMisses = 3

// explainer goes through the hosts once and remembers how far each came. Hosts of one shape come equally far: one of them is
// looked at.
type explainer struct {
	snapshot *index.Snapshot
	stop     Until
	plan     *plan
	host     *host
	loose    *host // the plan without group_policy and same_subtree
	apart    *host // the plan with group_policy, without same_subtree; nil when it is the same as another
	pieces   *pieces
	stages   []stage
	narrow   narrowing
	classes  []standing
	known    map[index.Shape]int // position in classes
	single   map[*index.Tree]int // likewise, for trees that in_tree names
	order    []int               // positions in classes, those that came furthest first
	cores    []set
	outside  int // how many hosts the narrowing leaves out
	lenders  map[index.No][]index.Place
	near     []index.Place
	why      marker            // in the making
	met      []set             // each: pieces that some host meets together
	tight    []set             // each: pieces that some host would meet together less all that any one form of them asks
	eased    [subtree + 1]bool // by rule: it is remembered what a host meets that fails no more than that
	gone     set               // amounts for which no provider of the whole fleet has room; nil until it is asked for
	few      int               // so many hosts are tried one by one before one of each shape is
	spent    int               // providers looked at
}

// standing is how far the hosts of one class came, and what they have of what they lack there.
type standing struct {
	trees [mostMisses]*index.Tree // the first of them, the rest nil
	count int
	stage int     // the one that they fail
	lack  float64 // how much is lacking, in parts of what is asked
	core  int     // position in explainer.cores: pieces of the ask that they cannot meet together
	stuck []int   // kinds of one of the plans, by, that do not find room together
	by    *plan
	supply
}

// supply is units of a class: free, given out at most, and how many more there would be if nothing were reserved.
type supply struct{ free, of, reserved int }

func newExplainer(s *index.Snapshot, ask resource.Ask, stop Until) *explainer {
	x := &explainer{snapshot: s, stop: stop, plan: compile(s, ask, stop), few: fewTrees}
	x.host = newHost(x.plan)
	x.loose = x.host
	if len(x.plan.subtrees) > 0 || x.plan.isolate {
		if len(x.plan.subtrees) > 0 && x.plan.isolate {
			x.apart = newHost(x.plan.relaxed(true))
		}
		x.loose = newHost(x.plan.relaxed(false))
	}
	for _, place := range x.plan.sharing {
		if x.lenders == nil {
			x.lenders = map[index.No][]index.Place{}
		}
		for _, a := range place.Node().Aggregates {
			x.lenders[a] = append(x.lenders[a], place)
		}
	}
	x.pieces = takeApart(ask, x.plan)
	return x
}

// pass finds for each host the stage it fails; it stops and says false when a host fails none.
func (x *explainer) pass() bool {
	x.narrow = x.narrowest()
	x.outside = x.snapshot.Len() - x.narrow.size
	x.stages = x.plan.stages(x.loose.plan, x.outside > 0)
	if x.outside > 0 {
		x.intern(x.narrow.core(x))
	}
	room := min(x.narrow.size, 16)
	x.known, x.classes = make(map[index.Shape]int, room), make([]standing, 0, room)
	for t := range x.narrow.trees {
		if at, known := x.class(t); known {
			x.classes[at].join(t)
			continue
		}
		st := standing{trees: [mostMisses]*index.Tree{t}, count: 1}
		if x.judge(&st); st.stage == len(x.stages) {
			return false
		}
		x.enter(t, st)
	}
	x.order = make([]int, len(x.classes))
	for i := range x.order {
		x.order[i] = i
	}
	slices.SortFunc(x.order, func(a, b int) int {
		return cmp.Or(x.classes[b].stage-x.classes[a].stage, cmp.Compare(x.classes[a].lack, x.classes[b].lack), a-b)
	})
	return true
}

// class finds the class of a tree.
func (x *explainer) class(t *index.Tree) (at int, known bool) {
	if x.plan.named(t) {
		at, known = x.single[t]
		return at, known
	}
	at, known = x.known[t.Shape]
	return at, known
}

// enter begins a class with a tree.
func (x *explainer) enter(t *index.Tree, st standing) int {
	at := len(x.classes)
	x.classes = append(x.classes, st)
	if x.plan.named(t) {
		if x.single == nil {
			x.single = map[*index.Tree]int{}
		}
		x.single[t] = at
	} else {
		x.known[t.Shape] = at
	}
	return at
}

// join counts one more host of the class.
func (st *standing) join(t *index.Tree) {
	if st.count < mostMisses {
		st.trees[st.count] = t
	}
	st.count++
}

// furthest is the last stage that any host has reached: the one that takes the last of them.
func (x *explainer) furthest() int {
	if len(x.order) == 0 {
		return 0
	}
	return x.classes[x.order[0]].stage
}

// passing counts the hosts that pass a stage and all before it.
func (x *explainer) passing(stage int) int {
	n := 0
	for i := range x.classes {
		if x.classes[i].stage > stage {
			n += x.classes[i].count
		}
	}
	return n
}

// judge finds the first stage that a tree fails, or the number of stages; and why.
func (x *explainer) judge(st *standing) {
	t := st.trees[0]
	x.spent += len(t.Nodes)
	why := x.marker(x.pieces.items, nil, x.host)
	switch {
	case !x.host.anchors(t):
		st.stage = x.stage(rooted, 0)
		x.unrooted(why, x.plan, t)
	case !x.host.survey(t):
		x.starve(st, why)
	default:
		h, r := x.crowd(t)
		if h == nil {
			st.stage = len(x.stages)
			return
		}
		st.stage = x.stage(r, 0)
		if r == together {
			st.stage = x.stage(r, h.stuck)
		}
		st.lack = h.lack(&h.plan.parts[h.stuck])
		st.by, st.stuck = h.plan, h.plan.parts[h.stuck].kinds
		x.ease(r)
		why.host = h
		x.blame(why, h)
	}
	st.core = x.intern(why)
}

// crowd finds the first of the three plans that a surveyed host fails, from the loosest on.
func (x *explainer) crowd(t *index.Tree) (*host, rule) {
	for _, h := range []*host{x.loose, x.apart, x.host} {
		if h == nil {
			continue
		}
		if h != x.host {
			h.like(x.host)
		}
		switch {
		case h.solve():
		case h == x.loose:
			return h, together
		case h == x.apart || len(x.plan.subtrees) == 0:
			return h, isolated
		default:
			return h, subtree
		}
	}
	return nil, 0
}

// like takes over what the survey of another host found, whose plan has the same items.
func (h *host) like(o *host) {
	h.tree, h.spots, h.room, h.lent = o.tree, o.spots, o.room, o.lent
	for k := range h.kinds {
		h.domains[k] = o.domains[o.items[h.kinds[k].items[0]].kind]
	}
}

// lack is how much of a section's classes a surveyed host lacks.
func (h *host) lack(s *section) (lack float64) {
	for _, class := range s.classes {
		asked, free := 0, 0
		h.counted = zeros(h.counted, len(h.spots))
		for _, k := range s.kinds {
			amount := h.kinds[k].amount(class)
			if amount == 0 {
				continue
			}
			asked += amount * len(h.kinds[k].items)
			for _, at := range h.domains[k] {
				if !h.counted[at] {
					h.counted[at] = true
					free += h.left(int(at), class)
				}
			}
		}
		lack += float64(max(asked-free, 0)) / float64(max(asked, 1))
	}
	return lack
}

// stage finds a stage by what it looks at.
func (x *explainer) stage(r rule, at int) int {
	return slices.IndexFunc(x.stages, func(s stage) bool { return s.rule == r && s.at == at })
}

// starve finds the first stage that a tree fails on which some kind has nowhere to go.
func (x *explainer) starve(st *standing, why *marker) {
	t := st.trees[0]
	around := x.around(t)
	gauged, eligible := -1, false // a kind, and whether some provider would do if it had room
	for i, s := range x.stages {
		st.stage = i
		switch s.rule {
		case offered:
			class := x.plan.classes[s.at]
			if !t.Has(class) && !slices.ContainsFunc(around[len(t.Nodes):], func(at index.Place) bool { return offers(at, class) }) {
				why.amounts(x.plan, slices.IndexFunc(x.plan.kinds, func(k kind) bool { return k.amount(s.at) > 0 }))
				return
			}
		case qualified, free:
			if x.host.admitted(s.at) {
				continue
			}
			k, able := &x.plan.kinds[s.at], (*kind).offered
			if s.rule == free {
				able = (*kind).vacant
			}
			if gauged != s.at && (s.rule == free || len(k.needs) == 1) {
				gauged, eligible = s.at, x.gauge(st, s.at, around)
			}
			switch {
			case s.rule == qualified && gauged == s.at:
				if eligible {
					continue
				}
			case s.rule == free && x.host.looked: // the survey has tried the same
			case slices.ContainsFunc(around, func(at index.Place) bool { return able(k, at) && k.admits(t, at) }):
				continue
			}
			if s.rule == qualified {
				st.lack = 0 // of what is not there at all
			}
			x.excuse(why, x.plan, s.at, t, around, able)
			return
		}
	}
}

// admitted says whether a kind has somewhere to go on a surveyed host.
func (h *host) admitted(kind int) bool { return len(h.domains[kind]) > 0 }

// around lists the providers that could serve a tree if they had what it takes: its own, then the sharing ones connected
// with it. The list is good until the next call.
func (x *explainer) around(t *index.Tree) []index.Place {
	out := x.near[:0]
	for i := range t.Nodes {
		out = append(out, index.Place{Tree: t, At: i})
	}
	if x.lenders != nil {
		for _, a := range t.Aggregates {
			for _, s := range x.lenders[a] {
				if s.Tree != t && !slices.Contains(out[len(t.Nodes):], s) {
					out = append(out, s)
				}
			}
		}
	}
	x.near = out
	return out
}

func offers(at index.Place, class index.No) bool {
	st := at.Node().Stock(class)
	return st != nil && st.Offered()
}

// offered says whether a provider has inventory of all that the kind asks.
func (k *kind) offered(at index.Place) bool {
	for _, n := range k.needs {
		if !offers(at, n.number) {
			return false
		}
	}
	return true
}

// vacant says whether a provider has room for one item of the kind.
func (k *kind) vacant(at index.Place) bool { return k.fits(at.Node()) }

// admits says whether a provider has the traits, aggregates and tree of the kind, for candidates of the tree.
func (k *kind) admits(t *index.Tree, at index.Place) bool {
	switch {
	case !k.spread:
		return k.suits(at)
	case at.Tree == t:
		return k.suitsTree(at)
	}
	return !k.inTree && k.suits(at) && !inAny(t.Top(), k.without)
}
