package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/settings"
)

// slotFlags select a system with I/O slots and the inventory files.
type slotFlags struct {
	ConfigFile   []string `help:"Configuration file in OpenStack's syntax; may be repeated, later ones have priority." type:"existingfile" placeholder:"FILE"`
	NovalinkFile string   `help:"Recorded answer to GET /rest/api/uom/ManagedSystem, as of berth agent snapshot. Default: the server of [powervm] url." type:"existingfile" placeholder:"FILE"`
	System       string   `help:"UUID or name of the managed system, if there are several. Default: [powervm] system." placeholder:"SYSTEM"`
	Inventory    []string `help:"Inventory file; may be repeated, later ones have priority. Default: [powervm] inventory_files." type:"path" placeholder:"FILE"`
}

// selection returns the flags that replace options.
func (f slotFlags) selection() settings.SlotSelection {
	return settings.SlotSelection{Recorded: f.NovalinkFile, System: f.System, Inventory: f.Inventory}
}

type agentIOSlotsCmd struct{ slotFlags }

// Run prints the I/O slots of a system as paragraphs of an inventory file.
func (c *agentIOSlotsCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	checked, err := settings.CheckSlots(ctx, c.selection(), c.ConfigFile...)
	if err != nil {
		return err
	}
	if g.Output == "json" {
		enc := json.NewEncoder(s.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(checked.Slots)
	}
	for _, f := range checked.Findings {
		if _, err := fmt.Fprintf(s.out, "# %s: %s\n", f.Level, f.Sentence); err != nil {
			return err
		}
	}
	return settings.WriteSlots(s.out, checked.Slots)
}

type agentExplainCmd struct {
	Slot string `arg:"" help:"DRC index, such as 1C0FFEE1, or DRC name."`
	slotFlags
}

// Run prints what is decided about an I/O slot, and why.
func (c *agentExplainCmd) Run(ctx context.Context, s streams) error {
	lines, err := settings.ExplainSlot(ctx, c.Slot, c.selection(), c.ConfigFile...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, strings.Join(lines, "\n"))
	return err
}

// printCheckedSlots prints how the inventory files apply to each I/O slot.
func printCheckedSlots(s streams, c settings.CheckReport) error {
	offered, rows := 0, [][]string{}
	for _, slot := range c.Slots {
		what := slot.Why
		if slot.Provider != "" {
			offered++
			if what == "" {
				what = strings.Join(slot.Traits, " ")
			}
		}
		rows = append(rows, []string{slot.Index, slot.Properties["drc_name"],
			slot.Properties["vendor_id"] + ":" + slot.Properties["device_id"], slot.Owner, cmp.Or(slot.Provider, "-"),
			cmp.Or(slot.ResourceClass, "-"), what})
	}
	if err := cli.PrintTable(s.out, s.wide, []string{"Slot", "Name", "ID", "Owner", "Provider", "Class",
		"Traits, or why it is not offered"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%d I/O slots in %s, %d of them offered; %d errors, %d warnings\n", len(c.Slots), c.Sysfs,
		offered, c.Errors(), c.Warnings())
	return err
}
