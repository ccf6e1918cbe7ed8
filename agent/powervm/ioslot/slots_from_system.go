package ioslot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/powervm/uom"
)

// System is what the REST API reports of a machine's I/O slots.
type System struct {
	UUID  string
	Name  string
	Slots []Slot // by index
	// Reported: the answer has the list of slots. Without it nothing is known, and nothing may be concluded from the
	// absence of a slot; a list without slots is a system that has none (S8).
	Reported bool
	// Incomplete: a slot of the list could not be identified. Nothing may be concluded from the absence of a slot.
	Incomplete bool
	Problems   []Problem
}

// Problem is a sentence about a slot that the system reports in an unexpected form: what is wrong and what is assumed.
type Problem struct {
	About    string // the slot, or the system
	Sentence string
}

// String prints the problem as a sentence.
func (p Problem) String() string { return p.About + ": " + p.Sentence }

// Find returns the slot with an index.
func (s System) Find(index Index) (Slot, bool) {
	i := slices.IndexFunc(s.Slots, func(slot Slot) bool { return slot.Index == index })
	if i < 0 {
		return Slot{}, false
	}
	return s.Slots[i], true
}

// OwnersReported reports whether the system reports the owners of its slots itself. If not, FromSystem needs the
// partitions.
func OwnersReported(m uom.ManagedSystem) bool { return isTrue(m.Capabilities.SlotOwners) }

// FromSystem derives the slots of a system from its decoded form. partitions are those of the system, virtual I/O
// servers included; they are used only for a system that does not report owners, and nil means that they are not
// known.
//
// It returns something for every input: a value that cannot be read counts as absent and becomes a problem.
func FromSystem(m uom.ManagedSystem, partitions []uom.Partition) System {
	out := System{UUID: strings.ToUpper(m.UUID), Name: m.SystemName}
	if m.IO == nil || m.IO.Slots == nil {
		return out
	}
	out.Reported = true
	owners := OwnersReported(m)
	var assigned map[Index]Owner
	if !owners && partitions != nil {
		assigned = out.assignments(partitions)
	}
	for i, wire := range m.IO.Slots.Slots {
		d := decoder{}
		index, ok := d.index(wire.Index)
		if !ok {
			out.Incomplete = true
			out.addProblem(fmt.Sprintf("slot %d of the list", i+1),
				"its SlotDynamicReconfigurationConnectorIndex %q is not a number of 32 bits; the slot is ignored", wire.Index)
			continue
		}
		if _, twice := out.Find(index); twice {
			out.addProblem(index.String(), "is in the list twice; the first entry counts")
			continue
		}
		slot := d.slot(index, wire)
		reported := d.owner(wire)
		switch {
		case owners || reported.Kind == Owned: // the silence of an old server says nothing, but a name does
			slot.Owner = reported
		case assigned != nil:
			slot.Owner = Owner{Kind: Unowned}
			if owner, ok := assigned[index]; ok {
				slot.Owner = owner
			}
		}
		slot.SRIOV = sriovMode(m, index)
		out.Slots = append(out.Slots, slot)
		for _, sentence := range d.wrong {
			out.addProblem(slot.String(), "%s", sentence)
		}
	}
	slices.SortFunc(out.Slots, func(a, b Slot) int { return int(int64(a.Index) - int64(b.Index)) })
	return out
}

func (s *System) addProblem(about, format string, args ...any) {
	s.Problems = append(s.Problems, Problem{About: about, Sentence: fmt.Sprintf(format, args...)})
}

// assignments returns the owners of slots from the profiles of all partitions (S10).
func (s *System) assignments(partitions []uom.Partition) map[Index]Owner {
	out := map[Index]Owner{}
	for _, p := range partitions {
		d := decoder{}
		owner := Owner{Kind: Owned, UUID: strings.ToUpper(p.UUID), Name: p.Name, Type: p.Type}
		owner.PartitionID = d.small("PartitionID", p.ID)
		for _, text := range p.SlotIndices() {
			index, ok := d.index(text)
			if !ok {
				s.addProblem("partition "+p.Name, "its slot index %q is not a number of 32 bits; it is ignored", text)
				continue
			}
			out[index] = owner
		}
	}
	return out
}

// sriovMode reports whether an adapter in SR-IOV mode has this index. Such a slot lists no owner (S11).
func sriovMode(m uom.ManagedSystem, index Index) bool {
	if m.IO.SRIOV == nil {
		return false
	}
	for _, a := range m.IO.SRIOV.Adapters {
		id, ok := new(decoder).index(a.ID)
		if ok && id == index && strings.TrimSpace(a.Mode) == "Sriov" {
			return true
		}
	}
	return false
}

// decoder reads the decimal text of a slot and collects what is wrong.
type decoder struct{ wrong []string }

func (d *decoder) index(text string) (Index, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	return Index(n), err == nil
}

// number reads a register. Absent and blank text is an unknown number, and so is text that is not a number.
func (d *decoder) number(name, text string, bits int) Number {
	text = strings.TrimSpace(text)
	if text == "" {
		return Number{}
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		d.wrong = append(d.wrong, fmt.Sprintf("its %s %q is not a decimal number of %d bits; it counts as absent", name,
			text, bits))
		return Number{}
	}
	return Known(uint16(n))
}

func (d *decoder) small(name, text string) int { return int(d.number(name, text, 16).Value) }

func (d *decoder) slot(index Index, w uom.IOSlot) Slot {
	s := Slot{Index: index, Name: strings.TrimSpace(w.Name), Description: strings.TrimSpace(w.Description),
		Vendor:       d.number("PCIVendorID", w.Vendor, 16),
		Device:       d.number("PCIDeviceID", w.Device, 16),
		SubsysVendor: d.number("PCISubsystemVendorID", w.SubsysVendor, 16),
		SubsysDevice: d.number("PCISubsystemDeviceID", w.SubsysDevice, 16),
		Class:        d.number("PCIClass", w.Class, 16),
		Revision:     d.number("PCIRevisionID", w.Revision, 8),
		BusGrouping:  isTrue(w.BusGrouping),
		Unassignable: w.Adapter.Unassignable(),
	}
	for _, code := range w.FeatureCodes {
		for one := range strings.SplitSeq(strings.Trim(strings.TrimSpace(code), `"`), ",") {
			if one = strings.TrimSpace(one); one != "" {
				s.FeatureCodes = append(s.FeatureCodes, one)
			}
		}
	}
	return s
}

// owner reads the owner that the system reports: none when the slot has no number of a partition (S10).
func (d *decoder) owner(w uom.IOSlot) Owner {
	if strings.TrimSpace(w.PartitionID) == "" && strings.TrimSpace(w.PartitionUUID) == "" {
		return Owner{Kind: Unowned}
	}
	return Owner{Kind: Owned, PartitionID: d.small("PartitionID", w.PartitionID),
		UUID: strings.ToUpper(strings.TrimSpace(w.PartitionUUID)), Name: strings.TrimSpace(w.PartitionName),
		Type: strings.TrimSpace(w.PartitionType)}
}

func isTrue(text string) bool { return strings.EqualFold(strings.TrimSpace(text), "true") }
