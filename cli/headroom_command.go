package cli

import (
	"cmp"
	"fmt"
	"strings"
)

// HeadroomCmd shows how many more servers of a flavor fit.
type HeadroomCmd struct {
	Flavor string   `arg:"" help:"Name or id of the flavor."`
	Port   []string `help:"A port of each server, such as vnic_type=direct,physical_network=physnet0,egress=1000 with guarantees in kbit/s; may be repeated." placeholder:"KEY=VALUE,…" sep:"none"`
}

// Run prints the number for each host, and what runs out first.
func (c *HeadroomCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	f, err := g.compute().Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	got, err := g.hosts().Headroom(ctx, f.ID, c.Port)
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, h := range got.ByHost {
		rows = append(rows, []string{h.Host, fmt.Sprint(h.Fits), cmp.Or(h.Excluded, h.Refused, strings.Join(h.Lacks, " "))})
	}
	if err := g.print(got, []string{"Host", "Fits", "Then lacks"}, rows); err != nil || g.Output == "json" {
		return err
	}
	text := fmt.Sprintf("%d more servers fit", got.Fits)
	if !got.Exact {
		text = "at least " + text
	}
	if len(got.RunsOut) > 0 {
		text += fmt.Sprintf("; %s runs out first, on %d hosts", got.RunsOut[0].Class, got.RunsOut[0].Hosts)
	}
	if got.Reason != "" {
		text += ": " + got.Reason
	}
	_, err = fmt.Fprintln(g.stdout(), text)
	return err
}
