package schedule

import (
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/provider"
)

// isolation is group_policy=isolate for a plan: all devices of a server are on different providers, and on none that
// another group of the request has. So of each provider one device represents all, which are of one card: they differ
// at most in the requests that they can serve.
type isolation struct {
	alike map[int][]int // by free device that represents others: all of them
	fits  [][]bool      // by free device and request: whether it can serve it
}

// isolate lets one device represent all of its provider. A PF represents no VFs: it excludes them already. list are the
// free devices in the plan; mappings are the providers that a candidate has chosen.
func isolate(free []pci.Offered, list []plan.Device, slots []slot, mappings map[string][]provider.ID) *isolation {
	type key struct {
		on    provider.ID
		whole bool
	}
	i, first, busy := &isolation{alike: map[int][]int{}}, map[key]int{}, busyProviders(slots, mappings)
	for n, d := range free {
		fits := list[n].Fits
		i.fits = append(i.fits, slices.Clone(fits))
		if busy[d.Provider] {
			clear(fits)
		}
		if d.Provider == "" || busy[d.Provider] {
			continue
		}
		k := key{d.Provider, d.Parent == nil}
		if _, known := first[k]; !known {
			first[k] = n
		} else {
			for r, is := range fits {
				list[first[k]].Fits[r] = list[first[k]].Fits[r] || is
			}
			clear(fits)
		}
		i.alike[first[k]] = append(i.alike[first[k]], n)
	}
	return i
}

// busyProviders returns the providers that a candidate has chosen for groups of no device.
func busyProviders(slots []slot, mappings map[string][]provider.ID) map[provider.ID]bool {
	busy := map[provider.ID]bool{}
	for suffix, on := range mappings {
		for _, id := range on {
			busy[id] = busy[id] || suffix != ""
		}
	}
	for _, s := range slots {
		delete(busy, s.provider)
	}
	return busy
}

// device returns the free device that serves a request to which a plan gives device n.
func (i *isolation) device(n, request int) int {
	if i != nil {
		for _, other := range i.alike[n] {
			if i.fits[other][request] {
				return other
			}
		}
	}
	return n
}
