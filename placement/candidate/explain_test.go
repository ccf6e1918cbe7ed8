package candidate_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

var explanations = []struct {
	why   string
	world string
	ask   string
	want  string
}{
	{
		"there is nothing at all", "", "VCPU:1", `
there are no providers at all
       0 hosts
`,
	}, {
		"nobody has such a device", `
		cmp-1 VCPU=4
		cmp-2 VCPU=4
		`, "VCPU:1 | _1 GPU:1", `
no provider offers GPU
       2 hosts
       0 offer GPU
never together: GPU:1
nearest: cmp-1: GPU: asks 1, none here
nearest: cmp-2: GPU: asks 1, none here
`,
	}, {
		"all are held", `
		cmp-1 VCPU=4
			dev10 GPU=1/1
			dev11 GPU=1/1
		cmp-2 VCPU=4
			dev20 GPU=1/1
		cmp-3 VCPU=4
		`, "VCPU:1 | _1 GPU:1", `
2 hosts have GPU but all 3 are taken (nearest: cmp-1: GPU: asks 1, 0 of 2 free)
       3 hosts
       2 offer GPU
       0 have GPU:1 free on one provider
never together: GPU:1
nearest: cmp-1: GPU: asks 1, 0 of 2 free
nearest: cmp-2: GPU: asks 1, 0 of 1 free
`,
	}, {
		"all are reserved", `
		cmp-1 GPU=2,reserved=2
		`, "_1 GPU:1", `
1 host has GPU but all 2 are reserved (nearest: cmp-1: GPU: asks 1, 0 of 0 free (2 reserved))
       1 hosts
       0 have GPU:1 free on one provider
never together: GPU:1
nearest: cmp-1: GPU: asks 1, 0 of 0 free (2 reserved)
`,
	}, {
		"the wrong ones", `
		cmp-1 VCPU=4
			dev10 GPU=1 +OLD
		cmp-2 VCPU=4
			dev20 GPU=1
		`, "_1 GPU:1 +NEW", `
no provider has NEW, which is asked with GPU
       2 hosts
       0 have a provider with NEW
never together: GPU:1 with NEW
nearest: cmp-1: GPU: none with NEW
nearest: cmp-2: GPU: none with NEW
`,
	}, {
		"enough for one group, not for all", `
		cmp-1 VCPU=4
			dev10 GPU=1/1
			dev11 GPU=1
		cmp-2 VCPU=4
			dev20 GPU=1
			dev21 GPU=1
		cmp-3 VCPU=4/4
			dev30 GPU=3
		`, "VCPU:1 | _1 GPU:1 | _2 GPU:1 | _3 GPU:1", `
2 hosts have VCPU:1 free on one provider, none has room for 3 x GPU:1 (nearest: cmp-2: GPU: asks 3, 2 of 2 free)
       3 hosts
       2 have VCPU:1 free on one provider
       0 have room for 3 x GPU:1
never together: VCPU:1 + 3 x GPU:1
nearest: cmp-2: GPU: asks 3, 2 of 2 free
nearest: cmp-1: GPU: asks 3, 1 of 2 free
`,
	}, {
		"enough in sum, not on one provider", `
		cmp-1
			dev10 GPU=1
			dev11 GPU=1
		`, "_1 GPU:2", `
of 1 host, none has GPU:2 free on one provider (nearest: cmp-1: GPU: asks 2, 1 of 1 free)
       1 hosts
       0 have GPU:2 free on one provider
never together: GPU:2
nearest: cmp-1: GPU: asks 2, 1 of 1 free
`,
	}, {
		"a rule of the inventory", `
		cmp-1
			dev10 GPU=8,max=2
		`, "_1 GPU:3", `
of 1 host, none has GPU:3 free on one provider (nearest: cmp-1: GPU: asks 3, 8 of 8 free (the largest share is 2))
       1 hosts
       0 have GPU:3 free on one provider
never together: GPU:3
nearest: cmp-1: GPU: asks 3, 8 of 8 free (the largest share is 2)
`,
	}, {
		"only group_policy is in the way", `
		cmp-1
			pf0 VF=8
		`, "_1 VF:1 | _2 VF:1 | isolate", `
of 1 host, none has room for 2 x VF:1 on separate providers (nearest: cmp-1: VF: asks 2, 8 of 8 free (group_policy=isolate))
       1 hosts
       0 have room for 2 x VF:1 on separate providers
never together: 2 x VF:1 + group_policy=isolate
nearest: cmp-1: VF: asks 2, 8 of 8 free (group_policy=isolate)
`,
	}, {
		"only same_subtree is in the way", `
		cmp-1
			nic0
				pf0 VF=8
			nic1 BW=9
		`, "_v VF:1 | _b BW:1 | together=_v,_b", `
of 1 host, none has room for VF:1 and BW:1 under one provider as same_subtree asks (nearest: cmp-1: VF: asks 1, 8 of 8 free (same_subtree); BW: asks 1, 9 of 9 free (same_subtree))
       1 hosts
       0 have room for VF:1 and BW:1 under one provider as same_subtree asks
never together: VF:1 + BW:1 + same_subtree=_v,_b
nearest: cmp-1: VF: asks 1, 8 of 8 free (same_subtree); BW: asks 1, 9 of 9 free (same_subtree)
`,
	}, {
		"the root", `
		cmp-1 VCPU=4 +OLD
		cmp-2 VCPU=4
		`, "VCPU:1 | root=+NEW | root=!OLD", `
no provider has NEW, which root_required names
       2 hosts
       0 have a provider with NEW
never together: root_required=NEW
nearest: cmp-1: its root is not one with NEW, without OLD
nearest: cmp-2: its root is not one with NEW, without OLD
`,
	}, {
		"a tree that does not exist", `
		cmp-1 VCPU=4
		`, "VCPU:1 ^cmp-9", `
in_tree names cmp-9, and there is no such provider
       1 hosts
`,
	}, {
		"there is a candidate", `
		cmp-1 VCPU=4
		`, "VCPU:1", `
there are candidates
`,
	},
}

