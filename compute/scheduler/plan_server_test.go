package scheduler

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// TestSampleTakesEachHostEquallyOften checks that a sample has different hosts, none without a root, and that over many
// seeds each host is in about as many samples.
func TestSampleTakesEachHostEquallyOften(t *testing.T) {
	const count, rounds = 4 * sampledHosts, 2000
	hosts := make([]schedule.HostRoot, count)
	for i := range hosts {
		hosts[i] = schedule.HostRoot{Name: fmt.Sprint("host", i), Root: provider.ID(fmt.Sprint("root", i))}
	}
	hosts[7].Root = ""
	times := map[provider.ID]int{}
	for seed := range uint64(rounds) {
		in := map[provider.ID]bool{}
		some := sample(hosts, seed)
		for _, root := range some {
			in[root] = true
			times[root]++
		}
		if len(in) != len(some) || len(some) < sampledHosts-1 || in[""] {
			t.Fatalf("seed %d: %d roots, %d different: %v", seed, len(some), len(in), some)
		}
	}
	const want = rounds / 4
	for _, h := range hosts {
		if n := times[h.Root]; h.Root != "" && (n < want*8/10 || n > want*12/10) {
			t.Errorf("%s is in %d of %d samples, want about %d", h.Name, n, rounds, want)
		}
	}
}
