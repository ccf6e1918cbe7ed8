package operations

import (
	"context"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// setBinding binds a port to a host with a profile. An empty host unbinds it.
func (c *cloud) setBinding(ctx context.Context, port, host string, profile map[string]any) (store.Port, error) {
	return c.UpdatePort(ctx, port, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Binding.Host, p.Binding.Profile = host, profile
		return nil, false, nil
	})
}

// A direct-physical port has the MAC address of its NIC while it is bound, and the addresses that follow from it; then
// it gets another one, so that the NIC can be bound to another port. Ports of other types keep theirs.
func TestDirectPhysicalPortHasTheAddressOfItsNIC(t *testing.T) {
	c, ctx, mac := newCloud(t), t.Context(), "52:54:00:12:34:56"
	with := map[string]any{"device_mac_address": "52:54:00:12:34:56"}
	_, err := c.CreateSubnet(ctx, store.Subnet{Base: store.Base{Project: "demo"}, Network: c.network.ID, IPVersion: 6,
		CIDR: "2001:db8::/64", AddressMode: "slaac", DHCP: true, RAMode: "slaac"}, true)
	must(t, err)
	create := func(vnic string) store.Port {
		t.Helper()
		p, err := c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID,
			Owner: "compute:nova", Device: string(server), Binding: store.Binding{VNIC: vnic}}, nil)
		must(t, err)
		return p
	}
	first, second, normal := create("direct-physical"), create("direct-physical"), create("normal")
	bound, err := c.setBinding(ctx, first.ID, host, with)
	must(t, err)
	if want := "2001:db8::5054:ff:fe12:3456"; bound.MAC != mac || len(bound.FixedIPs) != 1 ||
		bound.FixedIPs[0].Address != want {
		t.Errorf("bound: %s %+v, want %s %s", bound.MAC, bound.FixedIPs, mac, want)
	}
	if _, err := c.setBinding(ctx, second.ID, host, with); fault.CodeOf(err) != "MacAddressInUse" {
		t.Errorf("a second port with the same NIC: %v", err)
	}
	if _, err := c.setBinding(ctx, second.ID, host, map[string]any{"device_mac_address": "nonsense"}); !fault.Is(err,
		fault.Invalid) {
		t.Errorf("not an address: %v", err)
	}
	if same, err := c.setBinding(ctx, normal.ID, host, with); err != nil || same.MAC != normal.MAC {
		t.Errorf("a normal port: %s, before %s; %v", same.MAC, normal.MAC, err)
	}
	free, err := c.setBinding(ctx, first.ID, "", nil)
	must(t, err)
	if free.MAC == mac || free.MAC == "" || free.FixedIPs[0].Address == bound.FixedIPs[0].Address {
		t.Errorf("unbound: %s %+v", free.MAC, free.FixedIPs)
	}
	if again, err := c.setBinding(ctx, second.ID, host, with); err != nil || again.MAC != mac {
		t.Errorf("the second port: %s %v", again.MAC, err)
	}
	stays, err := c.setBinding(ctx, first.ID, host, map[string]any{})
	if err != nil || stays.MAC != free.MAC {
		t.Errorf("without an address of a device: %s, before %s; %v", stays.MAC, free.MAC, err)
	}
}
