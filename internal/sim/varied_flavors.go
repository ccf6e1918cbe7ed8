package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/openberth/berth/compute/flavor"
)

// variedFlavors is how many random flavors a zone of varied machines has.
const variedFlavors = 24

// varyFlavors gives a zone random flavors; nil: none.
func (c *cloud) varyFlavors(zone int, rng *rand.Rand) {
	for n := 0; rng != nil && n < variedFlavors; {
		f := randomFlavor(rng, zone)
		if _, err := c.wantedServer(f); err != nil {
			continue // its values contradict each other
		}
		f.ID, f.Name = fmt.Sprint("varied", n), fmt.Sprint("varied", n)
		c.zones[zone].flavors = append(c.zones[zone].flavors, f)
		n++
	}
}

// randomFlavor returns a flavor with up to four cells and up to four kinds of devices, some of which belong together.
func randomFlavor(rng *rand.Rand, zone int) flavor.Flavor {
	one := func(list ...string) string { return list[rng.IntN(len(list))] }
	cells := []int{0, 0, 1, 1, 2, 2, 3, 4}[rng.IntN(8)]
	f := flavor.Flavor{VCPUs: max(cells, 1) * (1 + rng.IntN(2)), MemoryMB: max(cells, 1) * 256 * (1 + rng.IntN(4)),
		DiskGB: 10, ExtraSpecs: map[string]string{"trait:" + string(zoneTrait(zone)): "required"}}
	set := func(key, value string) {
		if value != "" {
			f.ExtraSpecs[key] = value
		}
	}
	if cells > 0 {
		set("hw:numa_nodes", fmt.Sprint(cells))
		set("hw:mem_page_size", one("", "", "small", "large", "any", "2048", "1048576"))
	}
	if policy := one("", "shared", "dedicated", "dedicated", "mixed"); cells > 0 || policy == "dedicated" {
		set("hw:cpu_policy", policy)
		if policy == "mixed" {
			set("hw:cpu_dedicated_mask", fmt.Sprint("0-", f.VCPUs/2))
		}
		if policy == "mixed" || policy == "dedicated" {
			set("hw:cpu_thread_policy", one("", "", "prefer", "require", "isolate"))
			set("hw:emulator_threads_policy", one("", "", "", "isolate"))
		}
	}
	var aliases []string
	names := []string{"gpu", "better", "vf", "pf", "slice", "nvme", "near", "beside", "far", "fabric", "onenode", "pair"}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:[]int{0, 1, 1, 1, 2, 2, 3, 4}[rng.IntN(8)]] {
		count := []int{1, 1, 1, 2, 2, 3, 4}[rng.IntN(7)]
		aliases = append(aliases, fmt.Sprintf("%s%d:%d", name, zone, count))
	}
	set("pci_passthrough:alias", strings.Join(aliases, ","))
	set("hw:pci_numa_affinity_policy", one("", "", "required", "legacy", "preferred", "socket"))
	if len(aliases) > 1 && rng.IntN(2) == 0 {
		first, _, _ := strings.Cut(aliases[0], ":")
		second, _, _ := strings.Cut(aliases[1], ":")
		set("pci:match:"+one("pcie_root", "numa_node", "pf"), first+","+second)
	}
	return f
}
