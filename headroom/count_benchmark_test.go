package headroom

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// BenchmarkCount counts servers with two ports on 1000 hosts with two NICs of 8 VFs each.
func BenchmarkCount(b *testing.B) {
	free, nics := resource.Allocation{}, map[string][]provider.ID{}
	for h := range 1000 {
		host := fmt.Sprint("h", h)
		free[provider.ID(host)] = resource.Amounts{"VCPU": 64}
		for i := range 2 {
			nic := provider.ID(fmt.Sprint(host, "/", i))
			free[nic] = resource.Amounts{vf: 8 - h%3, bandwidth: 100 - h%17*i}
			nics[host] = append(nics[host], nic)
		}
	}
	in := onNICs(7, 2, free, nics)
	for b.Loop() {
		if got := Count(in); got.Servers == 0 || got.AtMost != got.Servers {
			b.Fatalf("%d to %d servers", got.Servers, got.AtMost)
		}
	}
	b.ReportMetric(float64(len(in.Candidates)), "candidates")
}
