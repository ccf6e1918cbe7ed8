package flavor

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// matchDevices sets Match of the requests that the extra specs pci:match:FAMILY name. Such an extra spec lists aliases
// of the flavor whose devices all have one value of the family in common, such as "gpu,vf"; semicolons separate lists
// that need not agree with each other.
func matchDevices(f Flavor, aliases pci.Aliases, requests []pci.Request) error {
	last := 0
	for _, r := range requests {
		if r.Match != nil {
			last = max(last, r.Match.Set)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.ExtraSpecs)) {
		family, is := strings.CutPrefix(key, matchSpec)
		if !is {
			continue
		}
		if err := pci.CheckFamily(family); err != nil {
			return invalid("extra spec %s of flavor %s: %s", key, f.Name, fault.TextOf(err))
		}
		for list := range strings.SplitSeq(f.ExtraSpecs[key], ";") {
			last++
			for name := range strings.SplitSeq(list, ",") {
				if why := matchAlias(aliases, requests, strings.TrimSpace(name), pci.Match{Set: last, Family: family,
					Times: 1}); why != "" {
					return invalid("extra spec %s of flavor %s is %q: %s", key, f.Name, f.ExtraSpecs[key], why)
				}
			}
		}
	}
	return nil
}

// matchAlias sets Match of the requests of an alias. It returns why that is not possible, or "".
func matchAlias(aliases pci.Aliases, requests []pci.Request, name string, match pci.Match) (why string) {
	of, known := aliases[name]
	switch {
	case name == "":
		return "it has an empty name; write aliases of the flavor with commas between them, such as gpu,vf"
	case !known:
		if near := fault.Similar(name, slices.Sorted(maps.Keys(aliases)), max(2, len(name)/4)); len(near) > 0 {
			return "no alias " + name + " is configured; did you mean " + near[0] + "?"
		}
		return "no alias " + name + " is configured; write aliases of [pci] alias"
	case of.Match != "":
		return "alias " + name + " has a match of its own; leave it out"
	}
	requested := false
	for i, r := range requests {
		if r.Alias == name && r.Match == nil {
			requests[i].Match, requested = &match, true
		}
	}
	if !requested {
		return notRequested(requests, name)
	}
	return ""
}

// notRequested returns why no request of an alias is left to match.
func notRequested(requests []pci.Request, name string) string {
	if slices.ContainsFunc(requests, func(r pci.Request) bool { return r.Alias == name }) {
		return "the devices of alias " + name + " are in another set already; name an alias once"
	}
	return "the flavor does not request alias " + name + "; add it to " + aliasSpec + ", or leave it out"
}

// checkSets returns a fault if devices belong together and Placement alone would choose them, or with isolate.
func checkSets(f Flavor, requests []pci.Request, groups []resource.Group, policy resource.Policy) error {
	at := slices.IndexFunc(requests, func(r pci.Request) bool { return r.Match != nil })
	switch {
	case at < 0:
		return nil
	case policy == resource.PolicyIsolate:
		return invalid("extra spec %s of flavor %s is isolate, but its devices of alias %s must have one %s in common: "+
			"both together are not planned; remove it", policySpec, f.Name, requests[at].Alias, requests[at].Match.Family)
	case len(groups) == 0:
		return invalid("flavor %s requests nothing but devices, of which those of alias %s must have one %s in common; "+
			"set VCPUs, memory or disk", f.Name, requests[at].Alias, requests[at].Match.Family)
	}
	return nil
}
