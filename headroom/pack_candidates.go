package headroom

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// slot is what one provider has of one class.
type slot struct {
	provider provider.ID
	class    resource.Class
}

// need is an amount of the slot with this number.
type need struct{ slot, amount int }

// demand is a bound: each server takes per from the slots together, in multiples of unit.
type demand struct {
	slots     []int
	unit, per int
}

// problem is to choose each option any number of times, as often in total as what is free allows.
type problem struct {
	slots   map[slot]int
	free    []int
	options [][]need
	hosts   []string // of the options
	last    []int    // by slot: the last option that needs it
	demands []demand

	limit  int // no solution is larger
	work   int // the remaining budget of the search
	chosen []int
	best   []int
	most   int
	met    map[string]int // the largest number of servers with which a state was met
}

// maxWork limits the search of all parts together to a fraction of a second for each class of the request. A part gets
// minWork at least.
const (
	maxWork = 2_000_000
	minWork = 20_000
)

// solution is the result of solve.
type solution struct {
	servers, atMost int
	byHost          map[string]int
}

// newProblem returns the problem of a part, with all classes or with only one. work is the budget of the search.
func newProblem(part []Candidate, in Input, only resource.Class, work int) *problem {
	p := &problem{slots: map[slot]int{}, work: work, met: map[string]int{}}
	known := map[string]bool{}
	for _, c := range part {
		option := p.needs(c.Allocation, in.Free, only)
		key := append([]byte(c.Host), 0)
		for _, n := range option {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(n.slot)), uint64(n.amount))
		}
		if !known[string(key)] {
			known[string(key)] = true
			p.options, p.hosts = append(p.options, option), append(p.hosts, c.Host)
		}
	}
	p.last = make([]int, len(p.free))
	for i, option := range p.options {
		for _, n := range option {
			p.last[n.slot] = i
		}
	}
	p.addDemands(part, in)
	p.chosen = make([]int, len(p.options))
	return p
}

// needs returns an allocation as needs, in the order of the slots, and adds the slots that are new.
func (p *problem) needs(a resource.Allocation, free resource.Allocation, only resource.Class) (list []need) {
	for _, id := range slices.Sorted(maps.Keys(a)) {
		for _, class := range a[id].Sorted() {
			if only != "" && class != only {
				continue
			}
			at, known := p.slots[slot{id, class}]
			if !known {
				at = len(p.free)
				p.slots[slot{id, class}] = at
				p.free = append(p.free, free[id][class])
			}
			list = append(list, need{at, a[id][class]})
		}
	}
	return list
}

// addDemands adds a bound for each class, over all providers, and for each group with a suffix, over those that some
// candidate maps it to.
func (p *problem) addDemands(part []Candidate, in Input) {
	units := make([]int, len(p.free)) // the divisor of the amounts that options take of a slot
	for _, option := range p.options {
		for _, n := range option {
			units[n.slot] = divisor(units[n.slot], n.amount)
		}
	}
	byClass := map[resource.Class]demand{}
	for class, total := range (resource.Ask{Groups: in.Groups}).Total() {
		byClass[class] = demand{per: total}
	}
	for s, at := range p.slots {
		d := byClass[s.class]
		d.slots, d.unit = append(d.slots, at), divisor(d.unit, units[at])
		byClass[s.class] = d
	}
	for _, d := range byClass {
		p.addDemand(d)
	}
	for _, g := range in.Groups {
		if g.Suffix == "" {
			continue
		}
		for class, amount := range g.Resources {
			used := map[int]bool{}
			for _, c := range part {
				for _, id := range c.Mappings[g.Suffix] {
					if at, known := p.slots[slot{id, class}]; known {
						used[at] = true
					}
				}
			}
			p.addDemand(demand{slots: slices.Collect(maps.Keys(used)), unit: amount, per: amount})
		}
	}
}

// addDemand adds a bound, if it is about a class of the problem.
func (p *problem) addDemand(d demand) {
	if len(d.slots) > 0 && d.unit > 0 {
		p.demands = append(p.demands, d)
	}
}

// divisor returns the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// solve returns the largest number of servers, or bounds of it if the budget does not suffice.
func (p *problem) solve() solution {
	p.limit = p.bound(0)
	p.search(0, 0)
	s := solution{servers: p.most, atMost: p.most, byHost: map[string]int{}}
	if p.work <= 0 {
		s.atMost = p.limit
	}
	for i, host := range p.hosts {
		if p.best != nil {
			s.byHost[host] += p.best[i]
		}
	}
	return s
}

// search chooses how often to use the options from i on, after it has placed this many servers.
func (p *problem) search(i, servers int) {
	if servers > p.most {
		p.most, p.best = servers, slices.Clone(p.chosen)
	}
	if i == len(p.options) || p.ended() {
		return
	}
	p.work -= len(p.free) + 1
	if servers+p.bound(i) <= p.most || p.wasMet(i, servers) {
		return
	}
	most := p.times(p.options[i])
	p.take(i, most)
	for n := most; ; n-- {
		p.search(i+1, servers+n)
		if n == 0 || p.ended() {
			p.take(i, -n)
			return
		}
		p.take(i, -1)
	}
}

// ended reports whether the best solution is proven, or the budget is used.
func (p *problem) ended() bool { return p.most >= p.limit || p.work <= 0 }

// times returns how often an option fits.
func (p *problem) times(option []need) int {
	least := -1
	for _, n := range option {
		if fits := max(p.free[n.slot], 0) / n.amount; least < 0 || fits < least {
			least = fits
		}
	}
	return max(least, 0)
}

// take uses an option this many times more.
func (p *problem) take(i, times int) {
	p.chosen[i] += times
	for _, n := range p.options[i] {
		p.free[n.slot] -= times * n.amount
	}
}

// bound returns a number of servers that the options from i on cannot exceed.
func (p *problem) bound(i int) int {
	least := -1
	for _, d := range p.demands {
		sum := 0
		for _, at := range d.slots {
			if p.last[at] >= i {
				sum += max(p.free[at], 0) / d.unit * d.unit
			}
		}
		if least < 0 || sum/d.per < least {
			least = sum / d.per
		}
	}
	return max(least, 0)
}

// wasMet reports whether the search was here before with at least as many servers, and records that it is.
func (p *problem) wasMet(i, servers int) bool {
	key := binary.AppendUvarint(nil, uint64(i))
	for at, free := range p.free {
		if p.last[at] >= i {
			key = binary.AppendVarint(key, int64(free))
		}
	}
	if before, met := p.met[string(key)]; met && before >= servers {
		return true
	}
	p.met[string(key)] = servers
	return false
}
