package bench

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var r Result
	for i := range 100 {
		r.Took = append(r.Took, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := r.Quantile(share); got != want {
			t.Errorf("%g: %d, want %d", share, got, want)
		}
	}
}
