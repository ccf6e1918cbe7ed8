package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// TestOneDeviceTooFew checks that k groups have no candidate on k-1 devices. A search that tried permutations would not
// end.
func TestOneDeviceTooFew(t *testing.T) {
	three := []resource.Trait{"CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GREEN"}
	for _, n := range []int{8, 16, 64} {
		for _, classes := range [][]resource.Class{ct.NICs, ct.NICsAndGPUs} {
			for _, traits := range [][]resource.Trait{nil, ct.Red, three} {
				for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
					s := index.Build(ct.Devices("cmp", n, 0, classes, traits))
					for c := range candidate.Find(s, ct.DeviceAsk(n+1, policy, classes, traits), candidate.Options{}) {
						t.Fatalf("%d groups on %d devices: %s", n+1, n, ct.Brief(c))
					}
				}
			}
		}
	}
}

// TestAsManyDevicesAsGroups checks that the first thousand of very many candidates differ and use each device once.
func TestAsManyDevicesAsGroups(t *testing.T) {
	for _, n := range []int{16, 64} {
		for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
			ask := ct.DeviceAsk(n, policy, ct.NICsAndGPUs, ct.Red)
			ask.Limit = 1000
			seen := map[string]bool{}
			s := index.Build(ct.Devices("cmp", n, 0, ct.NICsAndGPUs, ct.Red))
			for c := range candidate.Find(s, ask, candidate.Options{}) {
				if len(c.Allocation()) != n+1 || len(c.Mappings()) != n+1 {
					t.Fatalf("%d providers, %d groups", len(c.Allocation()), len(c.Mappings()))
				}
				seen[ct.Key(c)] = true
			}
			if len(seen) != ask.Limit {
				t.Errorf("%d groups on %d devices: %d different candidates", n, n, len(seen))
			}
		}
	}
}

// TestCardsWithDifferentShortages checks cards that alternately have few functions or little bandwidth. The sum of each
// class is sufficient; only counting by card shows that one port is too many.
func TestCardsWithDifferentShortages(t *testing.T) {
	world := "\ncmp\n"
	for i := range 12 {
		vf, bw := 9, 1000
		if i%2 == 0 {
			vf, bw = 1, 9000
		}
		world += fmt.Sprintf("\tcard%02d +CUSTOM_CARD\n\t\tvf%02d VF=%d\n\t\tbw%02d BW=%d\n", i, i, vf, i, bw)
	}
	s := index.Build(ct.ParseWorld(t, world))
	for c := range candidate.Find(s, ct.Ports(13), candidate.Options{}) {
		t.Fatalf("13 ports on 12 cards: %s", ct.Brief(c))
	}
	found := 0
	for range candidate.Find(s, ct.Ports(12), candidate.Options{}) {
		found++
	}
	if found != 100 {
		t.Errorf("12 ports on 12 cards: %d candidates", found)
	}
}

// TestUnequalAmountsArePacked checks different amounts of one class, which counting alone cannot decide.
func TestUnequalAmountsArePacked(t *testing.T) {
	s := index.Build(ct.ParseWorld(t, `
		cmp
			numa0 VCPU=10
			numa1 VCPU=10
			numa2 VCPU=10
	`))
	pack := func(amounts ...int) (n int) {
		ask := resource.Ask{GroupPolicy: resource.PolicyNone}
		for i, a := range amounts {
			g := resource.Group{Suffix: fmt.Sprint("_", i), Resources: resource.Amounts{"VCPU": a}}
			ask.Groups = append(ask.Groups, g)
		}
		for range candidate.Find(s, ask, candidate.Options{}) {
			n++
		}
		return n
	}
	if n := pack(6, 6, 6, 4, 4, 4); n != 36 { // each 4 with a 6: 3! times 3!
		t.Errorf("amounts 6, 6, 6, 4, 4, 4 on three providers of 10: %d candidates, want 36", n)
	}
	if n := pack(7, 7, 7, 4); n != 0 {
		t.Errorf("amounts 7, 7, 7, 4 on three providers of 10: %d candidates, want 0", n)
	}
	if n := pack(5, 5, 5, 5, 5, 5, 1); n != 0 {
		t.Errorf("31 units on three providers of 10: %d candidates, want 0", n)
	}
}
