package sim

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func zoneTrait(n int) resource.Trait { return resource.Trait(fmt.Sprintf("CUSTOM_ZONE_%d", n)) }

// newZone returns a zone. varied: with aliases for sets and policies.
func newZone(n int, varied bool) zone {
	alias := func(name, class, more string) string {
		return fmt.Sprintf(`{"name": "%s%d", "resource_class": "%s_%d"%s}`, name, n, class, n, more)
	}
	z := zone{aliases: []string{
		alias("gpu", "GPU", `, "vendor_id": "10de", "product_id": "1db4"`),
		alias("better", "GPU", `, "traits": "CUSTOM_BETTER"`),
		alias("livegpu", "GPU", `, "live_migratable": "yes"`),
		alias("vf", "VF", `, "device_type": "type-VF", "traits": "CUSTOM_GOOD"`),
		alias("livevf", "VF", `, "device_type": "type-VF", "live_migratable": "yes"`),
		alias("pf", "PF", `, "device_type": "type-PF"`),
		alias("slice", "PF", `, "device_type": "type-VF"`),
		alias("nvme", "NVME", ``)}}
	if varied {
		z.aliases = append(z.aliases, alias("near", "GPU", `, "numa_policy": "required"`),
			alias("beside", "VF", `, "device_type": "type-VF", "numa_policy": "socket"`),
			alias("far", "NVME", `, "numa_policy": "preferred"`), alias("fabric", "GPU", `, "match": "fabric", "whole": true`),
			alias("onenode", "VF", `, "device_type": "type-VF", "match": "numa_node"`),
			fmt.Sprintf(`{"name": "pair%d", "members": {"gpu%d": 1, "vf%d": 1}, "match": "pcie_root"}`, n, n, n))
	}
	for i, f := range []struct {
		aliases string
		nodes   int
		policy  string
	}{{}, {aliases: "gpu:1"}, {aliases: "gpu:2"}, {aliases: "livegpu:1"}, {aliases: "slice:1"}, {aliases: "vf:3"},
		{aliases: "livevf:2"},
		{aliases: "pf:1"}, {aliases: "nvme:1"}, {aliases: "gpu:1", nodes: 1, policy: "required"}, {aliases: "vf:2", nodes: 2},
		{nodes: 2}, {aliases: "better:1"}, {aliases: "livevf:1", nodes: 1, policy: "preferred"}} {
		specs := map[string]string{"trait:" + string(zoneTrait(n)): "required"}
		if f.aliases != "" {
			specs["pci_passthrough:alias"] = strings.Replace(f.aliases, ":", fmt.Sprint(n, ":"), 1)
		}
		if f.nodes > 0 {
			specs["hw:numa_nodes"] = fmt.Sprint(f.nodes)
		}
		if f.policy != "" {
			specs["hw:pci_numa_affinity_policy"] = f.policy
		}
		z.flavors = append(z.flavors, flavor.Flavor{ID: fmt.Sprint(i), Name: fmt.Sprint("f", i), VCPUs: 2, MemoryMB: 1024,
			DiskGB: 10, ExtraSpecs: specs})
	}
	return z
}

// aliasesOf returns the aliases of zones, as compute is configured with them.
func aliasesOf(zones []zone) pci.Aliases {
	var options []string
	for _, z := range zones {
		options = append(options, z.aliases...)
	}
	aliases, err := pci.ParseAliases(true, options...)
	if err != nil {
		panic(fmt.Sprintf("the aliases of the simulation: %v", err))
	}
	return aliases
}

// reservation returns the part of a server's id that the servers of one request share, as the conductor finds them.
func reservation(id string) string { return id[:min(len(id), 13)] }

func zoneOf(s lifecycle.Server) (n int) {
	fmt.Sscan(s.Metadata["zone"], &n)
	return n
}

// zone is a group of hosts with resource classes of their own, so that a query concerns few of many hosts.
type zone struct {
	aliases []string // options of [pci] alias; the zone's number ends their names
	flavors []flavor.Flavor
}
