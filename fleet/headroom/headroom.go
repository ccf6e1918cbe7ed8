// Package headroom counts how many more servers of one kind fit on the hosts of a cloud, from a snapshot of its
// services, and finds what runs out first.
//
// placement/headroom counts, as Berth's Placement does. Hosts that compute would choose for no server are left out.
package headroom

import (
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/placement/headroom"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// Result is how many more servers fit.
type Result struct {
	headroom.Result
	Excluded []fleet.OutOfService // hosts that are not counted, by name
}

// Host is how many more servers fit on a host, and RunsOut a class with the number of hosts that lack it.
type (
	Host    = headroom.Host
	RunsOut = headroom.RunsOut
)

// Traits returns the traits that a request names.
func Traits(ask resource.Ask) []resource.Trait { return headroom.Traits(ask) }

// Count returns how many more servers with a request fit on the hosts of a cloud. It needs the traits that the request
// names, and of sharing providers and their members the aggregates. When stop returns true it ends soon; the result is
// not used then.
func Count(v *fleet.View, ask resource.Ask, stop func() bool) Result {
	excluded := v.OutOfService()
	c := cloudOf(v, ask, excluded)
	c.Stop = stop
	return Result{c.Count(ask), excluded}
}

// cloudOf returns what a count of a request depends on.
func cloudOf(v *fleet.View, ask resource.Ask, without []fleet.OutOfService) headroom.Cloud {
	c := headroom.Cloud{Rows: rows(v, ask), Partial: v.Missing(fleet.Providers), Excluded: map[string]bool{}}
	for _, e := range without {
		c.Excluded[e.Host] = true
	}
	return c
}

// Explanation is why a request has no candidate on the hosts that are in service.
type Explanation struct {
	Reason  string   `json:"reason"`  // empty: it has a candidate
	Minimal []string `json:"minimal"` // clauses that no host meets together
	Nearest []string `json:"nearest"` // hosts that came closest, and what they lack
}

// Why returns why a request has no candidate. It needs what Count needs.
func Why(v *fleet.View, ask resource.Ask) Explanation {
	e := cloudOf(v, ask, v.OutOfService()).Why(ask)
	out := Explanation{Reason: e.Reason, Minimal: e.Minimal}
	for _, miss := range e.Nearest {
		out.Nearest = append(out.Nearest, miss.String())
	}
	return out
}

// rows returns the providers of a cloud as rows of an index, with the classes and traits that a request names only.
func rows(v *fleet.View, ask resource.Ask) []index.Row {
	total, traits := ask.Total(), map[resource.Trait]bool{index.Sharing: true}
	for _, t := range Traits(ask) {
		traits[t] = true
	}
	list := make([]index.Row, len(v.Providers))
	for i := range v.Providers {
		list[i] = rowOf(&v.Providers[i], total, traits)
	}
	return list
}

// rowOf returns the row of a provider, with some classes and traits.
func rowOf(p *fleet.Provider, total resource.Amounts, traits map[resource.Trait]bool) index.Row {
	row := index.Row{Provider: p.Provider}
	row.Inventories, row.Traits = nil, nil
	for _, t := range p.Traits {
		if traits[t] {
			row.Traits = append(row.Traits, t)
		}
	}
	for class, inv := range p.Inventories {
		if total[class] == 0 {
			continue
		}
		if row.Inventories == nil {
			row.Inventories = make(map[resource.Class]resource.Inventory, 1)
		}
		row.Inventories[class] = inv
		if n := p.Used(class); n > 0 {
			if row.Used == nil {
				row.Used = make(resource.Amounts, 1)
			}
			row.Used[class] = n
		}
	}
	return row
}
