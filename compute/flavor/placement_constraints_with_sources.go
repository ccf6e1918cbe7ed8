package flavor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Constraint is one extra spec or image property that restricts the placement of a server.
type Constraint struct {
	Key     string   // the flavor's key, such as "hw:numa_nodes" or "trait:HW_CPU_X86_AVX2"
	Value   string   // the effective value
	Sources []string // where it is set, such as "extra spec hw:numa_nodes" or "image property hw_numa_nodes"
}

// placementSpecs are the extra specs about placement that images can also have.
var placementSpecs = [...]string{nodesSpec, pagesSpec, cpuPolicySpec, maskSpec, threadsSpec, emulatorSpec, affinitySpec}

// Constraints lists the constraints of a flavor and an image that do not contradict each other, by key: NUMA cells,
// pages, CPUs, the NUMA policy of devices, and traits of the host.
func Constraints(f Flavor, i Image) []Constraint {
	keys := map[string]bool{}
	for _, key := range placementSpecs {
		keys[key] = true
	}
	for key := range f.ExtraSpecs {
		if mapSpec.MatchString(key) || strings.HasPrefix(key, "trait:") {
			keys[key] = true
		}
	}
	for key := range i.Properties {
		if mapSpec.MatchString(key) {
			keys[strings.Replace(key, "_", ":", 1)] = true
		} else if strings.HasPrefix(key, "trait:") {
			keys[key] = true
		}
	}
	var list []Constraint
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if c := constraint(f, i, key); c.Value != "" {
			list = append(list, c)
		}
	}
	return list
}

// constraint returns the effective value of one key. If flavor and image differ, the flavor takes precedence. Pages are
// an exception: the image chooses among those that the flavor permits.
func constraint(f Flavor, i Image, key string) Constraint {
	w := readSetting(f, i, key)
	switch {
	case key == maskSpec: // not valid in images
		w.image = ""
	case w.flavor == "" || w.image == "" || w.flavor == w.image:
	case key == pagesSpec:
		w.flavor = ""
	default:
		w.image = ""
	}
	c := Constraint{Key: key, Value: cmp.Or(w.flavor, w.image)}
	if w.flavor != "" {
		c.Sources = append(c.Sources, "extra spec "+key)
	}
	if w.image != "" {
		c.Sources = append(c.Sources, "image property "+imageKey(key))
	}
	return c
}
