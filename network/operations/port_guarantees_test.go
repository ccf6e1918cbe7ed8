package operations

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Compute counts what a new policy gives to the ports of a server before Placement is called, and what they have
// afterwards. What it refuses, or does not confirm, is not changed.
func TestGuaranteesAreCountedByCompute(t *testing.T) {
	raised := resource.Allocation{bridge: {egr: 3000}}
	lowered := resource.Allocation{bridge: {egr: 500}}
	kept := resource.Allocation{bridge: {egr: 1000}}
	for name, test := range map[string]struct {
		compute fakeCompute
		to      int // the guarantee of the new policy
		code    string
		want    resource.Allocation
	}{
		"accepted":          {fakeCompute{limit: 3000, used: 1000}, 3000, "", raised},
		"less":              {fakeCompute{limit: 1, used: 1000}, 500, "", lowered},
		"refused":           {fakeCompute{limit: 2999, used: 1000}, 3000, "OverQuota", kept},
		"no such server":    {fakeCompute{lost: fault.New(fault.NotFound, "no")}, 3000, "", raised},
		"no answer":         {fakeCompute{fails: fault.New(fault.Unavailable, "down")}, 3000, "", kept},
		"a lost answer":     {fakeCompute{lost: fault.New(fault.Unavailable, "reset")}, 3000, "", kept},
		"no right to do so": {fakeCompute{fails: fault.New(fault.Forbidden, "no role")}, 3000, "", kept},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.Compute = &test.compute
			p := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 1000)),
				map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			_, err := c.setPolicy(t.Context(), p.ID, c.policy(t, bwRule("egress", test.to)))
			changed := !reflect.DeepEqual(test.want, kept)
			if (err == nil) != changed || test.code != "" && fault.CodeOf(err) != test.code ||
				test.code == "" && err != nil && !fault.Is(err, fault.Unavailable) {
				t.Errorf("%v", err)
			}
			if got := c.shares(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("allocation %v, want %v", got, test.want)
			}
			if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) != 0 {
				t.Errorf("%d changes are left, %v", len(left), err)
			}
			test.compute.fails, test.compute.lost = nil, nil
			if left, err := (Reports{c.Service}).Once(t.Context()); left != 0 || err != nil {
				t.Errorf("%d events are left, %v", left, err)
			}
			after, err := Get[store.Port](t.Context(), c.Service, p.ID)
			must(t, err)
			last := test.compute.sent[len(test.compute.sent)-1]
			want := compute.PortGuarantee{Revision: after.Number, Amounts: map[string]int{string(egr): test.want[bridge][egr]}}
			if !reflect.DeepEqual(last.Ports, map[string]compute.PortGuarantee{p.ID: want}) {
				t.Errorf("reported %+v, want %+v", last.Ports, want)
			}
		})
	}
}

// The process ends at each call while a policy changes. The change is completed, or not made, and in each case compute
// has counted it first and gets what the port has.
func TestGuaranteesAreCountedDespiteCrashes(t *testing.T) {
	for at := range 4 {
		for _, after := range []bool{false, true} {
			c := newCloud(t)
			counted := &fakeCompute{limit: 3000, used: 1000}
			c.Compute = counted
			p := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 1000)),
				map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			to := c.policy(t, bwRule("egress", 3000))
			calls := 0
			c.fail = func(placementtest.Call) (before, afterwards error) {
				err := fault.New(fault.Unavailable, "the process ends")
				if calls++; calls <= at {
					return nil, nil
				}
				if after {
					return nil, err
				}
				return err, nil
			}
			_, _ = c.setPolicy(t.Context(), p.ID, to)
			c.fail = nil
			must(t, c.Resume(t.Context(), 0))
			now, err := Get[store.Port](t.Context(), c.Service, p.ID)
			must(t, err)
			if left, err := (Reports{c.Service}).Once(t.Context()); left != 0 || err != nil {
				t.Errorf("%d events are left, %v", left, err)
			}
			want := 1000
			if now.Policy == to {
				want = 3000
				last := counted.sent[len(counted.sent)-1]
				if counted.sent[0].More[string(egr)] != 2000 || last.Ports[p.ID].Amounts[string(egr)] != 3000 {
					t.Errorf("call %d: compute got %+v", at, counted.sent)
				}
			}
			if got := c.shares()[bridge][egr]; got != want {
				t.Errorf("call %d, after %t: %d are allocated, want %d", at, after, got, want)
			}
		}
	}
}
