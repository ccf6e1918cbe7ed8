package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/openberth/berth/api/placement"
)

// explain prints why there are no candidates: the reason, the funnel, clauses that exclude each other, and the nearest
// misses. holders are the names of the consumers.
func explain(g *Globals, e placement.Explanation, holders names) error {
	if g.Output == "json" {
		return g.print(e, nil, nil)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cmp.Or(e.Reason, "there are candidates"))
	if len(e.Funnel) > 0 {
		b.WriteString("hosts left after each clause:\n")
	}
	before := 0
	for _, s := range e.Funnel {
		b.WriteString(funnelLine(before, s.Left, s.Clause, s.Removed))
		before = s.Left
	}
	if len(e.Minimal) > 0 {
		if e.Rough {
			b.WriteString("perhaps not all of ")
		}
		fmt.Fprintf(&b, "these cannot hold together:\n  %s\n", strings.Join(e.Minimal, "\n  "))
	}
	if e.Help.Clause != "" {
		fmt.Fprintf(&b, "most in the way: %s; hosts with room without it: %d\n", e.Help.Clause, e.Help.Hosts)
	}
	if len(e.Nearest) > 0 {
		b.WriteString("nearest misses:\n")
	}
	for _, m := range e.Nearest {
		for _, d := range m.Deficits {
			fmt.Fprintf(&b, "  %s: %s\n", m.Host, d.Text)
			for _, h := range d.HeldBy {
				var consumers []string
				for _, id := range h.Consumers {
					consumers = append(consumers, holders.of(string(id)))
				}
				fmt.Fprintf(&b, "    %s is held by %s\n", cmp.Or(h.Name, string(h.Provider)), strings.Join(consumers, ", "))
			}
		}
	}
	_, err := fmt.Fprint(g.stdout(), b.String())
	return err
}

// holdersOf returns the consumers that an explanation names.
func holdersOf(e placement.Explanation) (ids []string) {
	for _, m := range e.Nearest {
		for _, d := range m.Deficits {
			for _, h := range d.HeldBy {
				ids = append(ids, strs(h.Consumers)...)
			}
		}
	}
	return ids
}
