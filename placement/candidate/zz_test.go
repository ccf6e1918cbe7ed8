package candidate_test

import (
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"testing"
)

func BenchmarkZZ(b *testing.B) {
	for _, h := range hardOnes() {
		s := index.Build(h.rows)
		b.Run(h.name, func(b *testing.B) {
			for b.Loop() {
				candidate.Explain(s, h.ask)
			}
		})
	}
}
