package operations

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestDeviceOfPortWithGuaranteeStays has a user who makes another server the device of a bound port with a guarantee,
// and deletes the port. The guarantee of the other server's own port stays in its allocation.
func TestDeviceOfPortWithGuaranteeStays(t *testing.T) {
	const other = resource.ConsumerID("22222222-0000-0000-0000-000000000002")
	c := newCloud(t)
	ctx := t.Context()
	p := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 1000)),
		map[string]provider.ID{"minimum_bandwidth": bridge},
		nil)
	held := resource.Allocation{root: {"VCPU": 1}, bridge: {egr: 1000}}
	c.has(t, other, "INSTANCE", held)
	for _, device := range []string{"", string(other)} {
		_, err := c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
			p.Device = device
			return nil, false, nil
		})
		if fault.CodeOf(err) != "PortBound" {
			t.Errorf("device %q: %v", device, err)
		}
	}
	must(t, c.DeletePort(ctx, p.ID, NoRevision))
	if got := c.placement.Held(other); !reflect.DeepEqual(got, held) {
		t.Errorf("the other server has %v", got)
	}
	if got := c.shares(); len(got) > 0 {
		t.Errorf("the server of the port has %v", got)
	}
}

// TestGuaranteeOfBoundPortIsAllocated has a user who takes a bound port from its server for a moment, and gives it a
// policy with a guarantee meanwhile: a port that belongs to no server needs no allocation.
func TestGuaranteeOfBoundPortIsAllocated(t *testing.T) {
	for _, take := range []func(p *store.Port){func(p *store.Port) { p.Device = "" },
		func(p *store.Port) { p.Owner = "" }} {
		c := newCloud(t)
		p := c.boundPort(t, "normal", "", nil, nil)
		set := func(change func(p *store.Port)) error {
			_, err := c.UpdatePort(t.Context(), p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
				change(p)
				return nil, false, nil
			})
			return err
		}
		if err := set(take); fault.CodeOf(err) != "PortBound" {
			t.Errorf("taken: %v", err)
		}
		to := c.policy(t, bwRule("egress", 3000))
		must(t, set(func(p *store.Port) { p.Policy = to }))
		must(t, set(func(p *store.Port) { p.Device, p.Owner = string(server), "compute:nova" }))
		if got := c.shares(); got[bridge][egr] != 3000 {
			t.Errorf("the bound port of the server has the guarantee, and the allocation has %v", got)
		}
		must(t, set(func(p *store.Port) { p.Device, p.Owner, p.Binding.Host, p.Binding.Profile = "", "", "", nil }))
	}
}
