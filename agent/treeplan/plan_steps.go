package treeplan

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Op is the operation of a step, in words for people.
type Op string

// The operations. Each may be repeated: an existing name counts as created, a missing provider as deleted.
const (
	CreateClass    Op = "create class"
	CreateTrait    Op = "create trait"
	CreateProvider Op = "create provider"
	MoveProvider   Op = "move provider" // to another parent, or to another name
	PutTraits      Op = "put traits"
	PutInventories Op = "put inventories"
	DeleteProvider Op = "delete provider"
	Reshape        Op = "reshape" // POST /reshaper: inventories and allocations in one
)

// Step is one call to Placement.
type Step struct {
	Op       Op
	Name     string      // of the class, the trait or the provider
	Provider provider.ID // not for classes and traits
	Parent   provider.ID // CreateProvider, MoveProvider: empty for a root
	// Generation is the provider's observed one, 0 for one that the plan creates. When an earlier step of the
	// plan writes to the same provider, the generation that this write returns is used instead.
	Generation  int
	Traits      []resource.Trait                      // PutTraits: all traits of the provider
	Inventories map[resource.Class]resource.Inventory // PutInventories: all inventories of the provider
	Change      string                                // the difference, for people
	// Reshape: all inventories of these providers, with generations as above, and whole allocations of consumers.
	InventorySets map[provider.ID]InventorySet
	Allocations   map[resource.ConsumerID]resource.Allocation
}

// InventorySet is all inventories of one provider, with its generation.
type InventorySet struct {
	Generation  int
	Inventories map[resource.Class]resource.Inventory
}

// String prints the step on one line.
func (s Step) String() string {
	return strings.TrimRight(fmt.Sprintf("%-15s  %s  %s", s.Op, s.Name, s.Change), " ")
}

// Plan is all steps from the actual tree to the desired one.
type Plan struct {
	Steps      []Step
	Objections []Objection            // changes that cannot be made
	Notes      []string               // sentences for the operator
	Warnings   map[provider.ID]string // notes that stay true as long as a consumer holds the provider's devices
	Owned      OwnedSet               // what the agent owns once the plan is executed
	More       bool                   // the plan is incomplete: observe and plan again at once
	// Postponed are the consumers whose devices delay the creation of a provider, until they are confirmed or freed.
	Postponed map[resource.ConsumerID]bool
}

// Empty reports whether the plan has no steps; there may still be objections.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }

// Print writes the plan for people, one step a line.
func (p Plan) Print(w io.Writer) error {
	var b strings.Builder
	if p.Empty() {
		b.WriteString("nothing to do\n")
	}
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
	}
	for _, o := range p.Objections {
		fmt.Fprintf(&b, "%-15s  %s\n", "cannot", o)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "%-15s  %s\n", "note", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Objection is a reason against a change, with a sentence.
type Objection struct {
	Provider  provider.ID
	Name      string                // of the provider
	Class     resource.Class        // a held class, if that is the reason
	Consumers []resource.ConsumerID // the holders of the class
	Text      string
}

// String returns the sentence.
func (o Objection) String() string { return o.Text }

// Apply returns the tree after the plan, if no other client writes to it.
func Apply(p Plan, actual provider.Tree) provider.Tree {
	list := slices.Clone(actual.Providers)
	find := func(id provider.ID) *provider.Provider {
		i := slices.IndexFunc(list, func(p provider.Provider) bool { return p.ID == id })
		if i < 0 {
			return &provider.Provider{} // a step on a missing provider changes nothing
		}
		return &list[i]
	}
	for _, s := range p.Steps {
		switch s.Op {
		case CreateProvider:
			root := s.Provider
			if s.Parent != "" {
				root = find(s.Parent).Root
			}
			list = append(list, provider.Provider{ID: s.Provider, Name: s.Name, Parent: s.Parent, Root: root})
		case MoveProvider:
			at := find(s.Provider)
			at.Name, at.Parent = s.Name, s.Parent
		case PutTraits:
			at := find(s.Provider)
			at.Traits, at.Generation = slices.Clone(s.Traits), at.Generation+1
		case PutInventories:
			at := find(s.Provider)
			at.Inventories, at.Generation = maps.Clone(s.Inventories), at.Generation+1
		case Reshape:
			for id, stock := range s.InventorySets {
				at := find(id)
				at.Inventories, at.Generation = maps.Clone(stock.Inventories), at.Generation+1
			}
		case DeleteProvider:
			list = slices.DeleteFunc(list, func(p provider.Provider) bool { return p.ID == s.Provider })
		}
	}
	return provider.Tree{Providers: list}.Sorted()
}

// traitChange returns the difference of two lists of traits, as `+A -B`.
func traitChange(before, after []resource.Trait) string {
	var parts []string
	for _, t := range after {
		if !slices.Contains(before, t) {
			parts = append(parts, "+"+string(t))
		}
	}
	for _, t := range unique(before) {
		if !slices.Contains(after, t) {
			parts = append(parts, "-"+string(t))
		}
	}
	return strings.Join(parts, " ")
}

// inventoryChange returns the difference of two inventories, as `VCPU 4 → 8, DISK_GB 10 → none`.
func inventoryChange(before, after map[resource.Class]resource.Inventory) string {
	classes := map[resource.Class]bool{}
	for c := range before {
		classes[c] = true
	}
	for c := range after {
		classes[c] = true
	}
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		was, had := before[c]
		is, has := after[c]
		switch {
		case !had:
			parts = append(parts, fmt.Sprintf("%s %d", c, is.Total))
		case !has:
			parts = append(parts, fmt.Sprintf("%s %d → none", c, was.Total))
		case was.Total != is.Total:
			parts = append(parts, fmt.Sprintf("%s %d → %d", c, was.Total, is.Total))
		case was.Reserved != is.Reserved:
			parts = append(parts, fmt.Sprintf("%s %d, reserved %d → %d", c, is.Total, was.Reserved, is.Reserved))
		case was != is:
			parts = append(parts, fmt.Sprintf("%s %d in other shares", c, is.Total))
		}
	}
	return strings.Join(parts, ", ")
}

// heldBy returns a clause that names the consumers; a long list is cut.
func heldBy(consumers []resource.ConsumerID) string {
	const most = 5
	list := make([]string, 0, most+1)
	for i, c := range consumers {
		if i == most {
			list = append(list, fmt.Sprintf("%d others", len(consumers)-most))
			break
		}
		list = append(list, string(c))
	}
	verb := "holds"
	if len(consumers) > 1 {
		verb = "hold"
	}
	return strings.Join(list, ", ") + " " + verb + " of it"
}

func unique(traits []resource.Trait) []resource.Trait {
	return slices.Compact(slices.Sorted(slices.Values(traits)))
}
