package lifecycle

import (
	"iter"
	"maps"
	"reflect"
	"slices"
)

// AssignmentsTouched lists the hosts whose assignments a change of a server affects. They are sorted, so that
// concurrent transactions lock their rows in the same order.
func AssignmentsTouched(before, after Server) []string {
	old, now := entriesByHost(before), entriesByHost(after)
	leaving, left := removalsByHost(before), removalsByHost(after)
	same := before.Name == after.Name && before.Image == after.Image && before.Builds == after.Builds
	hosts := map[string]bool{}
	for _, list := range []iter.Seq[string]{maps.Keys(old), maps.Keys(now), maps.Keys(leaving), maps.Keys(left)} {
		for host := range list {
			hosts[host] = true
		}
	}
	maps.DeleteFunc(hosts, func(host string, _ bool) bool {
		return host == "" || same && reflect.DeepEqual(old[host], now[host]) &&
			reflect.DeepEqual(leaving[host], left[host])
	})
	return slices.Sorted(maps.Keys(hosts))
}

// entriesByHost returns the entries of a server by host, without the fields that agents report.
func entriesByHost(s Server) map[string][]Entry {
	out := map[string][]Entry{}
	for _, e := range s.Entries() {
		e.Residence.Devices, e.Cells, e.Reported, e.Choice = nil, nil, false, nil
		out[e.Host] = append(out[e.Host], e)
	}
	return out
}

// removalsByHost returns the removals of a server by host.
func removalsByHost(s Server) map[string][]Removal {
	out := map[string][]Removal{}
	for _, r := range s.Removals() {
		out[r.Host] = append(out[r.Host], r)
	}
	return out
}
