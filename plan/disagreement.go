package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Disagreement returns why the devices of a set do not agree, and what comes nearest.
func (s *Slots) Disagreement(set int, devices []Device) (reason, nearest string) {
	of, m := s.Sets[set], s.match[s.Matches[set].Set]
	if m.Whole {
		return m.whyNotWhole(max(of.Times, 1))
	}
	best, most, size, complete := "", 0, 0, 0
	for _, r := range of.Requests {
		size += s.Requests[r].Count / max(of.Times, 1)
	}
	for _, v := range valuesIn(devices, of.Family) {
		sum, sets := 0, max(of.Times, 1)
		for _, r := range of.Requests {
			each, room := s.Requests[r].Count/max(of.Times, 1), 0
			for _, d := range devices {
				if d.Fits[r] && slices.Contains(d.Values[of.Family], v) {
					room++
				}
			}
			sum, sets = sum+min(each, room), min(sets, room/each)
		}
		complete += sets
		if sum > most {
			best, most = v, sum
		}
	}
	what := s.names(set)
	switch {
	case most == 0:
		return fmt.Sprintf("no free device of %s has a value of %s", what, m.Family), ""
	case of.Times > 1:
		return fmt.Sprintf("fewer than %d sets of free devices of %s have one %s each", of.Times, what, m.Family),
			fmt.Sprintf("it has at most %d", complete)
	case most == size:
		return fmt.Sprintf("the devices of %s with one %s in common are needed for others of the server", what, m.Family), ""
	}
	return fmt.Sprintf("the free devices of %s do not have one %s in common", what, m.Family),
		fmt.Sprintf("%s has %d of %d", best, most, size)
}

// whyNotWhole is Disagreement for sets that take all devices with their value.
func (m *match) whyNotWhole(times int) (reason, nearest string) {
	reason = fmt.Sprintf("no %s of exactly %d devices is free", m.Family, m.size)
	if times > 1 {
		reason = fmt.Sprintf("fewer than %d of %s with exactly %d devices each are free", times, m.Family, m.size)
	}
	best, most := "", -1
	for _, v := range slices.Sorted(maps.Keys(m.shares)) {
		if of := m.shares[v]; of.Devices == m.size && of.Free > most && (times > 1 || of.Free < of.Devices) {
			best, most = v, of.Free
		}
	}
	switch {
	case most < 0:
		return reason, fmt.Sprintf("no %s has exactly %d devices", m.Family, m.size)
	case most == m.size:
		return reason, ""
	}
	return reason, fmt.Sprintf("of %s %d of %d are free", best, most, m.size)
}

// valuesIn returns the values of devices in a family, sorted.
func valuesIn(devices []Device, family string) (values []string) {
	for _, d := range devices {
		values = append(values, d.Values[family]...)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// names names the requests of a set.
func (s *Slots) names(set int) string {
	var names []string
	for _, r := range s.Sets[set].Requests {
		if name := s.slots[s.First[r]].Request.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}
