package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	maxReasons = 8  // how many different reasons one summary tells
	maxHosts   = 20 // how many hosts one Fall names
)

// Fall is which hosts fell at which step for one reason.
type FilterFailure struct {
	Filter  Filter
	Reason  string
	Count   int      // of hosts
	Hosts   []string // the first of them, by name
	Nearest string   // the nearest miss: "host7: node 1 has 3"; empty when there is nothing to tell

	miss string // the same for users, who are told of no hosts
}

// Falls sorts refusals by step and reason, the most frequent reason first. A host whose candidates were turned down for different
// reasons counts with each of them.
func FilterFailures(refusals []Refusal) []FilterFailure {
	type key struct {
		step   Filter
		reason string
	}
	hosts, nearest := map[key]map[string]bool{}, map[key]Refusal{}
	for _, r := range refusals {
		k := key{r.Filter, r.Reason}
		if hosts[k] == nil {
			hosts[k] = map[string]bool{}
		}
		hosts[k][r.Host] = true
		if before, told := nearest[k]; r.Nearest != "" && (!told || r.Shortfall < before.Shortfall || r.Shortfall == before.Shortfall && r.Host < before.Host) {
			nearest[k] = r
		}
	}
	var out []FilterFailure
	for k, of := range hosts {
		f := FilterFailure{Filter: k.step, Reason: k.reason, Count: len(of)}
		for h := range of {
			f.Hosts = append(f.Hosts, h)
		}
		slices.Sort(f.Hosts)
		f.Hosts = f.Hosts[:min(len(f.Hosts), maxHosts)]
		if r, told := nearest[k]; told {
			f.miss, f.Nearest = r.Nearest, strings.TrimSpace(r.Host+" "+r.Device)+": "+r.Nearest
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b FilterFailure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason), strings.Compare(string(a.Filter), string(b.Filter)))
	})
	return out
}

// Summarise tells refusals in one sentence for users, the most frequent reason first, each with its nearest miss: "3 hosts: no free
// type-VF 8086:1515 on the chosen provider (nearest: one is claimed); 1 host: its agent has not reported for 5 min". Nothing
// refused is an empty sentence.
func Summarise(refusals []Refusal) string {
	falls := FilterFailures(refusals)
	var parts []string
	for i, f := range falls {
		if i == maxReasons {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(falls)-maxReasons))
			break
		}
		noun := "hosts"
		if f.Count == 1 {
			noun = "host"
		}
		text := fmt.Sprintf("%d %s: %s", f.Count, noun, f.Reason)
		if f.miss != "" {
			text += " (nearest: " + f.miss + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// roughly says a duration in the largest unit that fits, cut down, so that hosts silent for about as long are counted together.
func roughly(d time.Duration) string {
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
