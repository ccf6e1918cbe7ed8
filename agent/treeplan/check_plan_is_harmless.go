package treeplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Check judges a plan by its outcome, independently of how it was made: a plan must not change what the agent does not
// own, delete inventory that is held, or reduce a consumer's allocation. A plan with one objection is discarded whole.
func Check(p Plan, aim Aim, actual provider.Tree, uses Uses, marks OwnedSet) []Objection {
	c := checker{aim: aim, actual: actual, after: Apply(p, actual), uses: uses, owned: marks}
	for _, s := range p.Steps {
		c.step(s)
		if s.Op == Reshape {
			c.uses = usesAfter(uses, s)
		}
	}
	for _, before := range actual.Providers {
		after, exists := c.after.ByID(before.ID)
		c.shares(before, after, exists)
		if exists {
			c.foreign(before, after)
		}
	}
	return c.objections
}

type checker struct {
	aim           Aim
	actual, after provider.Tree
	uses          Uses
	owned         OwnedSet
	objections    []Objection
}

func (c *checker) addObjection(p provider.Provider, class resource.Class, consumers []resource.ConsumerID,
	format string, args ...any) {
	c.objections = append(c.objections, Objection{Provider: p.ID, Name: p.Name, Class: class, Consumers: consumers,
		Text: "the plan is refused: " + fmt.Sprintf(format, args...)})
}

// owns reports whether the agent of this tree may change the provider.
func (c *checker) owns(p provider.Provider) bool {
	root, _ := c.actual.Root()
	if p.ID == root.ID || p.HasTrait(Managed) || c.aim.owns(p, c.actual) || isNode(p, root) {
		return true
	}
	address, ok := strings.CutPrefix(p.Name, root.Name+"_")
	_, err := pci.ParseAddress(address)
	return ok && err == nil
}

// accepts reports whether device providers may be below a provider: the root, or the bandwidth provider of a device.
func (c *checker) accepts(parent provider.ID) bool {
	p, exists := c.actual.ByID(parent)
	n, is := bandwidth.Recognise(p)
	return exists && (p.Parent == "" || is && n.Device != "")
}

func (c *checker) step(s Step) {
	if s.Op == CreateClass || s.Op == CreateTrait {
		return
	}
	if s.Op == Reshape {
		c.reshape(s)
		return
	}
	p, exists := c.actual.ByID(s.Provider)
	switch {
	case s.Op == CreateProvider:
		if _, taken := c.actual.ByName(s.Name); taken || exists {
			c.addObjection(p, "", nil, "it creates %s, which exists", s.Name)
		}
	case !exists:
		if other, _ := c.after.ByID(s.Provider); other.ID == "" {
			c.addObjection(p, "", nil, "it touches %s (%s), which is not in the tree", s.Name, s.Provider)
		}
	case !c.owns(p):
		c.addObjection(p, "", nil, "it touches %s, which is not this agent's", p.Name)
	case s.Op == MoveProvider && (s.Name != p.Name || !c.accepts(s.Parent)):
		c.addObjection(p, "", nil, "it moves %s below %s, which is neither the root nor a bandwidth provider", p.Name,
			s.Parent)
	case s.Generation != p.Generation:
		c.addObjection(p, "", nil, "it was made for generation %d of %s, which is at %d", s.Generation, p.Name, p.Generation)
	}
}

