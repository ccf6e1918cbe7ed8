package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// Classes is the view of what a cloud has by class: of all hosts, or of those of one aggregate.
type Classes struct {
	Aggregate   string               // empty: all
	AggregateID resource.AggregateID // of its name; empty: it is not known, or several have the name
	Aggregates  []string             // to choose from
	Hosts, All  int                  // hosts that are counted, and hosts of the cloud
	Rows        []ClassRow
	Groups      []ClassGroup // the aggregates, if all are shown: a cell for each class of Rows
}

// ClassRow is what there is of a class. Of an inventory with an allocation ratio it is what can be allocated.
type ClassRow struct {
	Class resource.Class
	Counts
	Scale int // what a bar of full length is
}

// ClassGroup is what the hosts of an aggregate have.
type ClassGroup struct {
	Name      string
	Aggregate bool // it is an aggregate; else hosts in none, or shared inventory
	Hosts     int
	Cells     []ClassRow // by class; Of is 0 where there is none
}

// Part returns n in thousandths of the length of a bar.
func (r ClassRow) Part(n int) int {
	if r.Scale <= 0 {
		return 0
	}
	return int(1000 * min(max(float64(n)/float64(r.Scale), 0), 1))
}

// Before returns the units that are drawn before those of disabled hosts.
func (r ClassRow) Before() int { return r.Held + r.Spent }

// NumberOf returns n with what it is a part of, as in "3 of 8".
func (r ClassRow) NumberOf(n int) string { return Number(n) + " of " + Number(r.Of) }

// sharedInventory is the group of inventories that several hosts share.
const sharedInventory = "shared, of no host"

// addClasses counts the classes of each host, and of the inventories that hosts share.
func (c *Cloud) addClasses() {
	c.shared = map[resource.Class]Counts{}
	for i := range c.Fleet.Providers {
		p := &c.Fleet.Providers[i]
		to, offers := c.shared, true
		if h := c.byName[c.Fleet.HostOf(p)]; h != nil {
			to, offers = h.counts, h.Offers()
		}
		for class, inventory := range p.Inventories {
			sum := to[class]
			sum.add(countsOfInventory(inventory, p.Used(class), offers))
			to[class] = sum
		}
	}
}

// maxCount bounds what one inventory counts, so that sums do not overflow: an allocation ratio may be of any size.
const maxCount = 1 << 44

// countsOfInventory returns the counts of an inventory. If more is used than it has, Held alone is more than Of.
func countsOfInventory(inventory resource.Inventory, used int, offers bool) Counts {
	whole := inventory
	whole.Reserved = 0
	c := Counts{Held: used, Of: min(max(whole.Capacity(), 0), maxCount)}
	c.Spent = min(max(c.Of-inventory.Capacity(), 0), max(c.Of-used, 0))
	if rest := max(c.Of-used-c.Spent, 0); offers {
		c.Free = rest
	} else {
		c.Off = rest
	}
	return c
}

// ClassesOf returns the view of the classes of an aggregate, or of all hosts for an empty name. It returns nil for an
// unknown aggregate.
func (c *Cloud) ClassesOf(aggregate string) *Classes {
	v, ids := &Classes{Aggregate: aggregate, All: len(c.Hosts)}, []resource.AggregateID(nil)
	for _, a := range c.Aggregates {
		v.Aggregates = append(v.Aggregates, a.Name)
		if a.Name == aggregate {
			ids = append(ids, resource.AggregateID(a.UUID))
		}
	}
	if len(ids) == 1 {
		v.AggregateID = ids[0]
	}
	slices.Sort(v.Aggregates)
	v.Aggregates = slices.Compact(v.Aggregates)
	if aggregate != "" && !slices.Contains(v.Aggregates, aggregate) {
		return nil
	}
	groups, hosts := map[string]map[resource.Class]Counts{}, map[string]int{}
	total := map[resource.Class]Counts{}
	for _, h := range c.Hosts {
		if aggregate != "" && !slices.Contains(h.Aggregates, aggregate) {
			continue
		}
		v.Hosts++
		addCounts(total, h.counts)
		names := h.Aggregates
		if len(names) == 0 {
			names = []string{noAggregate}
		}
		for _, name := range names {
			if groups[name] == nil {
				groups[name] = map[resource.Class]Counts{}
			}
			addCounts(groups[name], h.counts)
			hosts[name]++
		}
	}
	if aggregate == "" && len(c.shared) > 0 {
		addCounts(total, c.shared)
		groups[sharedInventory] = c.shared
	}
	for class, counts := range total {
		v.Rows = append(v.Rows, ClassRow{class, counts, max(counts.Of, counts.Held)})
	}
	slices.SortFunc(v.Rows, func(a, b ClassRow) int { return cmp.Compare(a.Class, b.Class) })
	if aggregate == "" && len(v.Aggregates) > 0 {
		v.addGroups(groups, hosts)
	}
	return v
}

// addCounts adds counts by class.
func addCounts(to, counts map[resource.Class]Counts) {
	for class, one := range counts {
		sum := to[class]
		sum.add(one)
		to[class] = sum
	}
}

// addGroups adds the aggregates by name, then the other groups. The bars of a class have one scale.
func (v *Classes) addGroups(groups map[string]map[resource.Class]Counts, hosts map[string]int) {
	scale := map[resource.Class]int{}
	for _, counts := range groups {
		for class, one := range counts {
			scale[class] = max(scale[class], one.Of, one.Held)
		}
	}
	for name, counts := range groups {
		group := ClassGroup{Name: name, Aggregate: slices.Contains(v.Aggregates, name), Hosts: hosts[name]}
		for _, row := range v.Rows {
			group.Cells = append(group.Cells, ClassRow{row.Class, counts[row.Class], scale[row.Class]})
		}
		v.Groups = append(v.Groups, group)
	}
	slices.SortFunc(v.Groups, func(a, b ClassGroup) int {
		if a.Aggregate != b.Aggregate {
			if a.Aggregate {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}
