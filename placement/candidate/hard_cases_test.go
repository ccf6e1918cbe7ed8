package candidate_test

import (
	"testing"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
)

// TestHardCasesAreDecided checks that no hard case is long: a search calls Stop at its begin and after many steps each
// (see BenchmarkHard for times).
func TestHardCasesAreDecided(t *testing.T) {
	for _, h := range ct.HardCases() {
		s := index.Build(h.Rows)
		calls := 0
		stop := func() bool { calls++; return calls > 3 }
		for range candidate.Find(s, h.Ask, candidate.Options{Stop: stop}) {
			break
		}
		if calls > 3 {
			t.Errorf("%s: the search was stopped", h.Name)
		}
	}
}

// BenchmarkHard decides the hard cases.
func BenchmarkHard(b *testing.B) {
	for _, h := range ct.HardCases() {
		s := index.Build(h.Rows)
		b.Run(h.Name, func(b *testing.B) {
			for b.Loop() {
				for range candidate.Find(s, h.Ask, candidate.Options{}) {
					break
				}
			}
		})
	}
}
