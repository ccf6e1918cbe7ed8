package slotsurvey

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// planner collects the result.
type planner struct {
	Facts
	root    provider.Provider
	tree    provider.Tree
	slots   map[provider.ID]ioslot.Index
	orphans []provider.Provider
	notes   []survey.Note
}

func (s *planner) note(about, format string, args ...any) {
	s.notes = append(s.notes, survey.Note{About: about, Sentence: fmt.Sprintf(format, args...)})
}

// plan decides about each slot that the system or Placement has, or that a guest holds, by index.
func (s *planner) plan(decisions []inventoryfile.Decision) {
	own := s.own()
	bySlot := map[ioslot.Index]inventoryfile.Decision{}
	indices := map[ioslot.Index]bool{}
	for _, d := range decisions {
		bySlot[d.Slot.Index], indices[d.Slot.Index] = d, true
	}
	for index := range own {
		indices[index] = true
	}
	for _, c := range s.Held {
		indices[c.Slot] = true
	}
	for _, index := range slices.Sorted(maps.Keys(indices)) {
		d, exists := bySlot[index]
		have, others := s.choose(index, own[index])
		paragraph, allowed := d.Allowed()
		claim := s.claim(index)
		why := d.WhyNot()
		switch {
		case !exists && s.System.Incomplete:
			continue // the slot may be one of those that could not be identified
		case !exists:
			why = "the system has no such slot"
		case allowed:
			s.offer(d.Slot, paragraph, have, claim)
			why = "its slot has another provider"
		}
		if !allowed {
			s.retire(index, why, have, claim)
		}
		for _, other := range others {
			s.retire(index, why, &other, nil)
		}
		if len(d.Allowing) > 0 && !allowed && len(d.Denying) == 0 {
			s.note(d.Slot.String(), "is allowed by paragraph %s, but %s", d.Allowing[0], d.Slot.WhyNoDevice()) // C11
		}
	}
	s.noteUnusedParagraphs(decisions)
}

// own returns the providers of slots of this host in Placement: its children with such names, in either form (R27,
// C24). A provider in another tree is never one of them, even with the same name.
func (s *planner) own() map[ioslot.Index][]provider.Provider {
	out := map[ioslot.Index][]provider.Provider{}
	root, ok := s.Actual.Root()
	if !ok {
		return out
	}
	for _, p := range s.Actual.Children(root.ID) {
		host, index, ok, err := ioslot.ParseProviderName(p.Name)
		if ok && err == nil && (host == "" || host == s.Host) {
			out[index] = append(out[index], p)
		}
	}
	return out
}

// choose selects the provider that a slot keeps: one with allocations, or else the one with the configured form of the
// name. others are the rest.
func (s *planner) choose(index ioslot.Index, own []provider.Provider) (have *provider.Provider,
	others []provider.Provider) {
	best := -1
	for i, p := range own {
		used := len(s.consumers(p.ID)) > 0
		if used || best < 0 && p.Name == ioslot.ProviderName(s.nameHost(), index) {
			best = i
		}
		if used {
			break
		}
	}
	for i := range own {
		if i == best {
			have = &own[i]
		} else {
			others = append(others, own[i])
		}
	}
	return have, others
}

func (s *planner) claim(index ioslot.Index) *Claim {
	i := slices.IndexFunc(s.Held, func(c Claim) bool { return c.Slot == index })
	if i < 0 {
		return nil
	}
	return &s.Held[i]
}

