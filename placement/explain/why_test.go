package explain_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/explain"
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
		"no host has the class", `
		cmp-1 VCPU=4
		cmp-2 VCPU=4
		`, "VCPU:1 | _1 GPU:1", `
no provider offers GPU
       2 hosts
       0 offer GPU
never together: GPU:1
without GPU:1 2 hosts have room
nearest: cmp-1: GPU: asks 1, none here
nearest: cmp-2: GPU: asks 1, none here
`,
	}, {
		"consumers hold all units", `
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
without GPU:1 3 hosts have room
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
without NEW 2 hosts have room
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
without 3 x GPU:1 2 hosts have room
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
of 1 host, none has room for 2 x VF:1 on separate providers \
(nearest: cmp-1: VF: asks 2, 8 of 8 free (group_policy=isolate))
       1 hosts
       0 have room for 2 x VF:1 on separate providers
never together: 2 x VF:1 + group_policy=isolate
without group_policy=isolate 1 host has room
nearest: cmp-1: VF: asks 2, 8 of 8 free (group_policy=isolate)
`,
	}, {
		"only same_subtree is in the way", `
		cmp-1
			nic0
				pf0 VF=8
			nic1 BW=9
		`, "_v VF:1 | _b BW:1 | together=_v,_b", `
of 1 host, none has room for VF:1 and BW:1 under one provider as same_subtree asks \
(nearest: cmp-1: VF: asks 1, 8 of 8 free (same_subtree); BW: asks 1, 9 of 9 free (same_subtree))
       1 hosts
       0 have room for VF:1 and BW:1 under one provider as same_subtree asks
never together: VF:1 + BW:1 + same_subtree=_v,_b
without VF:1 1 host has room
nearest: cmp-1: VF: asks 1, 8 of 8 free (same_subtree); BW: asks 1, 9 of 9 free (same_subtree)
`,
	}, {
		"of three same_subtree clauses in a chain, the outer two are in the way", `
		cmp-1
			pf0 VF=3
			pf1 VF=1
		`, "_1 VF:1 | _2 VF:1 | _3 VF:1 | _4 VF:1 | together=_1,_2 | together=_2,_3 | together=_3,_4", `
of 1 host, none has room for 4 x VF:1 under one provider as same_subtree asks \
(nearest: cmp-1: VF: asks 4, 4 of 4 free (same_subtree))
       1 hosts
       0 have room for 4 x VF:1 under one provider as same_subtree asks
never together: 4 x VF:1 + same_subtree=_1,_2 + same_subtree=_3,_4
without same_subtree=_1,_2 1 host has room
nearest: cmp-1: VF: asks 4, 4 of 4 free (same_subtree)
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
without root_required=NEW 1 host has room
nearest: cmp-1: its root is not one with NEW, without OLD
nearest: cmp-2: its root is not one with NEW, without OLD
`,
	}, {
		"no host has a trait of the unsuffixed group", `
		cmp-1 VCPU=4 MEM=100/95
		cmp-2 VCPU=4 MEM=100
			card GPU=1 +AVX
		`, "VCPU:1 MEM:10 +AVX", `
of 2 hosts, none has a provider of MEM or VCPU with AVX
       2 hosts
       0 have a provider of MEM or VCPU with AVX
never together: MEM:10,VCPU:1 with AVX
without AVX 1 host has room
nearest: cmp-1: no provider of MEM or VCPU with AVX
nearest: cmp-2: no provider of MEM or VCPU with AVX
`,
	}, {
		"the clause most in the way is not the last of the funnel", `
		cmp-1 VCPU=4 MEM=100
		cmp-2 VCPU=4 MEM=100
		cmp-3 VCPU=4 MEM=100/95
			card GPU=1
		`, "VCPU:1 MEM:10 | _1 GPU:1", `
1 host offers GPU, none has MEM:10 free on one provider (nearest: cmp-3: MEM: asks 10, 5 of 100 free); \
without GPU:1 2 hosts have room
       3 hosts
       1 offer GPU
       0 have MEM:10 free on one provider
never together: MEM:10 + GPU:1
without GPU:1 2 hosts have room
nearest: cmp-3: MEM: asks 10, 5 of 100 free
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

// TestMain sets the number of random fleets: they are small, so thousands are tried.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestExplanations(t *testing.T) {
	for _, e := range explanations {
		t.Run(e.why, func(t *testing.T) {
			got := explain.Why(index.Build(ct.ParseWorld(t, e.world)), ct.ParseAsk(t, e.ask), nil).String()
			want := strings.ReplaceAll(strings.TrimPrefix(e.want, "\n"), "\\\n", "") // "\" continues a line
			if got != want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestExplanationIsEmptyOnlyIfThereIsACandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		s := index.Build(rows)
		any := len(ct.BruteForce(rows, ask)) > 0
		e := explain.Why(s, ask, nil)
		if empty := e.Reason == ""; empty != any {
			t.Fatalf("candidates: %v, explanation %s", any, e)
		}
		ask.Flat = true
		flat := false
		for range candidate.Find(s, ask, candidate.Options{}) {
			flat = true
			break
		}
		if why := explain.Why(s, ask, nil); (why.Reason == "") != flat {
			t.Fatalf("with Flat: candidates: %v, explanation %s", flat, why)
		}
		if any {
			return
		}
		if n := len(e.Nearest); n > 3 || len(e.Funnel) == 0 || e.Funnel[0].Left != s.Len() {
			t.Fatalf("%s", e)
		}
		falling := slices.IsSortedFunc(e.Funnel, func(a, b explain.FunnelRow) int { return b.Left - a.Left })
		if !falling || len(e.Funnel) > 1 && e.Funnel[len(e.Funnel)-1].Left != 0 {
			t.Fatalf("the funnel widens, or does not end with 0:\n%s", e)
		}
		seen := map[string]bool{}
		for i, row := range e.Funnel[1:] { // no fleet here has 20 hosts, so all are named
			if removed := e.Funnel[i].Left - row.Left; removed != len(row.Removed) {
				t.Fatalf("%d hosts are removed, named are %v:\n%s", removed, row.Removed, e)
			}
			for _, host := range row.Removed {
				if seen[host] {
					t.Fatalf("%s is removed twice:\n%s", host, e)
				}
				seen[host] = true
			}
		}
	})
}

// TestMinimalClausesAreMinimal: no host meets the minimal clauses together, and without any one of them some host does,
// both by brute force. For small fleets the search is never stopped by its bound.
func TestMinimalClausesAreMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		few := rapid.SampledFrom([]int{1, 0}).Draw(t, "few")
		whole, less, rough := explain.MinimalAsks(index.Build(rows), ask, few, 0)
		if less == nil {
			return
		}
		if rough || possible(rows, whole) {
			t.Fatalf("rough: %v, ask %+v\nminimal %+v\nworld %+v", rough, ask, whole, rows)
		}
		for _, fewer := range less {
			if !possible(rows, fewer) {
				t.Fatalf("ask %+v\nminimal %+v\nstill impossible as %+v\nworld %+v", ask, whole, fewer, rows)
			}
		}
	})
}

// TestHelpIsTheClauseMostInTheWay: no single clause, left out, gives more hosts a candidate than the one that is named,
// and that one gives as many as it says, both by brute force.
func TestHelpIsTheClauseMostInTheWay(t *testing.T) {
	named, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		less, best, known := explain.HelpAsks(index.Build(rows), ask, 1<<40)
		if !known {
			return
		}
		most := 0
		for name, asks := range less {
			if name == "" {
				t.Fatalf("a clause of %+v has no name", ask)
			}
			for _, fewer := range asks {
				n := ct.BruteForceHosts(rows, fewer)
				most = max(most, n)
				if name == best.Clause && len(asks) == 1 && n != best.Hosts {
					t.Fatalf("ask %+v\nwithout %s %d hosts have room, by brute force %d\nworld %+v", ask, name, best.Hosts, n, rows)
				}
			}
		}
		if best.Hosts != most || (best.Clause == "") != (most == 0) {
			t.Fatalf("ask %+v\nbest %+v, by brute force %d hosts\nworld %+v", ask, best, most, rows)
		}
		if most > 0 {
			named++
		} else {
			none++
		}
	})
	if named == 0 || none == 0 {
		t.Errorf("%d asks with such a clause, %d without", named, none)
	}
}

// TestMinimalClaimsOnlyWhatIsProven: wherever its bound stops the search for minimal clauses, no host meets them
// together, and they are rough unless each of them is needed.
func TestMinimalClaimsOnlyWhatIsProven(t *testing.T) {
	rough, exact := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		most := rapid.IntRange(1, 40).Draw(t, "most")
		whole, less, stopped := explain.MinimalAsks(index.Build(rows), ask, 0, most)
		if less == nil {
			return
		}
		if possible(rows, whole) {
			t.Fatalf("ask %+v\npossible as %+v", ask, whole)
		}
		if stopped {
			rough++
			return
		}
		exact++
		for _, fewer := range less {
			if !possible(rows, fewer) {
				t.Fatalf("ask %+v\nnot rough %+v\nimpossible as %+v", ask, whole, fewer)
			}
		}
	})
	if rough == 0 || exact == 0 {
		t.Errorf("%d rough, %d exact: the bounds try only one of them", rough, exact)
	}
}

// possible reports by brute force whether some host meets an ask; also an ask without groups, which has no candidates.
func possible(rows []index.Row, ask resource.Ask) bool {
	if len(ask.Groups) > 0 {
		return len(ct.BruteForce(rows, ask)) > 0
	}
	return slices.ContainsFunc(rows, func(r index.Row) bool {
		lacks := func(t resource.Trait) bool { return !r.HasTrait(t) }
		return r.Parent == "" && !slices.ContainsFunc(ask.RootRequired, lacks) &&
			!slices.ContainsFunc(ask.RootForbidden, r.HasTrait)
	})
}

// TestAllBusyIsNeverRough: the index knows that no host has anything left of a class.
func TestAllBusyIsNeverRough(t *testing.T) {
	for _, hosts := range []int{100, 3000} {
		e := explain.Why(index.Build(rarely(hosts, 0)), rare(1), nil)
		if want := []string{"CUSTOM_NIC:1"}; e.Rough || !slices.Equal(e.Minimal, want) {
			t.Errorf("%d hosts: %s", hosts, e)
		}
	}
}

// TestExplanationOfManyDifferentHostsIsRough: one host is judged, and the others differ from it and from each other.
// The search for minimal clauses does not look at all of them.
func TestExplanationOfManyDifferentHostsIsRough(t *testing.T) {
	for hosts, rough := range map[int]bool{30: false, 3000: true} {
		e := explain.Why(index.Build(rarely(hosts, 4)), rare(5), nil)
		want := []string{"5 x CUSTOM_NIC:1"}
		if rough {
			want = []string{"5 x CUSTOM_NIC:1 with CUSTOM_RARE"}
		}
		if e.Rough != rough || !slices.Equal(e.Minimal, want) {
			t.Errorf("%d hosts: %s", hosts, e)
		}
	}
}

// TestExplanationOfEqualHostsIsExact: of thousands of hosts of one shape, one is looked at.
func TestExplanationOfEqualHostsIsExact(t *testing.T) {
	rows := ct.Fleet(3000, 4)
	for i := range 26 {
		rows[27*7+1+i].Traits = []resource.Trait{"CUSTOM_RARE"}
	}
	e := explain.Why(index.Build(rows), rare(5), nil)
	if want := []string{"5 x CUSTOM_NIC:1"}; e.Rough || !slices.Equal(e.Minimal, want) {
		t.Errorf("%s", e)
	}
}

// TestStop: an explanation that is stopped ends soon, and one that is not stopped is the usual one.
func TestStop(t *testing.T) {
	s, ask := ct.Long()
	soon, late := 0, 0
	explain.Why(s, ask, ct.StopAfter(1, &soon))
	why := explain.Why(s, ask, ct.StopAfter(1<<30, &late))
	if soon > late/4 {
		t.Errorf("%d calls of stop after it returned true, %d calls when it did not", soon, late)
	}
	if always := explain.Why(s, ask, nil); why.Reason == "" || why.String() != always.String() {
		t.Errorf("%s\nwant %s", why, always)
	}
}

// TestHardAsksAreExplainedWithinABound: an explanation takes at most a few times as many steps as the search that finds
// no candidate.
func TestHardAsksAreExplainedWithinABound(t *testing.T) {
	stuck, ask := ct.Long()
	explainWithinBound(t, "stuck", stuck, ask)
	three := []resource.Trait{"CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GREEN"}
	for _, n := range []int{8, 16, 64} {
		for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
			for _, traits := range [][]resource.Trait{nil, ct.Red, three} {
				s := index.Build(ct.Devices("cmp", n, 0, ct.NICsAndGPUs, traits))
				ask := ct.DeviceAsk(n+1, policy, ct.NICsAndGPUs, traits)
				explainWithinBound(t, fmt.Sprint(n, policy, traits), s, ask)
			}
		}
	}
	for _, h := range ct.HardCases() {
		explainWithinBound(t, h.Name, index.Build(h.Rows), h.Ask)
	}
}

func explainWithinBound(t *testing.T, name string, s *index.Snapshot, ask resource.Ask) {
	t.Helper()
	asked, explained, found := 0, 0, false
	for range candidate.Find(s, ask, candidate.Options{Stop: ct.StopAfter(1<<30, &asked)}) {
		found = true
		break
	}
	e := explain.Why(s, ask, ct.StopAfter(1<<30, &explained))
	if found == (e.Reason != "") {
		t.Errorf("%s: found: %v, %s", name, found, e.Reason)
	}
	if explained > 4*asked+20 {
		t.Errorf("%s: %d calls of stop to explain, %d to search", name, explained, asked)
	}
}

// rarely returns a varied fleet with free devices on each host, and a rare device on the first.
func rarely(hosts, free int) []index.Row {
	rows := varied(hosts, free)
	rows[26].Traits = append(rows[26].Traits, "CUSTOM_RARE")
	return rows
}

// rare returns an ask for n rare devices.
func rare(n int) resource.Ask {
	return change(ct.DeviceAsk(n, resource.PolicyNone, ct.NICs, nil), func(g *resource.Group) {
		g.Required = [][]resource.Trait{{"CUSTOM_RARE"}}
	})
}
