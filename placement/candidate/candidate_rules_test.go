package candidate_test

import (
	"slices"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
)

// rules lists the rules of the solver, each with a minimal fleet. want has the candidates in the order of Find.
var rules = []struct {
	rule  string
	world string
	ask   string
	want  []string
}{
	{
		"each class of the unsuffixed group may come from another provider of the tree",
		`
		cmp VCPU=4
			numa0 MEM=8
			numa1 MEM=8
		`,
		"VCPU:1 MEM:2",
		[]string{"cmp(VCPU:1) numa0(MEM:2)", "cmp(VCPU:1) numa1(MEM:2)"},
	}, {
		"one class of the unsuffixed group comes from one provider, never from two",
		`
		cmp
			numa0 MEM=2
			numa1 MEM=2
		`,
		"MEM:3", nil,
	}, {
		"a suffixed group comes from one provider that has all its resources",
		`
		cmp VCPU=4
			pf0 VF=1 BW=10
			pf1 VF=1
			bw1 BW=10
		`,
		"_1 VF:1 BW:5",
		[]string{"pf0(BW:5,VF:1) _1=pf0"},
	}, {
		"used and reserved units are not available; the ratio multiplies the unreserved total",
		`
		a VCPU=4/3
		b VCPU=4,reserved=3
		c VCPU=4,ratio=0.25
		d VCPU=2/2,ratio=2
		`,
		"VCPU:2",
		[]string{"d(VCPU:2)"},
	}, {
		"min_unit, max_unit and step_size limit the amounts",
		`
		a DISK=100,min=5
		b DISK=100,max=3
		c DISK=100,step=3
		d DISK=100,step=2,min=4,max=4
		`,
		"DISK:4",
		[]string{"d(DISK:4)"},
	}, {
		"what several groups take from one provider must fit together",
		`
		cmp
			pf0 VF=3
		`,
		"_1 VF:2 | _2 VF:2", nil,
	}, {
		"max_unit limits the sum of the groups on one provider, because it is one allocation",
		`
		cmp
			pf0 VF=4,max=2
			pf1 VF=4,max=3
		`,
		"_1 VF:2 | _2 VF:1",
		[]string{
			"pf0(VF:2) pf1(VF:1) _1=pf0 _2=pf1", "pf0(VF:1) pf1(VF:2) _1=pf1 _2=pf0", "pf1(VF:3) _1=pf1 _2=pf1",
		},
	}, {
		"min_unit and step_size apply to each group separately",
		`
		cmp
			pf0 VF=4,min=2
		`,
		"_1 VF:1 | _2 VF:1", nil,
	}, {
		"group_policy=isolate gives each suffixed group a provider of its own",
		`
		cmp
			pf0 VF=2
			pf1 VF=2
		`,
		"_1 VF:1 | _2 VF:1 | isolate",
		[]string{"pf0(VF:1) pf1(VF:1) _1=pf0 _2=pf1", "pf0(VF:1) pf1(VF:1) _1=pf1 _2=pf0"},
	}, {
		"the unsuffixed group is not isolated",
		`
		cmp VCPU=4 NIC=1
		`,
		"VCPU:1 | _1 NIC:1 | isolate",
		[]string{"cmp(NIC:1,VCPU:1) _1=cmp"},
	}, {
		"a suffixed group's traits must be on its provider",
		`
		cmp +RED
			dev0 GPU=1
			dev1 GPU=1 +RED
			dev2 GPU=1 +RED +OLD
		`,
		"_1 GPU:1 +RED !OLD",
		[]string{"dev1(GPU:1) _1=dev1"},
	}, {
		"a provider needs one trait of each in: list",
		`
		a GPU=1 +RED
		b GPU=1 +BLUE +BIG
		c GPU=1 +RED +BIG
		`,
		"_1 GPU:1 +RED,BLUE +BIG",
		[]string{"b(GPU:1) _1=b", "c(GPU:1) _1=c"},
	}, {
		"the providers of the unsuffixed group have its traits between them",
		`
		cmp VCPU=4 +FAST
			numa0 MEM=8 +NEAR
			numa1 MEM=8
		`,
		"VCPU:1 MEM:1 +FAST +NEAR",
		[]string{"cmp(VCPU:1) numa0(MEM:1)"},
	}, {
		"a provider from which nothing is taken adds no trait",
		`
		cmp +FAST
			numa0 MEM=8
		`,
		"MEM:1 +FAST", nil,
	}, {
		"no provider of the unsuffixed group may have a forbidden trait",
		`
		cmp VCPU=4
			numa0 MEM=8 +SLOW
			numa1 MEM=8
		`,
		"VCPU:1 MEM:1 !SLOW",
		[]string{"cmp(VCPU:1) numa1(MEM:1)"},
	}, {
		"for the unsuffixed group an aggregate of the root applies to the whole tree",
		`
		a @zone
			a0 MEM=8
		b
			b0 MEM=8 @zone
		c
			c0 MEM=8
		`,
		"MEM:1 @zone",
		[]string{"a0(MEM:1)", "b0(MEM:1)"},
	}, {
		"for a suffixed group only the provider's own aggregates count",
		`
		a @zone
			a0 MEM=8
		b
			b0 MEM=8 @zone
		`,
		"_1 MEM:1 @zone",
		[]string{"b0(MEM:1) _1=b0"},
	}, {
		"a forbidden aggregate of the root excludes the tree from the unsuffixed group, not from a suffixed one",
		`
		a @bad
			a0 MEM=8
		b
			b0 MEM=8 @bad
			b1 MEM=8
		`,
		"MEM:1 !@bad",
		[]string{"b1(MEM:1)"},
	}, {
		"one aggregate of each in: list is needed",
		`
		a MEM=8 @x
		b MEM=8 @x @z
		c MEM=8 @y @z
		`,
		"MEM:1 @x,y @z",
		[]string{"b(MEM:1)", "c(MEM:1)"},
	}, {
		"in_tree names a tree by any of its providers",
		`
		a VCPU=4
			a0 NIC=1
		b VCPU=4
			b0 NIC=1
		`,
		"VCPU:1 ^a0 | _1 NIC:1",
		[]string{"a(VCPU:1) a0(NIC:1) _1=a0"},
	}, {
		"in_tree with an unknown provider has no candidates",
		`
		a VCPU=4
		`,
		"VCPU:1 ^zz", nil,
	}, {
		"root_required applies only to the root",
		`
		a VCPU=4 +RED
		b VCPU=4 +RED +OLD
		c VCPU=4
			c0 NIC=1 +RED
		`,
		"VCPU:1 | root=+RED | root=!OLD",
		[]string{"a(VCPU:1)"},
	}, {
		"same_subtree: all providers of the groups are in the subtree of one of them",
		`
		cmp
			nic0
				pf00 VF=1
				bw0 BW=9
			nic1 BW=9
				pf10 VF=1
		`,
		"_v VF:1 | _b BW:1 | together=_v,_b",
		[]string{"nic1(BW:1) pf10(VF:1) _b=nic1 _v=pf10"},
	}, {
		"a group without resources can name the provider above the others",
		`
		cmp
			nic0 +NIC
				pf00 VF=1
				bw0 BW=9
			nic1 +NIC
				pf10 VF=1
		`,
		"_n +NIC | _v VF:1 | _b BW:1 | together=_n,_v,_b",
		[]string{"bw0(BW:1) pf00(VF:1) _b=bw0 _n=nic0 _v=pf00"},
	}, {
		"a group without resources, trait and aggregate has no candidates",
		`
		cmp
			pf0 VF=1
		`,
		"_n !OLD | _v VF:1 | together=_n,_v", nil,
	}, {
		"in_tree has no effect on a group without resources",
		`
		a VF=1 +NIC
		b VF=1 +NIC
		`,
		"_n +NIC ^a | _v VF:1 | together=_n,_v",
		[]string{"a(VF:1) _n=a _v=a", "b(VF:1) _n=b _v=b"},
	}, {
		"isolate counts groups without resources too",
		`
		a VF=1 +NIC
		`,
		"_n +NIC | _v VF:1 | together=_n,_v | isolate", nil,
	},
	{
		"a sharing provider serves every tree with a provider in one of its aggregates, root or not",
		`
		a VCPU=4 @pool
		b VCPU=4
			b0 @pool
		c VCPU=4
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"VCPU:1 DISK:5",
		[]string{"a(VCPU:1) store(DISK:5)", "b(VCPU:1) store(DISK:5)"},
	}, {
		"a provider without the sharing trait does not serve other trees",
		`
		a VCPU=4 @pool
		store DISK=100 @pool
		`,
		"VCPU:1 DISK:5", nil,
	}, {
		"a candidate with only sharing providers is returned once, however many trees they serve",
		`
		a VCPU=4 @pool
		b VCPU=4 @pool
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"DISK:5",
		[]string{"store(DISK:5)"},
	}, {
		"an unsuffixed group with only sharing providers is combined with the suffixed groups of each tree they serve",
		`
		a VCPU=4 @pool
		b VCPU=4 @pool
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"DISK:5 | _1 VCPU:1",
		[]string{"a(VCPU:1) store(DISK:5) _1=a", "b(VCPU:1) store(DISK:5) _1=b"},
	}, {
		"a sharing provider may serve a suffixed group",
		`
		a VCPU=4 @pool
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"VCPU:1 | _1 DISK:5",
		[]string{"a(VCPU:1) store(DISK:5) _1=store"},
	}, {
		"in_tree excludes the sharing providers of other trees from the unsuffixed group",
		`
		a VCPU=4 @pool
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"VCPU:1 DISK:5 ^a", nil,
	}, {
		"in_tree of a suffixed group restricts its provider, not the tree it is combined with",
		`
		a VCPU=4 @pool
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"VCPU:1 | _1 DISK:5 ^store",
		[]string{"a(VCPU:1) store(DISK:5) _1=store"},
	}, {
		"with member_of a sharing provider serves other trees only if it is a member itself",
		`
		a VCPU=4 @pool @zone
		near DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool @zone
		store DISK=100 +MISC_SHARES_VIA_AGGREGATE @pool
		`,
		"VCPU:1 DISK:5 @zone",
		[]string{"a(VCPU:1) near(DISK:5)"},
	}, {
		"two sharing providers do not serve each other's trees without an aggregate in common",
		`
		s1 DISK=100 +MISC_SHARES_VIA_AGGREGATE @p
		s2 VCPU=100 +MISC_SHARES_VIA_AGGREGATE @q
		`,
		"DISK:5 VCPU:1", nil,
	},
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.rule, func(t *testing.T) {
			rows, ask := ct.ParseWorld(t, r.world), ct.ParseAsk(t, r.ask)
			var got []string
			for c := range candidate.Find(index.Build(rows), ask, candidate.Options{}) {
				got = append(got, ct.Brief(c))
			}
			if !slices.Equal(got, r.want) {
				t.Errorf("ask %s\ngot  %q\nwant %q", r.ask, got, r.want)
			}
			plain := ct.Keys(candidate.Find(index.Build(rows), ask, candidate.Options{}))
			slices.Sort(plain)
			if brute := ct.BruteForce(rows, ask); !slices.Equal(plain, brute) {
				t.Errorf("brute force finds %q", brute)
			}
		})
	}
}
