package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// group is a number of devices of one request that must have one value, if their request is in a set.
type group struct {
	request int
	set     int    // -1: none
	value   string // of the family of the set; "" with set: any, to bound the cost
	count   int
}

// solution is a complete assignment for a guest.
type solution struct {
	groups []group
	assignment
}

// transport returns the transport of groups. costs are by request and kind.
func (s *search) transport(groups []group, costs [][]int) transport {
	t := transport{room: s.room}
	for _, g := range groups {
		t.need = append(t.need, g.count)
		if g.value == "" {
			t.cost = append(t.cost, costs[g.request])
			continue
		}
		row := slices.Clone(costs[g.request])
		for k := range row {
			if !slices.Contains(s.kinds[k].Values[s.guest.Sets[g.set].Family], g.value) {
				row[k] = never
			}
		}
		t.cost = append(t.cost, row)
	}
	return t
}

// cards searches the cheapest assignment that gives no card both as a whole and in parts.
type cards struct {
	search *search
	groups []group
	class  map[int]string // of each card: cards of one class are equivalent
	seen   map[string]bool
	limit  int // the cost from which on a solution is of no use; negative: none
	best   *solution
}

// assign returns the cheapest assignment for groups whose cost is below limit, or nil.
func (s *search) assign(groups []group, costs [][]int, limit int) *solution {
	c := cards{search: s, groups: groups, limit: limit}
	t := s.transport(groups, costs)
	c.solve(t, map[int]bool{})
	return c.best
}

// solve assigns, and where a card is given both ways tries again with each of them forbidden. closed has the cards that
// are decided: true if they may only be given in parts.
func (c *cards) solve(t transport, closed map[int]bool) {
	a := t.solve()
	if a.lacking() > 0 || c.limit >= 0 && a.cost >= c.limit {
		return
	}
	card := c.conflict(a)
	if card == NoCard {
		c.best, c.limit = &solution{c.groups, a}, a.cost
		return
	}
	for _, parts := range []bool{true, false} {
		next := maps.Clone(closed)
		next[card] = parts
		if key := c.key(next); c.seen[key] {
			continue
		} else {
			c.seen[key] = true
		}
		narrow := t
		narrow.room = slices.Clone(t.room)
		for k, of := range c.search.kinds {
			if of.Card == card && of.Whole == parts {
				narrow.room[k] = 0
			}
		}
		c.solve(narrow, next)
	}
}

// conflict returns a card that an assignment gives both ways, or NoCard.
func (c *cards) conflict(a assignment) int {
	whole, parts := map[int]bool{}, map[int]bool{}
	for _, use := range a.use {
		for k, n := range use {
			if of := c.search.kinds[k]; n > 0 && of.Card != NoCard {
				if of.Whole {
					whole[of.Card] = true
				} else {
					parts[of.Card] = true
				}
			}
		}
	}
	for _, card := range slices.Sorted(maps.Keys(whole)) {
		if parts[card] {
			return card
		}
	}
	return NoCard
}

// key returns the same text for decisions on equivalent cards.
func (c *cards) key(closed map[int]bool) string {
	if c.class == nil {
		c.class, c.seen = c.search.cardClasses(), map[string]bool{}
	}
	var list []string
	for card, parts := range closed {
		list = append(list, fmt.Sprint(c.class[card], parts))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// cardClasses returns a text for each card that is the same for cards with the same kinds of devices.
func (s *search) cardClasses() map[int]string {
	lists := map[int][]string{}
	for _, k := range s.kinds {
		if k.Card != NoCard {
			lists[k.Card] = append(lists[k.Card],
				fmt.Sprint(len(k.list), " ", k.describe(s.guest, fmt.Sprint(k.Whole), nil, "")))
		}
	}
	out := map[int]string{}
	for card, list := range lists {
		slices.Sort(list)
		out[card] = strings.Join(list, ";")
	}
	return out
}
