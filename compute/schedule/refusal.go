package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const maxReasons = 8 // how many different reasons one summary tells

// Summarise tells refusals in one sentence, the most frequent reason first: "3 hosts: no free type-VF 8086:1515 on the
// chosen provider; 1 host: its agent has not reported for 5 min". A host whose candidates were
// turned down for different reasons counts with each of them. Nothing refused is an empty sentence.
func Summarise(refusals []Refusal) string {
	hosts := map[string]map[string]bool{} // by reason
	for _, r := range refusals {
		if hosts[r.Reason] == nil {
			hosts[r.Reason] = map[string]bool{}
		}
		hosts[r.Reason][r.Host] = true
	}
	type line struct {
		reason string
		hosts  int
	}
	var lines []line
	for reason, of := range hosts {
		lines = append(lines, line{reason, len(of)})
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.hosts, a.hosts), strings.Compare(a.reason, b.reason))
	})
	var parts []string
	for i, l := range lines {
		if i == maxReasons {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(lines)-maxReasons))
			break
		}
		noun := "hosts"
		if l.hosts == 1 {
			noun = "host"
		}
		parts = append(parts, fmt.Sprintf("%d %s: %s", l.hosts, noun, l.reason))
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
