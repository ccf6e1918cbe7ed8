package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// TestOneDeviceTooFew: k groups on k-1 devices. Whoever tries permutations does not come back from 64!.
func TestOneDeviceTooFew(t *testing.T) {
	three := []resource.Trait{"CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GREEN"}
	for _, n := range []int{8, 16, 64} {
		for _, classes := range [][]resource.Class{nics, both} {
			for _, traits := range [][]resource.Trait{nil, colours, three} {
				for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
					s := index.Build(devices("cmp", n, 0, classes, traits))
					for c := range candidate.All(s, deviceAsk(n+1, policy, classes, traits)) {
						t.Fatalf("%d on %d: %s", n+1, n, brief(c))
					}
					if got := candidate.Explain(s, deviceAsk(n+1, policy, classes, traits)); got.Reason == "" {
						t.Fatalf("%d on %d: no explanation", n+1, n)
					}
				}
			}
		}
	}
}

// TestAsManyDevicesAsGroups: the first thousand candidates of very many, all different, none over capacity.
func TestAsManyDevicesAsGroups(t *testing.T) {
	for _, n := range []int{16, 64} {
		for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
			ask := deviceAsk(n, policy, both, colours)
			ask.Limit = 1000
			seen := map[string]bool{}
			for c := range candidate.All(index.Build(devices("cmp", n, 0, both, colours)), ask) {
				if len(c.Allocation) != n+1 || len(c.Mappings) != n+1 {
					t.Fatalf("%d providers, %d groups", len(c.Allocation), len(c.Mappings))
				}
				seen[key(c)] = true
			}
			if len(seen) != ask.Limit {
				t.Errorf("%d of %d: %d candidates", n, n, len(seen))
			}
		}
	}
}

// ports asks a virtual function and bandwidth for each port, both of one card.
func ports(n int) resource.Ask {
	ask := resource.Ask{GroupPolicy: resource.PolicyNone, Limit: 100}
	for i := range n {
		suffix := func(s string) string { return fmt.Sprintf("_%s%d", s, i) }
		ask.Groups = append(ask.Groups,
			resource.Group{Suffix: suffix("card"), Required: [][]resource.Trait{{"CUSTOM_CARD"}}},
			resource.Group{Suffix: suffix("vf"), Resources: resource.Amounts{"VF": 1}},
			resource.Group{Suffix: suffix("bw"), Resources: resource.Amounts{"BW": 1000}})
		ask.SameSubtree = append(ask.SameSubtree, []string{suffix("card"), suffix("vf"), suffix("bw")})
	}
	return ask
}

// TestCardsThatAreShortOfDifferentThings: every other card has few functions, every other little bandwidth. There is
// enough of each class in sum; only who counts by card sees that one port is too many.
func TestCardsThatAreShortOfDifferentThings(t *testing.T) {
	world := "\ncmp\n"
	for i := range 12 {
		vf, bw := 9, 1000
		if i%2 == 0 {
			vf, bw = 1, 9000
		}
		world += fmt.Sprintf("\tcard%02d +CUSTOM_CARD\n\t\tvf%02d VF=%d\n\t\tbw%02d BW=%d\n", i, i, vf, i, bw)
	}
	s := index.Build(parseWorld(t, world))
	for c := range candidate.All(s, ports(13)) {
		t.Fatalf("13 ports on 12 cards: %s", brief(c))
	}
	found := 0
	for range candidate.All(s, ports(12)) {
		found++
	}
	if found != 100 {
		t.Errorf("12 ports on 12 cards: %d candidates", found)
	}
}

// TestUnequalSharesArePacked: amounts of one class that differ, where counting alone cannot tell.
func TestUnequalSharesArePacked(t *testing.T) {
	s := index.Build(parseWorld(t, `
		cmp
			numa0 VCPU=10
			numa1 VCPU=10
			numa2 VCPU=10
	`))
	pack := func(amounts ...int) (n int) {
		ask := resource.Ask{GroupPolicy: resource.PolicyNone}
		for i, a := range amounts {
			ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint("_", i), Resources: resource.Amounts{"VCPU": a}})
		}
		for range candidate.All(s, ask) {
			n++
		}
		return n
	}
	if n := pack(6, 6, 6, 4, 4, 4); n != 36 { // each 4 beside a 6: 3! times 3!
		t.Errorf("three sixes and three fours on three tens: %d ways", n)
	}
	if n := pack(7, 7, 7, 4); n != 0 {
		t.Errorf("25 of 30, but no ten holds a seven and a four: %d ways", n)
	}
	if n := pack(5, 5, 5, 5, 5, 5, 1); n != 0 {
		t.Errorf("31 of 30: %d ways", n)
	}
}