func TestExplanations(t *testing.T) {
	for _, e := range explanations {
		t.Run(e.why, func(t *testing.T) {
			got := candidate.Explain(index.Build(parseWorld(t, e.world)), parseAsk(t, e.ask)).String()
			if got != strings.TrimPrefix(e.want, "\n") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestExplainSaysNothingExactlyWhenThereIsACandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		s := index.Build(rows)
		any := len(twinAll(rows, ask)) > 0
		e := candidate.Explain(s, ask)
		if empty := e.Reason == ""; empty != any {
			t.Fatalf("candidates: %v, explanation %s", any, e)
		}
		if any {
			return
		}
		if n := len(e.Nearest); n > 3 || len(e.Funnel) == 0 || e.Funnel[0].Left != s.Len() {
			t.Fatalf("%s", e)
		}
		falling := slices.IsSortedFunc(e.Funnel, func(a, b candidate.Step) int { return b.Left - a.Left })
		if !falling || len(e.Funnel) > 1 && e.Funnel[len(e.Funnel)-1].Left != 0 {
			t.Fatalf("the funnel widens, or does not close:\n%s", e)
		}
	})
}

func TestNoClauseOfTheContradictionCanBeLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		s := index.Build(rows)
		whole, less := candidate.Contradiction(s, ask, rapid.SampledFrom([]int{1, 64}).Draw(t, "few"))
		if less == nil {
			return
		}
		if candidate.Possible(s, whole) {
			t.Fatalf("ask %+v\nis possible without what was left out: %+v", ask, whole)
		}
		for _, fewer := range less {
			if !candidate.Possible(s, fewer) {
				t.Fatalf("ask %+v\ncontradiction %+v\nstill impossible as %+v", ask, whole, fewer)
			}
		}
	})
}

// Whether all hosts have too little of a class is found out without a look at them: the index knows which have any.
func TestAllBusyIsNeverRough(t *testing.T) {
	for _, hosts := range []int{100, 3000} {
		e := candidate.Explain(index.Build(rarely(hosts, 0)), rare(1))
		if want := []string{"CUSTOM_NIC:1"}; e.Rough || !slices.Equal(e.Minimal, want) {
			t.Errorf("%d hosts: %s", hosts, e)
		}
	}
}

// In a fleet of hosts that all differ, an explanation looks at few of them again: what it would cost more to find out, it leaves open.
func TestAnExplanationOfMuchIsRough(t *testing.T) {
	for hosts, rough := range map[int]bool{30: false, 3000: true} {
		e := candidate.Explain(index.Build(rarely(hosts, 4)), rare(5))
		want := []string{"5 x CUSTOM_NIC:1"}
		if rough {
			want = []string{"5 x CUSTOM_NIC:1 with CUSTOM_RARE"}
		}
		if e.Rough != rough || !slices.Equal(e.Minimal, want) {
			t.Errorf("%d hosts: %s", hosts, e)
		}
	}
}

// Where all hosts but a few names are alike, it looks at one of them.
func TestAnExplanationOfMuchThatIsAlikeIsExact(t *testing.T) {
	rows := fleet(3000, 4)
	for i := range 26 {
		rows[27*7+1+i].Traits = []resource.Trait{"CUSTOM_RARE"}
	}
	e := candidate.Explain(index.Build(rows), rare(5))
	if want := []string{"5 x CUSTOM_NIC:1"}; e.Rough || !slices.Equal(e.Minimal, want) {
		t.Errorf("%s", e)
	}
}

// rarely is a varied fleet with so many free devices on each host, and a rare one on the first.
func rarely(hosts, free int) []index.Row {
	rows := varied(hosts, free)
	rows[26].Traits = append(rows[26].Traits, "CUSTOM_RARE")
	return rows
}

// rare asks so many rare devices.
func rare(n int) resource.Ask {
	return change(deviceAsk(n, resource.PolicyNone, nics, nil), func(g *resource.Group) {
		g.Required = [][]resource.Trait{{"CUSTOM_RARE"}}
	})
}
