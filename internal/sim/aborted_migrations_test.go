package sim

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/internal/testenv"
)

// Live migrations that are aborted, or whose completion is forced, at any step.
func TestAbortedMigrations(t *testing.T) {
	testenv.Long(t)
	aborted := 0
	for seed := range uint64(3) {
		r := Run(Options{Seed: seed, Ops: 12000, Hosts: 12, Quiet: 4000, Without: []string{"steal", Ports}, Often: "abort"})
		if r.Failure != "" {
			t.Error(r.Failure)
		}
		aborted += r.Done[string(lifecycle.AbortLive)] + r.Done[string(lifecycle.ForceLive)]
	}
	if aborted < 5 {
		t.Errorf("%d migrations were aborted", aborted)
	}
}
