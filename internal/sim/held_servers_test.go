package sim

import (
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Servers are deleted so that they can be restored, restored and reclaimed, and shelved on their hosts, through all
// failures.
func TestHeldServers(t *testing.T) {
	testenv.Long(t)
	happened := map[string]int{}
	for seed := range uint64(3) {
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
