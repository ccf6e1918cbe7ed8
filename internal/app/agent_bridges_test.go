package app

import (
	"net/netip"
	"testing"

	api "github.com/openberth/berth/api/network"
)

// A guest that requests metadata is known by each fixed address of its port, however it is written, and by the
// link-local address of its MAC address.
func TestGuestsOfMetadataRequests(t *testing.T) {
	p := api.HostPort{MAC: "fa:16:3e:00:01:0a"}
	p.FixedIPs = []api.FixedIP{{Address: "10.0.0.5"}, {Address: "FD00:0::5"}, {Address: "no address"}}
	for address, want := range map[string]bool{"10.0.0.5": true, "fd00::5": true, "fe80::f816:3eff:fe00:10a": true,
		"10.0.0.6": false, "fe80::f816:3eff:fe00:10b": false, "fe80::1": false} {
		if got := hasAddress(p, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	if hasAddress(api.HostPort{}, netip.Addr{}) {
		t.Error("a port without addresses")
	}
}
