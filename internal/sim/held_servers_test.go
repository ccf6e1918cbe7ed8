package sim

import (
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Servers are deleted so that they can be restored, restored and reclaimed, and shelved on their hosts, through all
// failures.
func TestHeldServers(t *testing.T) {
	testenv.Long(t)
	happened := map[string]int{}
	missing := func() bool { return slices.Contains(slices.Collect(maps.Values(happened)), 0) }
	for seed := uint64(0); seed < 3 || seed < 9 && missing(); seed++ { // few clouds may lack something
		r := Run(Options{Seed: seed, Ops: 12000, Hosts: 12, Quiet: 4000, Without: []string{"steal", Ports}, Held: true})
		if r.Failure != "" {
			t.Error(r.Failure)
		}
		for _, what := range []string{"reclaimed", "restore", "shelve", "shelveOffload", "offloaded"} {
			happened[what] += r.Happened[what] + r.Done[what]
		}
	}
	for what, n := range happened {
		if n == 0 {
			t.Errorf("%q never happened", what)
		}
	}
	t.Log(happened)
}
