package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// kind is a number of free devices that the guest cannot distinguish.
type kind struct {
	Device
	list []int // indexes of Host.Devices
}

// kindsOf sorts the devices that some request can use into kinds, in the order of the first device of each.
func kindsOf(h Host, g Guest) (kinds []kind) {
	exclusive := exclusiveCards(h.Devices)
	at := map[string]int{}
	for i, d := range h.Devices {
		if !slices.Contains(d.Fits, true) {
			continue
		}
		if !exclusive[d.Card] {
			d.Card = NoCard
		}
		key := d.describe(g, fmt.Sprint(d.Card, d.Whole), nil, "")
		n, known := at[key]
		if !known {
			n = len(kinds)
			at[key], kinds = n, append(kinds, kind{Device: d})
		}
		kinds[n].list = append(kinds[n].list, i)
	}
	return kinds
}

// exclusiveCards returns the cards of which both the whole and parts can serve a request.
func exclusiveCards(devices []Device) map[int]bool {
	whole, parts := map[int]bool{}, map[int]bool{}
	for _, d := range devices {
		switch {
		case d.Card == NoCard || !slices.Contains(d.Fits, true):
		case d.Whole:
			whole[d.Card] = true
		default:
			parts[d.Card] = true
		}
	}
	for card := range whole {
		whole[card] = parts[card]
	}
	return whole
}

// describe returns all that distinguishes a device for the guest, with card as the text of its card. rename has other
// names for nodes; family and value are left out of the values.
func (d Device) describe(g Guest, card string, rename map[int]string, value string) string {
	var b strings.Builder
	for _, fits := range d.Fits {
		if fits {
			b.WriteByte('+')
		} else {
			b.WriteByte('-')
		}
	}
	fmt.Fprintf(&b, " %s %d", card, d.Later)
	for _, nodes := range [][]int{d.Near, d.Beside} {
		b.WriteByte('|')
		for _, n := range nodes {
			if name, renamed := rename[n]; renamed {
				b.WriteString(name)
				continue
			}
			fmt.Fprintf(&b, " %d", n)
		}
	}
	for _, s := range g.Sets {
		b.WriteByte('|')
		for _, v := range d.Values[s.Family] {
			if s.Family+"="+v == value {
				v = "*"
			}
			fmt.Fprintf(&b, " %q", v)
		}
	}
	return b.String()
}

// rank returns how near a device is to a guest on nodes, or never if the policy does not allow it; see numa.Rank. The
// policy has no effect on a guest without nodes.
func (d Device) rank(policy pci.NUMAPolicy, nodes []int) int {
	on := func(list []int) bool {
		return slices.ContainsFunc(list, func(n int) bool { return slices.Contains(nodes, n) })
	}
	switch {
	case len(nodes) == 0 || on(d.Near):
		return numa.Local
	case policy == pci.Required:
		return never
	case policy == pci.Socket:
		if on(d.Beside) {
			return numa.Fair
		}
		return never
	case len(d.Near) == 0:
		return numa.Fair
	case policy == pci.Preferred:
		return numa.Distant
	}
	return never
}
