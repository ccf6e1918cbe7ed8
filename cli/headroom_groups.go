package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
)

// flavorHeadroom is how many more servers of a flavor fit.
type flavorHeadroom struct {
	Flavor string `json:"flavor"`
	host.Headroom
	Groups  []groupHeadroom `json:"groups,omitempty"`   // aggregates or zones
	LeftOut string          `json:"left_out,omitempty"` // what of the flavor is not counted
	Shared  bool            `json:"shared,omitempty"`   // hosts share storage
}

// groupHeadroom is how many more servers fit on the hosts of an aggregate or a zone.
type groupHeadroom struct {
	Name    string         `json:"name"` // empty: hosts in none
	Fits    int            `json:"fits"`
	Exact   bool           `json:"exact"` // false: more servers may fit
	Room    int            `json:"hosts_with_room"`
	RunsOut []host.RunsOut `json:"runs_out"`
}

// fits returns the number for a table.
func (f flavorHeadroom) fits() string { return fitsText(f.Fits, f.Exact) }

// fitsText returns a number of servers for a table. One that is not exact is a lower bound.
func fitsText(fits int, exact bool) string {
	if !exact {
		return fmt.Sprintf("at least %d", fits)
	}
	return fmt.Sprint(fits)
}

// runsOutText returns the class that runs out first, and on how many hosts.
func runsOutText(list []host.RunsOut) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, on %d hosts", list[0].Class, list[0].Hosts)
}

// sum returns the sum of all hosts as a sentence.
func (f flavorHeadroom) sum() string {
	text := f.fits() + " more servers fit"
	if len(f.RunsOut) > 0 {
		text += fmt.Sprintf("; %s runs out first, on %d hosts", f.RunsOut[0].Class, f.RunsOut[0].Hosts)
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

// hostGroups are the aggregates or the zones of hosts.
type hostGroups struct {
	serviceOf map[string]string   // the compute services of hosts that have other names
	names     []string            // sorted; "" for hosts in none
	of        map[string][]string // of a compute service
}

// read reads the groups of the kind by.
func (h *hostGroups) read(ctx context.Context, client *compute.Client, by string) error {
	services, err := client.Services(ctx)
	if err != nil {
		return err
	}
	h.of = map[string][]string{}
	for _, s := range services {
		h.of[s.Host] = nil
		if by == "zone" {
			h.of[s.Host] = []string{s.Zone}
		}
	}
	if by == "aggregate" {
		list, err := client.Aggregates(ctx)
		if err != nil {
			return err
		}
		for _, a := range list {
			h.names = append(h.names, a.Name)
			if a.AggregateContent == nil {
				continue
			}
			for _, name := range a.Hosts {
				h.of[name] = append(h.of[name], a.Name)
			}
		}
	}
	for name, groups := range h.of {
		if len(groups) == 0 {
			h.of[name] = []string{""}
		}
		h.names = append(h.names, h.of[name]...)
	}
	slices.Sort(h.names)
	h.names = slices.Compact(h.names)
	return nil
}

// addTo adds up the hosts of each group. A host counts in each of its aggregates.
func (h *hostGroups) addTo(list []flavorHeadroom) {
	for i := range list {
		f := &list[i]
		for _, name := range h.names {
			group, lacks := groupHeadroom{Name: name, RunsOut: []host.RunsOut{}}, map[string]int{}
			exact, listed := true, false
			for _, one := range f.ByHost {
				service := one.Host
				if known, other := h.serviceOf[one.Host]; other {
					service = known
				}
				if !slices.Contains(h.of[service], name) {
					continue
				}
				exact, listed = exact && one.Exact, true
				group.Fits, group.Room = group.Fits+one.Fits, group.Room+min(one.Fits, 1)
				for _, class := range one.Lacks {
					lacks[class]++
				}
			}
			group.Exact = exact && (listed || f.Exact) // without a host here, one that was not read may be in the group
			for _, class := range sortedKeys(lacks) {
				group.RunsOut = append(group.RunsOut, host.RunsOut{Class: class, Hosts: lacks[class]})
			}
			slices.SortStableFunc(group.RunsOut, func(a, b host.RunsOut) int { return b.Hosts - a.Hosts })
			f.Groups = append(f.Groups, group)
		}
	}
}
