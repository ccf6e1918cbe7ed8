package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/read"
)

// HeadroomCmd shows how many more servers of flavors fit.
type HeadroomCmd struct {
	Flavor    []string `arg:"" optional:"" help:"Names or ids of flavors. Default: all flavors."`
	By        string   `help:"A row for each flavor, host, aggregate or availability zone (flavor, host, aggregate, zone). Default: host for one flavor, flavor for several." placeholder:"WHAT"`
	Port      []string `help:"A port of each server, such as vnic_type=direct,physical_network=physnet0,egress=1000 with guarantees in kbit/s; may be repeated." placeholder:"KEY=VALUE,…" sep:"none"`
	AliasFile []string `help:"Where compute is Nova: nova.conf with the aliases of PCI devices ([pci] alias). May be repeated." placeholder:"FILE" sep:"none"`
}

// Validate checks --by.
func (c *HeadroomCmd) Validate() error {
	if !slices.Contains([]string{"", "flavor", "host", "aggregate", "zone"}, c.By) {
		return fault.New(fault.Invalid, "--by %s is not valid: write flavor, host, aggregate or zone", c.By)
	}
	return nil
}

// Run prints the numbers, and what runs out first.
func (c *HeadroomCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	client := g.compute()
	kind, err := read.Negotiate(ctx, client)
	if err != nil && !fault.Is(err, fault.NotFound) { // a proxy may hide the version document
		return err
	}
	nova := err == nil && !kind.Berth
	if !nova {
		client = g.compute()
	}
	flavors, err := flavorsNamed(ctx, client, c.Flavor)
	if err != nil {
		return err
	}
	list, groups := []flavorHeadroom{}, hostGroups{}
	if nova {
		list, groups.serviceOf, err = novaHeadroom(ctx, g, flavors, c.Port, c.AliasFile)
	} else {
		list, err = c.ofBerth(ctx, g, flavors)
	}
	if err == nil && (c.By == "aggregate" || c.By == "zone") {
		if err = groups.read(ctx, client, c.By); err == nil {
			groups.addTo(list)
		}
	}
	if err != nil {
		return err
	}
	if g.Output == "json" {
		return g.print(list, nil, nil)
	}
	if err := c.print(g, list); err != nil {
		return err
	}
	return printNotes(g, list, nova)
}

// ofBerth returns the headroom of flavors where compute is Berth's. Of several flavors one that is not valid has its
// fault as the reason.
func (c *HeadroomCmd) ofBerth(ctx context.Context, g *Globals, flavors []compute.Flavor) ([]flavorHeadroom, error) {
	list := []flavorHeadroom{}
	for _, f := range flavors {
		got, err := g.hosts().Headroom(ctx, f.ID, c.Port)
		if len(flavors) > 1 && fault.Is(err, fault.Invalid) {
			got, err = host.Headroom{Exact: true, Reason: fault.TextOf(err)}, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, flavorHeadroom{Flavor: f.Name, Headroom: got})
	}
	return list, nil
}

// print prints the rows of all flavors in one table. With one flavor the column of the flavor is left out.
func (c *HeadroomCmd) print(g *Globals, list []flavorHeadroom) error {
	header, rows := []string{"Flavor", "Fits", "Hosts with room", "Runs out first"}, [][]string{}
	by := c.By
	switch {
	case by == "" && len(list) == 1:
		by = "host"
	case by == "":
		by = "flavor"
	}
	switch by {
	case "host":
		header = []string{"Flavor", "Host", "Fits", "Then lacks"}
	case "aggregate", "zone":
		header = []string{"Flavor", strings.ToUpper(by[:1]) + by[1:], "Fits", "Hosts with room", "Runs out first"}
	}
	for _, f := range list {
		switch by {
		case "host":
			for _, h := range f.ByHost {
				rows = append(rows, []string{f.Flavor, h.Host, fitsText(h.Fits, h.Exact),
					cmp.Or(h.Excluded, h.Refused, strings.Join(h.Lacks, " "))})
			}
		case "flavor":
			room := 0
			for _, h := range f.ByHost {
				room += min(h.Fits, 1)
			}
			why := runsOutText(f.RunsOut)
			if f.Fits == 0 {
				why = cmp.Or(f.Reason, why)
			}
			rows = append(rows, []string{f.Flavor, f.fits(), fmt.Sprint(room), dash(why)})
		default:
			for _, one := range f.Groups {
				rows = append(rows, []string{f.Flavor, cmp.Or(one.Name, "(none)"), fitsText(one.Fits, one.Exact),
					fmt.Sprint(one.Room), dash(runsOutText(one.RunsOut))})
			}
		}
	}
	if len(list) == 1 {
		header = header[1:]
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return g.print(nil, header, rows)
}

// printNotes prints the sum of a single flavor, and what the numbers do not contain.
func printNotes(g *Globals, list []flavorHeadroom, nova bool) error {
	var lines []string
	if len(list) == 1 {
		lines = append(lines, list[0].sum())
	}
	shared, excluded := false, []string(nil)
	for _, f := range list {
		if f.LeftOut != "" {
			lines = append(lines, f.Flavor+": counted without "+f.LeftOut)
		}
		shared = shared || f.Shared
		for _, h := range f.ByHost {
			if h.Excluded != "" {
				excluded = append(excluded, h.Host+" ("+h.Excluded+")")
			}
		}
	}
	slices.Sort(excluded)
	excluded = slices.Compact(excluded)
	if n := len(excluded); n > 0 && nova {
		text := fmt.Sprintf("%d hosts are not counted: %s", n, strings.Join(excluded[:min(n, 3)], ", "))
		if n > 3 {
			text += fmt.Sprintf(", and %d more", n-3)
		}
		lines = append(lines, text)
	}
	if shared {
		lines = append(lines, "Hosts share storage: their numbers are one way to distribute the sum.")
	}
	if nova {
		lines = append(lines, "Not counted, because Placement does not have them: NUMA nodes and CPU pinning of Nova's "+
			"hosts, and the filters of its scheduler.")
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(g.stdout(), line); err != nil {
			return err
		}
	}
	return nil
}
