package device

import (
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Place is ClaimAll for a server with NUMA cells: it finds host nodes for its cells that are near enough to the
// devices of all requests, by the scheduler's algorithm. host is the capacity left by other guests; Place itself
// counts the free devices of each node. at is an existing placement, which is then kept. Without guest cells there is
// no placement, and no device is too far.
func (s Set) Place(holder resource.ConsumerID, requests []pci.Request, cells []numa.GuestCell, at []numa.Placed,
	host numa.Host) (Set, []Claim, []numa.Placed, Refusal) {
	if len(cells) == 0 {
		set, picked, refusal := s.ClaimAll(holder, requests, Near{})
		return set, picked, nil, refusal
	}
	near := func(nodes []int) Near { return Near{Nodes: nodes, Host: host.Nodes} }
	if len(at) == 0 {
		host.Free = s.freeByNode(host.Nodes)
		var unfit numa.Refusal
		at, unfit = numa.Fit(host, numa.Guest{Cells: cells, Devices: len(requests) > 0}, numa.Judge{
			Accept: func(nodes []int) numa.Refusal {
				_, _, refusal := s.ClaimAll(holder, requests, near(nodes))
				return numa.Refusal{Reason: string(refusal)}
			},
			Far: func(nodes []int) int {
				_, picked, _ := s.ClaimAll(holder, requests, near(nodes))
				return near(nodes).Far(picked, requests)
			},
		})
		if unfit != (numa.Refusal{}) {
			return s, nil, nil, Refusal(strings.TrimSuffix(unfit.Reason+": "+unfit.Nearest, ": "))
		}
	}
	set, picked, refusal := s.ClaimAll(holder, requests, near(nodes(at)))
	if refusal != "" {
		return s, nil, nil, refusal
	}
	return set, picked, at, ""
}

// nodes returns the host nodes of a placement, ascending.
func nodes(at []numa.Placed) []int {
	var out []int
	for _, p := range at {
		out = append(out, p.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// freeByNode counts the devices near each NUMA node that an alias can claim.
func (s Set) freeByNode(host numa.Topology) map[int]int {
	out := map[int]int{}
	for _, e := range s.Entries() {
		if e.State == pci.Available && !e.Spent && !e.Disabled && !e.ForPorts {
			for _, n := range host.Near(e.Device.NUMANode) {
				out[n]++
			}
		}
	}
	return out
}
