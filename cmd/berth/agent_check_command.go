package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

type agentCheckCmd struct {
	slotFlags
	Sysfs string `help:"Machine to check: a directory with the layout of /sys or output of berth agent snapshot. Default: [berth] sysfs." type:"path" placeholder:"DIR|FILE"`
}

// Run prints how the configuration applies to each device. It fails on errors in the configuration, not on warnings.
func (c *agentCheckCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	checked, err := c.check(ctx)
	if err != nil {
		return err
	}
	if g.Output == "json" {
		enc := json.NewEncoder(s.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(checked)
	} else {
		err = printChecked(s, checked)
	}
	if n := checked.Errors(); err == nil && n > 0 {
		return fault.New(fault.Invalid, "with this configuration on this machine the agent would not start, or not "+
			"report a device (errors: %d)",
			n)
	}
	return err
}

// check checks the I/O slots of a PowerVM system if the flags or the configuration select them, and else the PCI
// devices of a machine.
func (c *agentCheckCmd) check(ctx context.Context) (settings.CheckReport, error) {
	if c.NovalinkFile != "" || c.Sysfs == "" && settings.SlotsConfigured(c.ConfigFile...) {
		return settings.CheckSlots(ctx, c.selection(), c.ConfigFile...)
	}
	return settings.Check(c.Sysfs, c.ConfigFile...)
}

func printChecked(s streams, c settings.CheckReport) error {
	reported, rows := 0, [][]string{}
	for _, d := range c.Devices {
		node, where, class := "-", "-", "-"
		if d.NUMANode >= 0 {
			node = strconv.Itoa(d.NUMANode)
		}
		what := d.Why
		if d.Reported {
			reported++
			where, class, what = d.Provider, d.ResourceClass, strings.Join(d.Traits, " ")
		}
		rows = append(rows, []string{d.Address, d.VendorID + ":" + d.ProductID, d.Type, node, where, class, what})
	}
	for _, f := range c.Findings {
		if _, err := fmt.Fprintf(s.out, "%s: %s\n", f.Level, f.Sentence); err != nil {
			return err
		}
	}
	if c.Slots != nil {
		return printCheckedSlots(s, c)
	}
	if err := cli.PrintTable(s.out, s.wide, []string{"Address", "ID", "Type", "NUMA", "Provider", "Class",
		"Traits, or why it is not reported"}, rows); err != nil {
		return err
	}
	if err := printCheckedBandwidth(s, c.Bandwidth); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%d devices in %s, %d of them reported; %d errors, %d warnings\n",
		len(c.Devices), c.Sysfs, reported, c.Errors(), c.Warnings())
	return err
}

// printCheckedBandwidth prints the providers for guaranteed bandwidth and packet rate, if there are any.
func printCheckedBandwidth(s streams, providers []settings.CheckedProvider) error {
	if len(providers) == 0 {
		return nil
	}
	var rows [][]string
	for _, p := range providers {
		var totals []string
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			totals = append(totals, fmt.Sprintf("%s %d", class, p.Inventories[class]))
		}
		what := strings.Join(p.Traits, " ")
		if p.Why != "" {
			what = "not reported: " + p.Why
		}
		rows = append(rows, []string{p.Name, cmp.Or(strings.Join(totals, ", "), "-"), what})
	}
	return cli.PrintTable(s.out, s.wide, []string{"Provider", "Inventories", "Traits, or why it is not reported"}, rows)
}
