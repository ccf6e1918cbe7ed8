package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/fault"
)

// SlotSelection replaces options of the configuration files. Empty fields replace nothing.
type SlotSelection struct {
	Recorded  string   // file with a recorded answer of the REST API, instead of the server
	System    string   // UUID or name of the managed system
	Inventory []string // inventory files
}

// slotCheck is a configuration with the system and the rules that it names.
type slotCheck struct {
	settings Settings
	system   ioslot.System
	rules    inventoryfile.Rules
	report   CheckReport
}

// readSlotCheck reads configuration files, inventory files and the system. Errors of the files are findings; an error
// is returned if something cannot be read.
func readSlotCheck(ctx context.Context, of SlotSelection, files []string) (c slotCheck, err error) {
	s, faults, err := readAll(slog.New(slog.DiscardHandler), files...)
	if err != nil {
		return c, err
	}
	if len(of.Inventory) > 0 {
		s.PowerVM.Files = of.Inventory
	}
	s.PowerVM.Client.System = cmp.Or(of.System, s.PowerVM.Client.System)
	recorded := of.Recorded
	c.settings = s
	c.report = CheckReport{Host: s.Host, Sysfs: recorded, Report: true, Findings: []Finding{},
		Devices: []CheckedDevice{}, Bandwidth: []CheckedProvider{}, Slots: []CheckedSlot{}}
	for _, wrong := range faults {
		c.report.add(LevelError, fault.TextOf(wrong))
	}
	systems, err := s.systems(recorded, nil)
	if err != nil {
		return c, err
	}
	if recorded == "" {
		c.report.Sysfs = "the managed system"
	}
	if session, is := systems.(interface{ Close(context.Context) }); is {
		defer session.Close(context.WithoutCancel(ctx))
	}
	if c.system, err = slotsource.ReadSystem(ctx, systems); err != nil {
		return c, err
	}
	c.rules, err = slotsource.Load(s.PowerVM.Files)
	sentences := slotsource.Problems(err)
	for _, sentence := range sentences {
		c.report.add(LevelError, sentence)
	}
	if len(sentences) > 0 {
		err = nil
	}
	return c, err
}

// adapterVendors are the PCI vendors of adapters and devices that are in Power systems.
var adapterVendors = []uint16{0x1000, 0x1002, 0x1013, 0x1014, 0x1022, 0x1028, 0x1033, 0x103C, 0x104C, 0x1077, 0x10B5,
	0x10DE, 0x10DF, 0x10EC, 0x10EE, 0x111D, 0x1137, 0x1172, 0x1179, 0x11F8, 0x126F, 0x1344, 0x1425, 0x144D, 0x14E4,
	0x15B3, 0x15B7, 0x1657, 0x177D, 0x1912, 0x1924, 0x19A2, 0x19E5, 0x1A03, 0x1B21, 0x1BB1, 0x1C58, 0x1C5C, 0x1CC1,
	0x1D0F, 0x1D78, 0x1DED, 0x1FC1, 0x8086, 0x9005}

// facts returns the input of package slotsurvey.
func (c slotCheck) facts() slotsurvey.Facts {
	return slotsurvey.Facts{Host: c.settings.Host, Part: slotsurvey.Part{System: c.system, Rules: c.rules,
		PlainNames: c.settings.PowerVM.PlainNames, ClassFromDevice: c.settings.PowerVM.ClassFromDevice}}
}

// CheckSlots checks configuration files and inventory files on the I/O slots of a system.
func CheckSlots(ctx context.Context, of SlotSelection, files ...string) (CheckReport, error) {
	c, err := readSlotCheck(ctx, of, files)
	if err != nil {
		return CheckReport{}, err
	}
	c.settings.warnUnknown()
	for _, sentence := range c.settings.warnings {
		c.report.add(LevelWarning, sentence)
	}
	for _, w := range c.rules.Warnings {
		c.report.add(LevelWarning, w.String())
	}
	for _, path := range slotsource.Expand(c.settings.PowerVM.Files) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			c.report.add(LevelWarning, fmt.Sprintf("the inventory file %s does not exist, so it allows no slot; write it, or "+
				"correct [powervm] inventory_files", path))
		}
		if err == nil && info.Mode().Perm()&0o022 != 0 {
			c.report.add(LevelWarning, fmt.Sprintf("the inventory file %s may be written by others than its owner, who would "+
				"decide which adapters guests get; remove that permission (chmod go-w)", path))
		}
	}
	if !c.system.Reported {
		c.report.add(LevelWarning, "the system does not report its I/O slots, perhaps because it starts")
	}
	for _, p := range c.system.Problems {
		c.report.add(LevelWarning, p.String())
	}
	for _, slot := range c.system.Slots {
		switch {
		case slot.WhyNoDevice() != "":
		case !slot.Device.Known:
			c.report.add(LevelWarning, fmt.Sprintf("%s: the system reports no device id of the adapter; firmware of that age "+
				"may report the device id as vendor_id, so identify the slot by drc_index or drc_name", slot))
		case slot.Vendor.Known && !slices.Contains(adapterVendors, slot.Vendor.Value):
			c.report.add(LevelWarning, fmt.Sprintf("%s: its vendor_id %04X is not that of a known vendor; firmware from before "+
				"2017 reports the device id there, so identify the slot by drc_index or drc_name", slot, slot.Vendor.Value))
		}
	}
	verdicts, wrong := slotsurvey.Verdicts(c.facts())
	for _, sentence := range wrong {
		c.report.add(LevelError, sentence)
	}
	for _, v := range verdicts {
		c.report.Slots = append(c.report.Slots, checkedSlot(v))
		if v.Provider != "" && v.Slot.HasCable() {
			c.report.add(LevelWarning, fmt.Sprintf("%s is offered and is a network or storage adapter: Placement does not "+
				"consider what it is connected to", v.Slot))
		}
	}
	for _, sentence := range slotsurvey.UnusedParagraphs(c.facts()) {
		c.report.add(LevelWarning, sentence)
	}
	return c.report, nil
}