// offer adds the provider of an allowed slot (R24 to R39).
func (s *planner) offer(slot ioslot.Slot, paragraph inventoryfile.Paragraph, have *provider.Provider, claim *Claim) {
	p := s.provider(slot.Index, have)
	class := paragraph.ClassOr(s.defaultClass(slot))
	inventory := resource.Whole(1)
	consumers := s.consumers(p.ID)
	if used := s.classInUse(p.ID, claim); used != "" && used != class {
		// The class of a unit that is in use cannot change, and nothing new may use the old one (R44).
		s.note(slot.String(), "has the resource class %s in paragraph %s and keeps %s, because %s; it changes when that ends",
			class, paragraph, used, heldBy(consumers, claim))
		class = used
		inventory.Reserved = min(len(consumers), 1)
	}
	if len(consumers) == 0 && claim == nil && slot.Owner.Kind != ioslot.Unowned {
		inventory.Reserved = 1
		s.note(slot.String(), "is offered by paragraph %s, but %s and has no allocation; it is reserved until it is free",
			paragraph, slot.Owner.Clause())
	}
	p.Inventories = map[resource.Class]resource.Inventory{class: inventory}
	p.Traits = allTraits(slot, paragraph)
	s.add(p, slot.Index)
	if want := ioslot.ProviderName(s.nameHost(), slot.Index); p.Name != want {
		s.note(slot.String(), "keeps the provider %q instead of %q, because %s", p.Name, want,
			heldBy(consumers, claim))
	}
	if slot.HasCable() {
		s.note(slot.String(), "is offered by paragraph %s and is a network or storage adapter: Placement does not consider "+
			"what it is connected to", paragraph)
	}
}

// classInUse returns the class as which a slot is used, or "".
func (s *planner) classInUse(id provider.ID, claim *Claim) resource.Class {
	if used := s.usedClass(id); used != "" {
		return used
	}
	if claim != nil {
		return claim.Class
	}
	return ""
}

// retire keeps the provider of a slot that is not offered while an allocation or a guest needs it, and else has it
// deleted (R41, C21). why is the reason; either of have and claim may be nil.
func (s *planner) retire(index ioslot.Index, why string, have *provider.Provider, claim *Claim) {
	p := s.provider(index, have)
	consumers := s.consumers(p.ID)
	if len(consumers) == 0 && claim == nil {
		if have != nil {
			s.orphans = append(s.orphans, *have)
		}
		return
	}
	p.Inventories = map[resource.Class]resource.Inventory{}
	if have != nil {
		p.Traits, p.Inventories = have.Traits, maps.Clone(have.Inventories)
	}
	if len(p.Inventories) == 0 && claim != nil { // Placement does not have what the guest holds
		class := cmp.Or(claim.Class, inventoryfile.DefaultClass)
		p.Inventories = map[resource.Class]resource.Inventory{class: resource.Whole(1)}
	}
	for class, inventory := range p.Inventories {
		// With an allocation nothing new may follow it. Without one the guest's own must be possible.
		inventory.Reserved = 0
		if len(consumers) > 0 {
			inventory.Reserved = inventory.Total
		}
		p.Inventories[class] = inventory
	}
	s.add(p, index)
	s.note(p.Name, "is not offered any more, because %s, but %s; it is reserved and deleted when that ends", why,
		heldBy(consumers, claim))
}

// provider returns the frame of a slot's provider: that of Placement, or a new one.
func (s *planner) provider(index ioslot.Index, have *provider.Provider) provider.Provider {
	name := ioslot.ProviderName(s.nameHost(), index)
	p := provider.Provider{Name: name, ID: survey.ProviderID(s.root.ID, name)}
	if have != nil {
		p = provider.Provider{Name: have.Name, ID: have.ID, Generation: have.Generation, Aggregates: have.Aggregates}
	}
	p.Parent, p.Root = s.root.ID, s.root.ID
	return p
}

func (s *planner) add(p provider.Provider, index ioslot.Index) {
	s.tree.Providers = append(s.tree.Providers, p)
	s.slots[p.ID] = index
}

// noteUnusedParagraphs reports paragraphs that match no slot, which may have a typing error (R15).
func (s *planner) noteUnusedParagraphs(decisions []inventoryfile.Decision) {
	used := map[string]bool{}
	for _, d := range decisions {
		for _, p := range slices.Concat(d.Allowing, d.Denying) {
			used[p.Name] = true
		}
	}
	for _, p := range s.Rules.Paragraphs {
		if !used[p.Name] {
			s.note(p.At.String(), "paragraph %q matches no I/O slot of this host", p.Name)
		}
	}
}

// heldBy says who uses a slot.
func heldBy(consumers []resource.ConsumerID, claim *Claim) string {
	if len(consumers) == 0 && claim != nil {
		return fmt.Sprintf("the guest %s holds it", claim.Holder)
	}
	names := make([]string, len(consumers))
	for i, c := range consumers {
		names[i] = string(c)
	}
	return fmt.Sprintf("it is allocated to %s", strings.Join(names, ", "))
}
