package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// CandidatesCmd lists allocation candidates.
type CandidatesCmd struct {
	Query   []string `arg:"" help:"Query parameters of the API as key=value: resources, resources_X, required, member_of, in_tree, group_policy, same_subtree, root_required, limit…"`
	Explain bool     `help:"Explain why there are none: hosts left after each clause, clauses that exclude each other, and the nearest misses."`
}

type candidateDoc struct {
	Allocations map[provider.ID]resource.Amounts `json:"allocations"`
	Mappings    map[string][]provider.ID         `json:"mappings"`
}

// Run prints the candidates, or the explanation.
func (c *CandidatesCmd) Run(g *Globals) error {
	query, err := queryOf(c.Query)
	if err != nil {
		return err
	}
	ask, err := placement.ParseAsk(placement.Latest, query)
	if err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	client := g.placement()
	if c.Explain {
		doc, err := client.Explain(ctx, ask)
		if err != nil {
			return err
		}
		return g.explain(doc)
	}
	found, err := client.Candidates(ctx, ask)
	if err != nil {
		return err
	}
	docs, rows := []candidateDoc{}, [][]string{}
	for i, one := range found.List {
		docs = append(docs, candidateDoc{one.Allocation, one.Mappings})
		for _, id := range sortedKeys(one.Allocation) {
			s := found.Summaries[id]
			rows = append(rows, []string{fmt.Sprint(i + 1), string(id), one.Allocation[id].String(),
				strings.Join(suffixesOf(one.Mappings, id), " "), usageText(s)})
		}
	}
	if len(found.List) == 0 {
		out := g.stdout()
		if g.Output == "json" {
			out = g.stderr() // standard output must stay JSON
		}
		if _, err := fmt.Fprintf(out, "no candidates: %s\n",
			cmp.Or(found.Reason, "the API returns no reason; try --explain")); err != nil || g.Output != "json" {
			return err
		}
	}
	return g.print(docs, []string{"#", "Provider", "Allocation", "Groups", "Used/capacity"}, rows)
}

func suffixesOf(mappings map[string][]provider.ID, id provider.ID) (names []string) {
	for _, suffix := range sortedKeys(mappings) {
		if slices.Contains(mappings[suffix], id) {
			names = append(names, `"`+suffix+`"`)
		}
	}
	return names
}

func usageText(s placement.Summary) string {
	parts := []string{}
	for _, class := range sortedKeys(s.Resources) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", class, s.Resources[class].Used, s.Resources[class].Capacity))
	}
	return strings.Join(parts, ", ")
}

// explain prints why there are no candidates: the reason, the funnel, clauses that exclude each other, and the nearest
// misses.
func (g *Globals) explain(e placement.Explanation) error {
	if g.Output == "json" {
		return g.print(e, nil, nil)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cmp.Or(e.Reason, "there are candidates"))
	if len(e.Funnel) > 0 {
		b.WriteString("hosts left after each clause:\n")
	}
	for _, s := range e.Funnel {
		fmt.Fprintf(&b, "  %6d  %s\n", s.Left, s.Clause)
	}
	if len(e.Minimal) > 0 {
		if e.Rough {
			b.WriteString("perhaps not all of ")
		}
		fmt.Fprintf(&b, "these cannot hold together:\n  %s\n", strings.Join(e.Minimal, "\n  "))
	}
	if len(e.Nearest) > 0 {
		b.WriteString("nearest misses:\n")
	}
	for _, m := range e.Nearest {
		for _, d := range m.Deficits {
			fmt.Fprintf(&b, "  %s: %s\n", m.Host, d.Text)
			for _, h := range d.HeldBy {
				fmt.Fprintf(&b, "    %s is held by %s\n", cmp.Or(h.Name, string(h.Provider)), strings.Join(strs(h.Consumers), ", "))
			}
		}
	}
	_, err := fmt.Fprint(g.stdout(), b.String())
	return err
}
