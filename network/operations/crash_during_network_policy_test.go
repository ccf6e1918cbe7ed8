package operations

import (
	"context"
	"reflect"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// endAt ends the process at a call of Placement, counted from 0, before or after its effect. It returns the context of
// the process, and the number of calls.
func (c *cloud) endAt(t *testing.T, at int, after bool) (context.Context, *int) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	calls, ended := new(int), fault.New(fault.Unavailable, "the process has ended")
	c.fail = func(placementtest.Call) (error, error) {
		*calls++
		switch {
		case *calls == at+1 && after:
			end()
			return nil, ended
		case *calls > at:
			end()
			return ended, nil
		}
		return nil, nil
	}
	return ctx, calls
}

// TestCrashDuringNetworkPolicyChange ends the process at each call of Placement while a network with two bound ports
// changes its policy. Afterwards all ports and the allocation of the server have the policy that the network has.
func TestCrashDuringNetworkPolicyChange(t *testing.T) {
	for _, after := range []bool{false, true} {
		changed := false
		for at := 0; !changed && at < 50; at++ {
			changed = networkPolicyWithCrash(t, at, after)
		}
		if !changed {
			t.Errorf("after %v: no change was completed", after)
		}
	}
}

// networkPolicyWithCrash changes the policy of a network with a crash at one call. It returns true if the change needs
// fewer calls, so the process did not end.
func networkPolicyWithCrash(t *testing.T, at int, after bool) bool {
	t.Helper()
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("ingress", 3000))
	set := func(ctx context.Context, policy string) error {
		_, err := c.UpdateNetwork(ctx, c.network.ID, NoRevision, func(n *store.Network) error {
			n.Policy = policy
			return nil
		})
		return err
	}
	must(t, set(t.Context(), from))
	on := map[string]provider.ID{"minimum_bandwidth": bridge}
	ports := []store.Port{c.boundPortOf(t, "normal", "", from, on, map[string]any{"key": "kept"}),
		c.boundPortOf(t, "normal", "", from, on, nil)}
	ctx, calls := c.endAt(t, at, after)
	err := set(ctx, to)
	ended := *calls > at
	c.fail = nil
	must(t, c.Resume(t.Context(), 0))
	n, readErr := Get[store.Network](t.Context(), c.Service, c.network.ID)
	must(t, readErr)
	want := resource.Allocation{bridge: {egr: 2000}}
	switch {
	case n.Policy == to:
		want = resource.Allocation{bridge: {igr: 6000}}
	case err == nil:
		t.Errorf("call %d after %v: the change succeeded, and the network has the old policy", at, after)
	}
	if got := c.shares(); !reflect.DeepEqual(got, want) {
		t.Errorf("call %d after %v: allocation %v, want %v", at, after, got, want)
	}
	for i, p := range ports {
		p, err := Get[store.Port](t.Context(), c.Service, p.ID)
		must(t, err)
		c.checkProfile(t, p)
		if i == 0 && p.Binding.Profile["key"] != "kept" {
			t.Errorf("call %d after %v: the profile has lost a key: %v", at, after, p.Binding.Profile)
		}
	}
	if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("call %d after %v: unfinished changes: %v %v", at, after, left, err)
	}
	return !ended
}

// TestUpdateWithoutPolicyCallsNothing has row C1: a request that leaves the policy of a bound port as it is does not
// call Placement.
func TestUpdateWithoutPolicyCallsNothing(t *testing.T) {
	c := newCloud(t)
	policy := c.policy(t, bwRule("egress", 1000))
	p := c.boundPort(t, "normal", policy, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	calls := 0
	c.fail = func(placementtest.Call) (error, error) {
		calls++
		return nil, nil
	}
	updated, err := c.UpdatePort(t.Context(), p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Name, p.Policy = "renamed", policy
		return nil, false, nil
	})
	must(t, err)
	if calls != 0 || updated.Name != "renamed" || !reflect.DeepEqual(updated.Binding, p.Binding) {
		t.Errorf("%d calls; name %q, binding %+v, want %+v", calls, updated.Name, updated.Binding, p.Binding)
	}
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}
