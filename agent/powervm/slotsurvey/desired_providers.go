// Package slotsurvey computes the desired providers of a PowerVM host in Placement: one below the host for each I/O
// slot that the inventory file allows.
//
//	cmp1  VCPU MEMORY_MB DISK_GB
//	├─ PowerVM IOSlot cmp1 1C0FFEE1  CUSTOM_GPU 1
//	└─ PowerVM IOSlot cmp1 1C0FFEE2  CUSTOM_GPU 1 (1 reserved)    a partition that Placement does not count has it
//
// It owns the children of the host with such names, and no other provider. A slot that a guest holds, or for which
// Placement has an allocation, keeps its provider, whatever the system and the file say: an observation frees no
// allocation. The rules, such as R24, are in docs/behaviour/powervm-ioslots.md. The package does no I/O.
package slotsurvey

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Facts are the input.
type Facts struct {
	Host string // hypervisor hostname
	Part
	Held   []Claim       // slots of the guests of this host, by the agent's journal
	Actual provider.Tree // as Placement has it; may be empty
	// Consumers are the amounts that each consumer holds of each provider in Actual.
	Consumers map[provider.ID]map[resource.ConsumerID]resource.Amounts
}

// Claim is a slot that a guest holds.
type Claim struct {
	Slot   ioslot.Index
	Holder resource.ConsumerID
	Class  resource.Class // as which it was claimed
}

// Result is the desired state.
type Result struct {
	// Tree is the host's tree with the providers of slots. Their inventories hold exactly, the reserved amount included:
	// it may be lower than the present one.
	Tree provider.Tree
	// Slots are the providers of slots in Tree.
	Slots map[provider.ID]ioslot.Index
	// Orphans are providers of slots in Actual that must be deleted. No allocation needs them.
	Orphans []provider.Provider
	Notes   []survey.Note
}

// maxName is the length of the longest name of a provider in Placement, in characters.
const maxName = 200

// Desired adds the providers of slots to the desired tree of the host, which package survey computes. Without a list of
// slots from the system it adds and deletes none: what Placement has stays as it is (S8).
//
// Invalid when two paragraphs allow one device, when the tree has no root, or when the names would be too long for
// Placement. Then nothing may be written (R40).
func Desired(host provider.Tree, f Facts) (Result, error) {
	root, ok := host.Root()
	if !ok {
		return Result{}, fault.New(fault.Invalid, "the tree of host %s has no root, below which its I/O slots belong",
			f.Host)
	}
	s := planner{Facts: f, root: root, tree: provider.Tree{Providers: slices.Clone(host.Providers)},
		slots: map[provider.ID]ioslot.Index{}}
	for _, p := range f.System.Problems {
		s.note(p.About, "%s", p.Sentence)
	}
	if !f.System.Reported {
		s.note(cmp.Or(f.System.Name, f.Host), "the system does not report its I/O slots, perhaps because it starts; their "+
			"providers stay as they are")
		return s.result(), nil
	}
	decisions, problems := f.Rules.DecideAll(f.System.Slots)
	if len(problems) > 0 {
		return Result{}, fault.New(fault.Invalid, "%s", overlapText(problems))
	}
	if name := ioslot.ProviderName(s.nameHost(), 0); utf8.RuneCountInString(name) > maxName {
		return Result{}, fault.New(fault.Invalid, "the names of providers such as %q are longer than %d characters; "+
			"shorten [DEFAULT] host", name, maxName)
	}
	s.plan(decisions)
	return s.result(), nil
}

// overlapText returns the first slot that two paragraphs allow, and the number of further ones.
func overlapText(problems []inventoryfile.Problem) string {
	if len(problems) == 1 {
		return problems[0].String()
	}
	return fmt.Sprintf("%s (and %d more slots; `berth agent check` lists all)", problems[0], len(problems)-1)
}

// ClassFromDevice returns the class that fits a PCI class: a display or 3D controller, or a processing accelerator; ""
// for others (G5).
func ClassFromDevice(s ioslot.Slot) resource.Class {
	if !s.Class.Known {
		return ""
	}
	switch {
	case s.Class.Value == 0x0300 || s.Class.Value == 0x0302:
		return "PGPU"
	case s.Class.Value>>8 == 0x12:
		return "CUSTOM_ACCELERATOR"
	}
	return ""
}

func (s *planner) result() Result {
	slices.SortFunc(s.orphans, func(a, b provider.Provider) int { return cmp.Compare(a.Name, b.Name) })
	return Result{Tree: s.tree.Sorted(), Slots: s.slots, Orphans: s.orphans, Notes: s.notes}
}

// nameHost returns the host in names of providers.
func (f Facts) nameHost() string {
	if f.PlainNames {
		return ""
	}
	return f.Host
}

// consumers returns the consumers that hold something of a provider, sorted.
func (s *planner) consumers(id provider.ID) (list []resource.ConsumerID) {
	for consumer, amounts := range s.Consumers[id] {
		if slices.ContainsFunc(slices.Collect(maps.Values(amounts)), func(n int) bool { return n > 0 }) {
			list = append(list, consumer)
		}
	}
	slices.Sort(list)
	return list
}

// usedClass returns the class of which consumers hold something of a provider, or "". If it is several, it is the
// first by name.
func (s *planner) usedClass(id provider.ID) resource.Class {
	total := resource.Amounts{}
	for _, amounts := range s.Consumers[id] {
		for class, n := range amounts {
			if n > 0 {
				total[class] += n
			}
		}
	}
	for _, class := range total.Sorted() {
		return class
	}
	return ""
}