// reshape checks the allocations that a reshape writes: no consumer loses anything, and none gets more than its guest
// has.
func (c *checker) reshape(s Step) {
	for _, id := range slices.Sorted(maps.Keys(s.InventorySets)) {
		p, exists := c.actual.ByID(id)
		_, created := c.after.ByID(id)
		switch {
		case !exists && !created:
			c.addObjection(p, "", nil, "it touches %s, which is not in the tree", id)
		case exists && !c.widens(p, s.InventorySets[id]):
			c.step(Step{Op: PutInventories, Provider: id, Name: p.Name, Generation: s.InventorySets[id].Generation})
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(s.Allocations)) {
		guest := c.withoutPlace(c.aim.Expected[consumer].all())
		was, next := c.withoutPlace(c.aim.Allocations[consumer]), c.withoutPlace(s.Allocations[consumer])
		for id, amounts := range was.Excess(next) {
			for class, n := range amounts {
				c.addObjection(provider.Provider{ID: id}, class, []resource.ConsumerID{consumer}, "%s would lose %d %s of %s",
					consumer, n, class, id)
			}
		}
		for id, amounts := range next {
			for class, n := range amounts {
				if n > was[id][class] && n > guest[id][class] {
					c.addObjection(provider.Provider{ID: id}, class, []resource.ConsumerID{consumer},
						"%s would get %d %s of %s, and its guest has %d", consumer, n, class, id, guest[id][class])
				}
			}
		}
	}
}

// widens reports whether a reshape only raises totals and limits of a bandwidth provider that this agent has written:
// what a guest holds of one that is reserved whole could not be written otherwise.
func (c *checker) widens(p provider.Provider, to InventorySet) bool {
	_, recognised := bandwidth.Recognise(p)
	_, written := c.owned[p.ID]
	if !recognised || !written || to.Generation != p.Generation || len(to.Inventories) != len(p.Inventories) {
		return false
	}
	for class, next := range to.Inventories {
		now := p.Inventories[class]
		if next.Total < now.Total || next.MaxUnit < now.MaxUnit {
			return false
		}
		if now.Total, now.MaxUnit = next.Total, next.MaxUnit; now != next {
			return false
		}
	}
	return true
}

// withoutPlace returns an allocation with all dedicated CPUs of this host as those of the root, wherever they are, and
// without the other classes of nodes that have none of them after the plan.
func (c *checker) withoutPlace(a resource.Allocation) resource.Allocation {
	out := a.Clone()
	root, _ := c.actual.Root()
	cpus := dedicated(a, c.after)
	for _, node := range append(nodesOf(c.actual), nodesOf(c.after)...) {
		after, _ := c.after.ByID(node.ID)
		maps.DeleteFunc(out[node.ID], func(class resource.Class, _ int) bool {
			_, stays := after.Inventories[class]
			return class == numa.DedicatedCPUs || numa.IsNodeClass(class) && !stays
		})
	}
	if out[root.ID] == nil {
		out[root.ID] = resource.Amounts{}
	}
	out[root.ID][numa.DedicatedCPUs] = cpus
	return out
}

// usesAfter returns what consumers hold of providers after a reshape.
func usesAfter(uses Uses, reshape Step) Uses {
	out := Uses{}
	for id, consumers := range uses {
		out[id] = maps.Clone(consumers)
		for consumer, next := range reshape.Allocations {
			if out[id][consumer] = next[id]; len(next[id]) == 0 {
				delete(out[id], consumer)
			}
		}
	}
	return out
}

// shares checks that held inventory stays.
func (c *checker) shares(before, after provider.Provider, exists bool) {
	for _, class := range slices.Sorted(maps.Keys(before.Inventories)) {
		holders, used := c.uses.holders(before.ID, class)
		if len(holders) == 0 {
			continue
		}
		was, is := before.Inventories[class], after.Inventories[class]
		switch {
		case !exists:
			c.addObjection(before, class, holders, "it deletes %s, and %s", before.Name, heldBy(holders))
		case is.Total == 0:
			c.addObjection(before, class, holders, "it drops %s of %s, and %s", class, before.Name, heldBy(holders))
		case before.Parent != "" && is.Total < was.Total && is.Total < used:
			c.addObjection(before, class, holders, "it leaves %d %s of %s, and %s", is.Total, class, before.Name,
				heldBy(holders))
		}
	}
}

// returned reports whether the provider's device has been cleaned.
func (c *checker) returned(p provider.Provider) bool {
	want, wanted := c.aim.Tree.ByName(p.Name)
	return wanted && c.aim.Returned[want.ID]
}

// foreign checks that what other clients wrote to the agent's providers stays.
func (c *checker) foreign(before, after provider.Provider) {
	ours := map[resource.Class]bool{}
	for _, class := range c.owned[before.ID].Classes {
		ours[class] = true
	}
	if before.Parent == "" {
		for _, class := range rootClasses {
			ours[class] = true
		}
	} else if root, _ := c.actual.Root(); isNode(before, root) {
		for class := range nodeClasses(before) {
			ours[class] = true
		}
	} else if _, remembered := c.owned[before.ID]; !remembered &&
		(before.HasTrait(Managed) || c.aim.owns(before, c.actual)) && len(before.Inventories) == 1 {
		ours[slices.Collect(maps.Keys(before.Inventories))[0]] = true
	}
	for _, class := range slices.Sorted(maps.Keys(before.Inventories)) {
		was, is := before.Inventories[class], after.Inventories[class]
		if is.Total == 0 && !ours[class] {
			c.addObjection(before, class, nil, "it takes %s from %s, which others put there", class, before.Name)
		}
		if is.Total > 0 && !c.returned(before) && !(before.Parent == "" && slices.Contains(c.aim.ReservedClasses, class)) &&
			is.Reserved < min(was.Reserved, is.Total) {
			c.addObjection(before, class, nil, "it lowers the reserved %s of %s from %d to %d", class, before.Name, was.Reserved,
				is.Reserved)
		}
	}
	for _, t := range before.Traits {
		if !after.HasTrait(t) && !slices.Contains(c.owned[before.ID].Traits, t) {
			c.addObjection(before, "", nil, "it takes the trait %s from %s, which others put there", t, before.Name)
		}
	}
}
