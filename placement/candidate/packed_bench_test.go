package candidate_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
)

var packedHosts = flag.Int("packed-hosts", 0, "number of hosts of asks that are hard to pack; 0: 3 to 300")

// BenchmarkPacked asks for up to 32 groups that are hard to pack, on 3 to 300 hosts that differ, with the limits of the
// service: one candidate of each host, at most 1.5 s. Each operation is another ask.
func BenchmarkPacked(b *testing.B) {
	took, undecided := make([]time.Duration, b.N), 0
	b.StopTimer()
	for n := range took {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		hosts := 3 + rng.IntN(298)
		if *packedHosts > 0 {
			hosts = *packedHosts
		}
		s, ask := ct.PackedOn(rng, hosts)
		ask.Limit = 1000
		given := false
		b.StartTimer()
		began := time.Now()
		for range candidate.Find(s, ask, candidate.Options{
			Stop:         func() bool { return time.Since(began) > 1500*time.Millisecond },
			TreeSteps:    candidate.StepsOfATree,
			Undecided:    func(*index.Tree, []string) { given = true },
			BreadthFirst: true,
		}) {
		}
		took[n] = time.Since(began)
		b.StopTimer()
		if given {
			undecided++
		}
	}
	slices.Sort(took)
	for name, at := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		b.ReportMetric(float64(took[int(at*float64(len(took)-1))])/1e6, name)
	}
	b.ReportMetric(float64(undecided)/float64(len(took)), "undecided/op")
}
