package operations

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestPolicyIsLoweredAboveTheCapacity: the provider of a port has less than it guarantees. A smaller policy is
// accepted, also if it is still above the capacity, and a larger one is refused.
func TestPolicyIsLoweredAboveTheCapacity(t *testing.T) {
	c := newCloud(t)
	port := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 6000)),
		map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	p, _ := c.placement.Provider(bridge)
	few := bandwidth.BuiltInDefaults().Inventory(2000)
	few.MaxUnit = 10000
	_, err := c.placement.PutInventories(t.Context(), bridge, p.Generation,
		map[resource.Class]resource.Inventory{egr: few, igr: few})
	must(t, err)
	_, err = c.setPolicy(t.Context(), port.ID, c.policy(t, bwRule("egress", 6001)))
	if fault.CodeOf(err) != placementConflict {
		t.Errorf("a larger policy: %v", err)
	}
	for _, egress := range []int{5000, 1000} {
		if _, err = c.setPolicy(t.Context(), port.ID, c.policy(t, bwRule("egress", egress))); err != nil {
			t.Errorf("to %d: %v", egress, err)
		}
		if got, want := c.shares(), (resource.Allocation{bridge: {egr: egress}}); !reflect.DeepEqual(got, want) {
			t.Errorf("allocation %v, want %v", got, want)
		}
	}
}
