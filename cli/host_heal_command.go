package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// HostHealCmd adds allocations to Placement that it lacks for servers on a host.
type HostHealCmd struct {
	Host          string `arg:"" help:"Name of the host."`
	Apply         bool   `help:"Write the allocations. Without it, only show what would be written."`
	Oversubscribe bool   `help:"With --apply: write allocations that exceed the capacity of the host."`
}

// Validate checks the flags.
func (c *HostHealCmd) Validate() error {
	if c.Oversubscribe && !c.Apply {
		return fault.New(fault.Invalid, "", "--oversubscribe needs --apply: without it nothing is written")
	}
	return nil
}

// Run prints the allocations that Placement lacks for servers on the host, and consumers with allocations on the host
// that are not placed there. With --apply it adds what is missing, and returns fault.Conflict if some of it could not
// be added.
func (c *HostHealCmd) Run(g *Globals) error {
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
	if err := g.print(found, []string{"Consumer", "Server", "Resources", "Action"}, rows); err != nil {
		return err
	}
	switch {
	case c.Apply && left > 0:
		return fault.New(fault.Conflict, "cli.heal",
			"Placement still lacks allocations of %d consumers on host %s", left, c.Host)
	case c.Apply || g.Output == "json":
		return nil
	case left == 0:
		_, err = fmt.Fprintf(g.stdout(),
			"nothing to write: Placement has the allocations of all servers on host %s\n", c.Host)
	default:
		_, err = fmt.Fprintf(g.stdout(), "nothing was changed; `berth host heal %s --apply` writes it\n", c.Host)
	}
	return err
}

// healRows returns the rows of the table, and how many consumers still lack allocations.
func healRows(a host.Allocations) (rows [][]string, left int) {
	for _, m := range a.Missing {
		if !m.Healed {
			left++
		}
		outcome := cmp.Or(m.Outcome, "would be written")
		rows = append(rows, []string{m.Consumer, m.Name, "lacks " + holdingText(m.Lacks), outcome})
	}
	for _, f := range a.Foreign {
		rows = append(rows, []string{f.Consumer, "-", "has " + holdingText(f.Holds), "nothing: " + f.Why})
	}
	return rows, left
}

// holdingText formats amounts by provider.
func holdingText(holds map[string]map[string]int) string {
	var parts []string
	for _, id := range sortedKeys(holds) {
		parts = append(parts, amountsText(holds[id])+" of provider "+id)
	}
	return strings.Join(parts, ", ")
}