func checkedSlot(v slotsurvey.Verdict) CheckedSlot {
	s := CheckedSlot{Index: v.Slot.Index.String(), Description: v.Slot.Description, Properties: map[string]string{},
		Owner: v.Slot.Owner.String(), BusGrouping: v.Slot.BusGrouping, Paragraph: v.Paragraph, Provider: v.Provider,
		ResourceClass: string(v.Class), Why: v.Why}
	for _, key := range ioslot.Keys() {
		if text, ok := v.Slot.Property(key); ok {
			s.Properties[string(key)] = text
		}
	}
	for _, t := range v.Traits {
		s.Traits = append(s.Traits, string(t))
	}
	return s
}

// ExplainSlot returns, as lines, what is decided about a slot and why: its owner, its provider, and what each paragraph
// says. NotFound if the system has no such slot, and Invalid for a text that is neither a DRC index nor a DRC name.
func ExplainSlot(ctx context.Context, slot string, of SlotSelection, files ...string) ([]string, error) {
	c, err := readSlotCheck(ctx, of, files)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range c.system.Slots {
		if s.Index.String() != strings.ToUpper(slot) && s.Name != slot {
			continue
		}
		lines = append(lines, c.rules.Explain(s)...)
		lines = append(lines, fmt.Sprintf("owner: %s", s.Owner))
		if s.BusGrouping {
			lines = append(lines, "its bus must be grouped: the slots of the bus may have to move together")
		}
	}
	if len(lines) == 0 {
		return nil, fault.New(fault.NotFound, "%s has no I/O slot %q; `berth agent ioslots` lists them",
			c.report.Sysfs, slot)
	}
	for _, f := range c.report.Findings {
		lines = append(lines, f.Level+": "+f.Sentence)
	}
	return lines, nil
}

// WriteSlots writes the slots of a system as paragraphs of an inventory file, one for each slot, with comments about
// what the system reports.
func WriteSlots(out io.Writer, slots []CheckedSlot) error {
	var b strings.Builder
	for _, s := range slots {
		fmt.Fprintf(&b, "# %s, %s", cmp.Or(s.Description, "no description"), s.Owner)
		if s.BusGrouping {
			b.WriteString(", bus grouping required")
		}
		b.WriteString("\n")
		switch {
		case s.Provider != "":
			fmt.Fprintf(&b, "# offered by paragraph %s as %s\n", s.Paragraph, s.ResourceClass)
		case s.Why != "":
			fmt.Fprintf(&b, "# not offered, because %s\n", s.Why)
		}
		if same := sameName(slots, s); len(same) > 0 {
			fmt.Fprintf(&b, "# its drc_name is also that of slot %s; drc_index identifies it alone\n", strings.Join(same, ", "))
		}
		fmt.Fprintf(&b, "slot %s:\n  identification:\n", s.Index)
		for _, key := range ioslot.Keys() {
			if text, ok := s.Properties[string(key)]; ok {
				fmt.Fprintf(&b, "    %s: '%s'\n", key, strings.ReplaceAll(text, "'", "''"))
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// sameName returns the indices of the other slots with the DRC name of a slot (C9).
func sameName(slots []CheckedSlot, s CheckedSlot) (indices []string) {
	name := string(ioslot.DRCName)
	for _, other := range slots {
		if other.Index != s.Index && s.Properties[name] != "" && other.Properties[name] == s.Properties[name] {
			indices = append(indices, other.Index)
		}
	}
	return indices
}

// SystemSnapshot returns the server's answer about its managed systems, as a recording for CheckSlots.
func SystemSnapshot(ctx context.Context, files ...string) ([]byte, error) {
	s, faults, err := readAll(slog.New(slog.DiscardHandler), files...)
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	if err != nil {
		return nil, err
	}
	client, err := s.PowerVMClient(nil)
	if err != nil {
		return nil, err
	}
	defer client.Close(ctx)
	return client.RawManagedSystems(ctx)
}
