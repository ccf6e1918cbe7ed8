package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// devices makes a host with n devices of one unit under the root, of the classes and traits given, in turn; the first
// taken of them are held by others.
func devices(host string, n, taken int, classes []resource.Class, traits []resource.Trait) []index.Row {
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

// deviceAsk asks a server's usual share and k devices, each in its own group.
func deviceAsk(k int, policy resource.Policy, classes []resource.Class, traits []resource.Trait) resource.Ask {
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

// fleet makes hosts of 26 devices, of which so many are free on each.
func fleet(hosts, free int) []index.Row {
	var rows []index.Row
	for i := range hosts {
		rows = append(rows, devices(fmt.Sprintf("cmp-%05d-0000-4000-8000-000000000000", i), 26, 26-free, nics, colours)...)
	}
	return rows
}

var (
	nics    = []resource.Class{"CUSTOM_NIC"}
	both    = []resource.Class{"CUSTOM_NIC", "CUSTOM_GPU"}
	colours = []resource.Trait{"CUSTOM_RED"}
)

// BenchmarkWide asks k devices of a host that has n.
func BenchmarkWide(b *testing.B) {
	for _, c := range []struct{ k, n int }{{8, 8}, {16, 16}, {64, 64}, {9, 8}, {17, 16}, {65, 64}} {
		for _, classes := range [][]resource.Class{nics, both} {
			b.Run(fmt.Sprintf("%dof%d/classes=%d", c.k, c.n, len(classes)), func(b *testing.B) {
				s := index.Build(devices("cmp", c.n, 0, classes, colours))
				ask := deviceAsk(c.k, resource.PolicyNone, classes, colours)
				ask.Limit = 1000
				found := 0
				for b.Loop() {
					found = 0
					for range candidate.All(s, ask) {
						found++
					}
				}
				b.ReportMetric(float64(found), "candidates")
			})
		}
	}
}

// BenchmarkFleet asks a fleet of 10,000 hosts with 27 providers each.
func BenchmarkFleet(b *testing.B) {
	s := index.Build(fleet(10000, 4))
	for _, c := range []struct {
		name  string
		k     int
		limit int
	}{{"first1000", 4, 1000}, {"none", 5, 1000}, {"spread1000", 4, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			ask := deviceAsk(c.k, resource.PolicyNone, nics, colours)
			ask.Limit = c.limit
			for b.Loop() {
				if c.name == "spread1000" {
					for range candidate.Spread(s, ask) {
					}
					continue
				}
				for range candidate.All(s, ask) {
				}
			}
		})
	}
	b.Run("explain", func(b *testing.B) {
		ask := deviceAsk(5, resource.PolicyNone, nics, colours)
		for b.Loop() {
			candidate.Explain(s, ask)
		}
	})
}
