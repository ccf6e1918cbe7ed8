package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/resource"
)

// Filter is the name of a filter, as in Nova.
type Filter string

// The filters, in order. FilterNUMA is last because it depends on the devices that are free for the candidate.
const (
	FilterHost        Filter = "host"
	FilterAllocations Filter = "AllocationsFilter"
	FilterDevices     Filter = "PciPassthroughFilter"
	FilterNUMA        Filter = "NUMATopologyFilter"
	FilterPlacement   Filter = "Placement" // of planned servers: Placement has no room for the rest of the server
)

// LacksAllocations is the reason of FilterAllocations.
const LacksAllocations = "Placement lacks allocations of servers there, so what it offers may be in use; " +
	"`berth host heal HOST` shows them and writes them back"

// Refusal is why a filter refused a candidate.
type Refusal struct {
	Host   string
	Filter Filter
	// equal for equal shortages on all hosts, such as "no free type-VF 8086:1515 on the chosen provider"
	Reason string
	// the nearest miss on this host, such as "node 1 has 3"; may be empty. Shown to users: it names neither host nor
	// device
	Nearest   string
	Device    string  // address of the device of Nearest, for operators; may be empty
	Shortfall float64 // distance from acceptance; the smallest one is the nearest miss
	// the search on this host has reached its limit, so the server may fit there
	Undecided bool
	// of the devices that FilterDevices found too few of, as Placement counts them; empty: they are not counted there
	Class resource.Class
	Shortage
}

// Shortage is how many devices a request asks for, and how many of such devices of a host are free; zero: it does not
// lack devices, or they are not counted.
type Shortage struct{ Asks, Free, Of int }

const (
	maxReasons = 8  // number of reasons in a summary
	maxHosts   = 20 // number of hosts in a FilterFailure
)

// FilterFailure is the hosts that one filter refused for one reason.
type FilterFailure struct {
	Filter  Filter
	Reason  string
	Count   int      // number of hosts
	Hosts   []string // the first ones by name, at most maxHosts
	Nearest string   // the nearest miss, such as "host7: node 1 has 3"; may be empty

	nearestForUsers string // the nearest miss without the host
}

// FilterFailures groups refusals by filter and reason, the most frequent reason first. A host whose candidates were
// refused for different reasons counts for each of them.
func FilterFailures(refusals []Refusal) []FilterFailure {
	type key struct {
		filter Filter
		reason string
	}
	hosts, nearest := map[key]map[string]bool{}, map[key]Refusal{}
	for _, r := range refusals {
		k := key{r.Filter, r.Reason}
		if hosts[k] == nil {
			hosts[k] = map[string]bool{}
		}
		hosts[k][r.Host] = true
		before, found := nearest[k]
		closer := !found || r.Shortfall < before.Shortfall || r.Shortfall == before.Shortfall && r.Host < before.Host
		if r.Nearest != "" && closer {
			nearest[k] = r
		}
	}
	var out []FilterFailure
	for k, of := range hosts {
		f := FilterFailure{Filter: k.filter, Reason: k.reason, Count: len(of)}
		for h := range of {
			f.Hosts = append(f.Hosts, h)
		}
		slices.Sort(f.Hosts)
		f.Hosts = f.Hosts[:min(len(f.Hosts), maxHosts)]
		if r, found := nearest[k]; found {
			f.nearestForUsers, f.Nearest = r.Nearest, strings.TrimSpace(r.Host+" "+r.Device)+": "+r.Nearest
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b FilterFailure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason),
			strings.Compare(string(a.Filter), string(b.Filter)))
	})
	return out
}

// Summarise returns a summary of refusals for users, the most frequent reason first, each with its nearest miss, such
// as "3 hosts: no free type-VF 8086:1515 on the chosen provider (nearest: one is claimed); 1 host: its agent has not
// reported for 5 min". It is empty without refusals.
func Summarise(refusals []Refusal) string {
	failures := FilterFailures(refusals)
	var parts []string
	for i, f := range failures {
		if i == maxReasons {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(failures)-maxReasons))
			break
		}
		noun := "hosts"
		if f.Count == 1 {
			noun = "host"
		}
		text := fmt.Sprintf("%d %s: %s", f.Count, noun, f.Reason)
		if f.nearestForUsers != "" {
			text += " (nearest: " + f.nearestForUsers + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// roundedDuration formats a duration, rounded down in the largest suitable unit, so that hosts that have been silent
// for about the same time are grouped.
func roundedDuration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
