package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// HostHealCmd adds allocations to Placement that it lacks for servers on a host.
type HostHealCmd struct {
	Host          string   `arg:"" help:"Name of the host."`
	Apply         bool     `help:"Write the allocations. Without it, only show what would be written."`
	Oversubscribe bool     `help:"With --apply: write allocations that exceed the capacity of the host."`
	Remove        []string `help:"With --apply: remove what this consumer has on the host, although compute has not placed it there. May be repeated." placeholder:"CONSUMER" sep:"none"`
	LongOutput
}

// Validate checks the flags.
func (c *HostHealCmd) Validate() error {
	if c.Oversubscribe && !c.Apply {
		return fault.New(fault.Invalid, "--oversubscribe needs --apply: without it nothing is written")
	}
	if len(c.Remove) > 0 && !c.Apply {
		return fault.New(fault.Invalid, "--remove needs --apply: without it nothing is removed")
	}
	return nil
}

// Run prints the allocations that Placement lacks for servers on the host, and consumers with allocations on the host
// that are not placed there. With --apply it adds what is missing and removes what --remove names, and returns
// fault.Conflict if some of it could not be done.
func (c *HostHealCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	var found host.Allocations
	var err error
	if c.Apply {
		found, err = g.hosts().Heal(ctx, c.Host, host.Heal{Oversubscribe: c.Oversubscribe, Remove: c.Remove})
	} else {
		found, err = g.hosts().Allocations(ctx, c.Host)
	}
	if err != nil {
		return err
	}
	header := []string{"Server", "Resources", "Action"}
	if c.Long {
		header = append([]string{"Consumer"}, header...)
	}
	rows, left := healRows(found, c.names(ctx, g, found), c.Long)
	if err := g.print(found, header, rows); err != nil {
		return err
	}
	if c.Apply && g.Output != "json" {
		if err := printUndo(g, found); err != nil {
			return err
		}
	}
	switch {
	case c.Apply && left > 0:
		return fault.New(fault.Conflict,
			"%d allocations on host %s are not as requested; the table has the reasons", left, c.Host)
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

// names returns the names of the providers and of the consumers that are not servers of the host.
func (c *HostHealCmd) names(ctx context.Context, g *Globals, a host.Allocations) names {
	if c.Long || g.Output == "json" || len(a.Missing)+len(a.Foreign) == 0 {
		return nil
	}
	var consumers []string
	for _, f := range a.Foreign {
		consumers = append(consumers, f.Consumer)
	}
	known := g.consumerNames(ctx, consumers)
	maps.Copy(known, g.providerNames(ctx, nil))
	return known
}

// healRows returns the rows of the table, and how many consumers still lack allocations. With long they begin with the
// consumer's id.
func healRows(a host.Allocations, known names, long bool) (rows [][]string, left int) {
	row := func(consumer, name string, cells ...string) {
		if name == "" {
			name = known.of(consumer)
		}
		cells = append([]string{name}, cells...)
		if long {
			cells = append([]string{consumer}, cells...)
		}
		rows = append(rows, cells)
	}
	for _, m := range a.Missing {
		if !m.Healed {
			left++
		}
		outcome := cmp.Or(m.Outcome, prefixed("would not be written: ", m.Refused), "would be written")
		row(m.Consumer, m.Name, "lacks "+holdingText(m.Lacks, known), outcome)
	}
	for _, f := range a.Foreign {
		action := "nothing: " + f.Why
		switch {
		case f.Outcome != "":
			if action = f.Outcome; !f.Removed {
				left++
			}
		case f.Kept == "":
			action += "; --apply --remove " + f.Consumer + " removes it"
		case f.Kept != f.Why:
			action += "; it cannot be removed: " + f.Kept
		}
		row(f.Consumer, "", "has "+holdingText(f.Holds, known), action)
	}
	return rows, left
}

// printUndo prints the commands that write what was removed.
func printUndo(g *Globals, a host.Allocations) error {
	for _, f := range a.Foreign {
		if f.Undo == "" {
			continue
		}
		if _, err := fmt.Fprintf(g.stdout(), "undo: %s\n", f.Undo); err != nil {
			return err
		}
	}
	return nil
}

// prefixed returns lead followed by text, or an empty string without text.
func prefixed(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

// holdingText formats amounts by provider.
func holdingText(holds map[string]map[string]int, known names) string {
	var parts []string
	for _, id := range sortedKeys(holds) {
		parts = append(parts, amountsText(holds[id])+" of provider "+known.of(id))
	}
	return strings.Join(parts, ", ")
}
