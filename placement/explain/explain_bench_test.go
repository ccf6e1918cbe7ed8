package explain_test

import (
	"testing"
	"time"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/explain"
)

// BenchmarkExplain asks and explains in turn, and reports what an explanation costs as a multiple of what it costs to
// find that there is no candidate (or to find the first). The quickest round of each counts, because other processes
// may use the machine.
func BenchmarkExplain(b *testing.B) {
	for _, q := range questions() {
		b.Run(q.name, func(b *testing.B) {
			world, asking, explaining := q.world(), time.Hour, time.Hour
			for b.Loop() {
				began := time.Now()
				for range candidate.Find(world, q.ask, candidate.Options{}) {
					break
				}
				asked := time.Now()
				explain.Why(world, q.ask, nil)
				asking, explaining = min(asking, asked.Sub(began)), min(explaining, time.Since(asked))
			}
			b.ReportMetric(float64(explaining)/float64(asking), "ratio")
			b.ReportMetric(float64(asking.Nanoseconds())/1000, "us/ask")
			b.ReportMetric(float64(explaining.Nanoseconds())/1000, "us/explain")
		})
	}
}
