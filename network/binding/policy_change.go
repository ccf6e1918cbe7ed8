package binding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/resource"
)

// Share is what a port has of one provider, for one request group.
type Share struct {
	Provider string
	Amounts  resource.Amounts
}

// Change is what a new policy means for the allocation of a bound port.
type Change struct {
	// Diff has the amounts to add, or to subtract if negative, by provider and class. It has no zeros.
	Diff map[string]map[resource.Class]int
	// Allocated has the shares of the port afterwards, by the ids of the new groups.
	Allocated map[string]Share
	// Place lists the new groups for which the port has no provider yet.
	Place []qos.Group
}

// typeOf returns the type of the rules that a share is for.
func typeOf(s Share) qos.Type {
	for c := range s.Amounts {
		if strings.HasPrefix(string(c), "NET_PACKET_RATE") {
			return qos.MinimumPacketRate
		}
	}
	return qos.MinimumBandwidth
}

// ForPolicy computes the change from the shares of a bound port to the groups of its new policy. A type of rule stays
// on its provider. refusal is why that is not possible: a packet rate without a direction and one with a direction are
// inventories of different providers.
func ForPolicy(shares map[string]Share, groups []qos.Group) (c Change, refusal string) {
	c = Change{Diff: map[string]map[resource.Class]int{}, Allocated: map[string]Share{}}
	left := maps.Clone(shares)
	for _, g := range groups {
		id := slices.Sorted(maps.Keys(left))
		at := slices.IndexFunc(id, func(id string) bool { return typeOf(left[id]) == g.Type })
		if at < 0 {
			c.Place = append(c.Place, g)
			continue
		}
		old := left[id[at]]
		delete(left, id[at])
		if g.Type == qos.MinimumPacketRate && undirected(old.Amounts) != undirected(g.Resources) {
			return Change{}, fmt.Sprintf("the policy of a bound port cannot change between a minimum packet rate with "+
				"direction any and one with direction egress or ingress (group %s); detach the port first", g.ID)
		}
		c.add(old.Provider, old.Amounts, -1)
		c.add(old.Provider, g.Resources, 1)
		c.Allocated[g.ID] = Share{old.Provider, g.Resources.Positive()}
	}
	for _, old := range left {
		c.add(old.Provider, old.Amounts, -1)
	}
	return c, ""
}

func undirected(a resource.Amounts) bool { _, ok := a[bandwidth.PacketRate]; return ok }

// Placed adds a share for a group of Place.
func (c *Change) Placed(g qos.Group, provider string) {
	c.add(provider, g.Resources, 1)
	c.Allocated[g.ID] = Share{provider, g.Resources.Positive()}
}

func (c *Change) add(provider string, amounts resource.Amounts, sign int) {
	for class, n := range amounts {
		if n == 0 {
			continue
		}
		if c.Diff[provider] == nil {
			c.Diff[provider] = map[resource.Class]int{}
		}
		if c.Diff[provider][class] += sign * n; c.Diff[provider][class] == 0 {
			delete(c.Diff[provider], class)
		}
		if len(c.Diff[provider]) == 0 {
			delete(c.Diff, provider)
		}
	}
}

// State is how far the change of a consumer's allocation is.
type State string

// The states of an allocation. Other means that another client has changed the same amounts.
const (
	Before State = "before"
	After  State = "after"
	Other  State = "other"
)

// StateOf compares the allocation of a consumer with what it was before a change and is after it, for the providers and
// classes of the change.
func StateOf(now resource.Allocation, before, after map[string]map[string]int) State {
	isBefore, isAfter := true, true
	for p, classes := range before {
		for class := range classes {
			n := now[resource.ProviderID(p)][resource.Class(class)]
			isBefore = isBefore && n == before[p][class]
			isAfter = isAfter && n == after[p][class]
		}
	}
	switch {
	case isAfter:
		return After
	case isBefore:
		return Before
	}
	return Other
}

// Amounts returns the amounts of a consumer before and after a difference, by provider and class. refusal is why the
// difference cannot be made: the consumer has less than is to be subtracted.
func Amounts(now resource.Allocation, diff map[string]map[resource.Class]int) (before, after map[string]map[string]int,
	refusal string) {
	before, after = map[string]map[string]int{}, map[string]map[string]int{}
	for p, classes := range diff {
		before[p], after[p] = map[string]int{}, map[string]int{}
		for class, n := range classes {
			had := now[resource.ProviderID(p)][class]
			before[p][string(class)], after[p][string(class)] = had, had+n
			if had+n < 0 {
				refusal = fmt.Sprintf("the consumer has %d of %s on provider %s, and %d are to be subtracted", had, class, p, -n)
			}
		}
	}
	return before, after, refusal
}

// CorrectAmounts checks after, the amounts that Amounts has computed for a difference, against what the ports of the
// consumer have been given, and corrects it: a consumer with less than that gets what the ports are given afterwards,
// if it has as much. refusal is why the difference cannot be made, at is the provider: the consumer has nothing there,
// or less than its ports are to have. Only the difference would be allocated, which is less than the policy guarantees.
func CorrectAmounts(now, given resource.Allocation, diff map[string]map[resource.Class]int,
	after map[string]map[string]int) (at resource.ProviderID, refusal string) {
	for _, p := range slices.Sorted(maps.Keys(diff)) {
		at = resource.ProviderID(p)
		raises := slices.ContainsFunc(slices.Collect(maps.Values(diff[p])), func(n int) bool { return n > 0 })
		classes := maps.Clone(diff[p])
		for class := range given[at] {
			if _, changes := classes[class]; !changes && raises {
				classes[class] = 0
			}
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			had, was := now[at][class], given[at][class]
			switch next := was + classes[class]; {
			case had >= was:
			case len(now[at]) == 0:
				return at, fmt.Sprintf("it has nothing of provider %s, of which its ports have %d of %s", p, was, class)
			case next <= had:
				after[p][string(class)] = max(next, 0)
			default:
				return at, fmt.Sprintf("it has %d of %s of provider %s, of which its ports have %d", had, class, p, was)
			}
		}
	}
	return "", ""
}

// Apply returns an allocation with the amounts of after in place of its own. Zeros and empty providers are left out.
func Apply(now resource.Allocation, after map[string]map[string]int) resource.Allocation {
	out := resource.Allocation{}
	for p, amounts := range now {
		out[p] = maps.Clone(amounts)
	}
	for p, classes := range after {
		id := resource.ProviderID(p)
		if out[id] == nil {
			out[id] = resource.Amounts{}
		}
		for class, n := range classes {
			if out[id][resource.Class(class)] = n; n <= 0 {
				delete(out[id], resource.Class(class))
			}
		}
		if len(out[id]) == 0 {
			delete(out, id)
		}
	}
	return out
}
