package candidate_test

import (
	"testing"
	"time"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
)

// TestHardCasesAreDecided checks that no hard case has to be stopped. Nearly all take less than a millisecond (see
// BenchmarkHard); the deadline allows for a loaded machine.
func TestHardCasesAreDecided(t *testing.T) {
	for _, h := range ct.HardCases() {
		s := index.Build(h.Rows)
		began := time.Now()
		slow := false
		stop := func() bool { slow = slow || time.Since(began) > 20*time.Second; return slow }
		for range candidate.Find(s, h.Ask, candidate.Options{Stop: stop}) {
			break
		}
		if slow {
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
