package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// BenchmarkWide finds candidates for k devices on a host that has n.
func BenchmarkWide(b *testing.B) {
	for _, c := range []struct{ k, n int }{{8, 8}, {16, 16}, {64, 64}, {9, 8}, {17, 16}, {65, 64}} {
		for _, classes := range [][]resource.Class{ct.NICs, ct.NICsAndGPUs} {
			b.Run(fmt.Sprintf("%dof%d/classes=%d", c.k, c.n, len(classes)), func(b *testing.B) {
				s := index.Build(ct.Devices("cmp", c.n, 0, classes, ct.Red))
				ask := ct.DeviceAsk(c.k, resource.PolicyNone, classes, ct.Red)
				ask.Limit = 1000
				found := 0
				for b.Loop() {
					found = 0
					for range candidate.Find(s, ask, candidate.Options{}) {
						found++
					}
				}
				b.ReportMetric(float64(found), "candidates")
			})
		}
	}
}

// BenchmarkFleet finds candidates in a fleet of 10,000 hosts with 27 providers each.
func BenchmarkFleet(b *testing.B) {
	s := index.Build(ct.Fleet(10000, 4))
	for _, c := range []struct {
		name  string
		k     int
		limit int
	}{{"first1000", 4, 1000}, {"none", 5, 1000}, {"spread1000", 4, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			ask := ct.DeviceAsk(c.k, resource.PolicyNone, ct.NICs, ct.Red)
			ask.Limit = c.limit
			for b.Loop() {
				for range candidate.Find(s, ask, candidate.Options{BreadthFirst: c.name == "spread1000"}) {
				}
			}
		})
	}
}
