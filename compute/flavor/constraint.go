package flavor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Constraint is one word of a flavor or an image that has a say in where a server may lie.
type Constraint struct {
	Key     string   // of the flavor: "hw:numa_nodes", "trait:HW_CPU_X86_AVX2"
	Value   string   // what holds
	Sources []string // who says so: "extra spec hw:numa_nodes", "image property hw_numa_nodes"
}

// placing are the extra specs that place a server and that images have too. Those of devices have a say only with devices.
var placementSpecs = [...]string{nodesSpec, pagesSpec, cpuPolicySpec, maskSpec, threadsSpec, emulatorSpec, affinitySpec}

// Constraints are the words of a flavor and an image that agree with each other, by key: NUMA cells, pages, CPUs, the policy of devices,
// and traits of the host.
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

// constraint is what holds of one key. Where both say something and not the same, the flavor has its way, but for pages: there the image
// chooses among what the flavor allows.
func constraint(f Flavor, i Image, key string) Constraint {
	w := readSetting(f, i, key)
	switch {
	case key == maskSpec: // the flavor's alone
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
