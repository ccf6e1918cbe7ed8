package candidatetest

import (
	"fmt"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Devices returns a host with n devices of one unit under the root, of the classes and traits given, in turn; the first
// taken of them are held by others.
func Devices(host string, n, taken int, classes []resource.Class, traits []resource.Trait) []index.Row {
	root := provider.ID(host)
	rows := []index.Row{{Provider: provider.Provider{ID: root, Name: host, Root: root,
		Inventories: map[resource.Class]resource.Inventory{
			"VCPU": resource.Whole(64), "MEMORY_MB": resource.Whole(65536), "DISK_GB": resource.Whole(1000)}}}}
	for i := range n {
		id := provider.ID(fmt.Sprintf("%s_%02d", host, i))
		r := index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: root, Root: root,
			Inventories: map[resource.Class]resource.Inventory{classes[i%len(classes)]: resource.Whole(1)}}}
		if len(traits) > 0 {
			r.Traits = []resource.Trait{traits[i%len(traits)]}
		}
		if i < taken {
			r.Used = resource.Amounts{classes[i%len(classes)]: 1}
		}
		rows = append(rows, r)
	}
	return rows
}

// DeviceAsk returns an ask for CPUs, memory, disk and k devices, each device in its own group.
func DeviceAsk(k int, policy resource.Policy, classes []resource.Class, traits []resource.Trait) resource.Ask {
	ask := resource.Ask{GroupPolicy: policy, Groups: []resource.Group{
		{Resources: resource.Amounts{"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 20}}}}
	for i := range k {
		g := resource.Group{Suffix: fmt.Sprintf("_%d", i), Resources: resource.Amounts{classes[i%len(classes)]: 1}}
		if len(traits) > 0 {
			g.Required = [][]resource.Trait{{traits[i%len(traits)]}}
		}
		ask.Groups = append(ask.Groups, g)
	}
	return ask
}

// Fleet returns hosts of 26 devices each, of which free are free.
func Fleet(hosts, free int) []index.Row {
	var rows []index.Row
	for i := range hosts {
		rows = append(rows, Devices(fmt.Sprintf("cmp-%05d-0000-4000-8000-000000000000", i), 26, 26-free, NICs, Red)...)
	}
	return rows
}

// Classes and traits for Devices and DeviceAsk.
var (
	NICs        = []resource.Class{"CUSTOM_NIC"}
	NICsAndGPUs = []resource.Class{"CUSTOM_NIC", "CUSTOM_GPU"}
	Red         = []resource.Trait{"CUSTOM_RED"}
)

// Ports returns an ask for n ports, each a virtual function and bandwidth of one card.
func Ports(n int) resource.Ask {
	ask := resource.Ask{GroupPolicy: resource.PolicyNone, Limit: 100}
	for i := range n {
		suffix := func(s string) string { return fmt.Sprintf("_%s%d", s, i) }
		ask.Groups = append(ask.Groups,
			resource.Group{Suffix: suffix("card"), Required: [][]resource.Trait{{"CUSTOM_CARD"}}},
			resource.Group{Suffix: suffix("vf"), Resources: resource.Amounts{"VF": 1}},
			resource.Group{Suffix: suffix("bw"), Resources: resource.Amounts{"BW": 1000}})
		ask.SameSubtree = append(ask.SameSubtree, []string{suffix("card"), suffix("vf"), suffix("bw")})
	}
	return ask
}
