package sim

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// A server that is created or moved never breaks the policy of its server group. Other checks have their own tests.
func TestGroupPolicies(t *testing.T) {
	testenv.Long(t)
	others := 0
	for seed := range uint64(2) {
		r := Run(Options{Seed: seed, Ops: 20000, Hosts: 12, Quiet: 40000, Without: []string{"steal", Ports}, Groups: true})
		failure, _, _ := strings.Cut(r.Failure, "\n")
		if isOf(failure, "group") {
			t.Error(failure)
		}
		others += r.Happened[besideOthers]
	}
	if others < 20 {
		t.Errorf("only %d servers got a host while others of their groups had one", others)
	}
}
