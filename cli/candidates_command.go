package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// CandidatesCmd lists allocation candidates.
type CandidatesCmd struct {
	Query   []string `arg:"" help:"Query parameters of the API as key=value: resources, resources_X, required, member_of, in_tree, group_policy, same_subtree, root_required, limit…"`
	Explain bool     `help:"Explain why there are none: hosts left after each clause, clauses that exclude each other, and the nearest misses."`
	LongOutput
}

type candidateDoc struct {
	Allocations map[provider.ID]resource.Amounts `json:"allocations"`
	Mappings    map[string][]provider.ID         `json:"mappings"`
}

// Validate checks the query.
func (c *CandidatesCmd) Validate() error {
	query, err := queryOf(c.Query)
	if err != nil {
		return err
	}
	_, err = placement.ParseAsk(placement.Latest, query)
	return err
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
			return withSimilarNames(ctx, g, query, err)
		}
		var holders names
		if !c.Long && g.Output != "json" {
			holders = g.consumerNames(ctx, holdersOf(doc))
		}
		return explain(g, doc, holders)
	}
	found, err := client.Candidates(ctx, ask)
	if err != nil {
		return withSimilarNames(ctx, g, query, err)
	}
	var known names
	if !c.Long && g.Output != "json" && len(found.List) > 0 {
		known = g.providerNames(ctx, nil)
	}
	docs, rows := []candidateDoc{}, [][]string{}
	for i, one := range found.List {
		docs = append(docs, candidateDoc{one.Allocation, one.Mappings})
		for _, id := range sortedKeys(one.Allocation) {
			s := found.Summaries[id]
			rows = append(rows, []string{fmt.Sprint(i + 1), known.of(string(id)), one.Allocation[id].String(),
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

// queryOf parses key=value arguments; each may also be a query string with "&".
func queryOf(args []string) (url.Values, error) {
	query := url.Values{}
	for _, arg := range args {
		for part := range strings.SplitSeq(arg, "&") {
			key, value, ok := strings.Cut(part, "=")
			if !ok || key == "" {
				return nil, fault.New(fault.Invalid, "%q is not a query parameter; write it as key=value, for example "+
					"resources=VCPU:1", part)
			}
			query.Add(key, value)
		}
	}
	return query, nil
}
