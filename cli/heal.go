package cli

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// HostHealCmd writes back what Placement lacks of the servers on a host.
type HostHealCmd struct {
	Host          string `arg:"" help:"Name of the host."`
	Apply         bool   `help:"Write it. Without this, only show what would be written."`
	Oversubscribe bool   `help:"With --apply: write it also where others hold so much that the host then has given more than it has."`
}

// Run prints what Placement lacks of the servers on a host, and who has something of it without being placed there. With --apply it writes the first.
func (c *HostHealCmd) Run(g *Globals) error {
	if c.Oversubscribe && !c.Apply {
		return fault.New(fault.Invalid, "", "--oversubscribe says how to write, and nothing is written without --apply; give both, or neither")
	}
	ctx, cancel := g.context()
	defer cancel()
	var found host.Allocations
	var err error
	if c.Apply {
		found, err = g.hosts().Heal(ctx, c.Host, host.Heal{Oversubscribe: c.Oversubscribe})
	} else {
		found, err = g.hosts().Allocations(ctx, c.Host)
	}
	if err != nil {
		return err
	}
	rows, left := healRows(found)
	if err := g.print(found, []string{"Consumer", "Server", "Resources", "What is done"}, rows); err != nil {
		return err
	}
	switch {
	case c.Apply && left > 0:
		return fault.New(fault.Conflict, "cli.heal", "Placement still lacks allocations of %d consumers on host %s", left, c.Host)
	case c.Apply || g.Output == "json":
		return nil
	case left == 0:
		_, err = fmt.Fprintf(g.stdout(), "nothing to write: Placement has what the servers on host %s must have\n", c.Host)
	default:
		_, err = fmt.Fprintf(g.stdout(), "nothing was changed; `berth host heal %s --apply` writes it\n", c.Host)
	}
	return err
}

// healRows are the rows of the table, and how many consumers still lack something.
func healRows(a host.Allocations) (rows [][]string, left int) {
	for _, m := range a.Missing {
		what := m.Outcome
		if what == "" {
			what = "would be written"
		}
		if !m.Healed {
			left++
		}
		rows = append(rows, []string{m.Consumer, m.Name, "lacks " + holdingText(m.Lacks), what})
	}
	for _, f := range a.Foreign {
		rows = append(rows, []string{f.Consumer, "-", "holds " + holdingText(f.Holds), "nothing: " + f.Why})
	}
	return rows, left
}

// holdingText prints amounts by provider.
func holdingText(holds map[string]map[string]int) string {
	var parts []string
	for _, id := range sortedKeys(holds) {
		parts = append(parts, amountsText(holds[id])+" of provider "+id)
	}
	return strings.Join(parts, ", ")
}
