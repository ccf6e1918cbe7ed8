package operations

import (
	"maps"
	"reflect"
	"testing"

	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// setProfile replaces the profile of a port, and its host.
func (c *cloud) setProfile(t *testing.T, id, host string, profile map[string]any) store.Port {
	t.Helper()
	_, err := c.UpdatePort(t.Context(), id, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Binding.Host, p.Binding.Profile = host, maps.Clone(profile)
		return nil, false, nil
	})
	must(t, err)
	p, err := Get[store.Port](t.Context(), c.Service, id)
	must(t, err)
	return p
}

// TestProfileWithoutAllocation has row A11: a profile without allocation is written to a bound port with a guarantee.
// The service keeps what Placement has for the port, unless the request only removes the key or unbinds the port. Then
// a deleted port releases what the service has kept.
func TestProfileWithoutAllocation(t *testing.T) {
	slot := map[string]any{"pci_slot": "0000:06:02.0", "trusted": "true"}
	for _, row := range []struct {
		name    string
		vnic    string
		profile map[string]any // before, beside allocation
		host    string
		next    map[string]any
		kept    bool
	}{
		{"another key", "normal", nil, host, map[string]any{"key": "x"}, true},
		{"another value", "direct", slot, host, map[string]any{"pci_slot": "0000:06:02.0", "trusted": "false"}, true},
		{"no key of several", "direct", slot, host, map[string]any{}, true},
		{"no profile", "direct", slot, host, nil, true},
		{"only allocation is removed", "direct", slot, host, slot, false},
		{"only allocation is removed, which was alone", "normal", nil, host, map[string]any{}, false},
		{"unbound", "direct", slot, "", map[string]any{}, false},
		{"unbound, other keys", "direct", slot, "", map[string]any{"trusted": "true"}, false},
		{"another host", "direct", slot, "cmp2", map[string]any{"trusted": "true"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCloud(t)
			on := map[string]provider.ID{"minimum_bandwidth": bridge}
			if row.vnic == "direct" {
				on["minimum_bandwidth"] = pf0
			}
			before := c.boundPort(t, row.vnic, c.policy(t, bwRule("egress", 1000)), on, row.profile)
			after := c.setProfile(t, before.ID, row.host, row.next)
			want := maps.Clone(row.next)
			if row.kept {
				if want == nil {
					want = map[string]any{}
				}
				want["allocation"] = before.Binding.Profile["allocation"]
			}
			if !maps.EqualFunc(after.Binding.Profile, want, func(a, b any) bool { return reflect.DeepEqual(a, b) }) ||
				row.kept != reflect.DeepEqual(after.Allocated, before.Allocated) || !row.kept && len(after.Allocated) > 0 {
				t.Errorf("profile %v, want %v; %v", after.Binding.Profile, want, after.Allocated)
			}
			must(t, c.DeletePort(t.Context(), before.ID, NoRevision))
			if got := c.shares(); row.kept != got.Equal(resource.Allocation{}) {
				t.Errorf("allocation after the deletion: %v", got)
			}
		})
	}
}
