package app

import (
	"context"
	"net/netip"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
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

// A guest reads no metadata of another server whose id the owner of its port has written into the port.
func TestMetadataOfAPortOfNoServer(t *testing.T) {
	boot := func(context.Context, string) (configdrive.Server, error) {
		return configdrive.Server{UserData: []byte("secret"), Interfaces: []configdrive.Interface{{Port: "own"}}}, nil
	}
	port := func(id, address string) api.HostPort {
		return api.HostPort{ID: id, Device: "g1", PortIdentity: api.PortIdentity{Network: "n",
			FixedIPs: []api.FixedIP{{Address: address}}}}
	}
	ports := []api.HostPort{port("own", "10.0.0.5"), port("other", "10.0.0.6")}
	of := func(address string) (configdrive.Server, error) {
		return metadataOf(t.Context(), ports, &recentGuests{from: &countedLists{}}, boot, "n",
			netip.MustParseAddr(address))
	}
	if got, err := of("10.0.0.5"); err != nil || string(got.UserData) != "secret" || got.ID != "g1" {
		t.Errorf("the port of the server: %+v %v", got, err)
	}
	if got, err := of("10.0.0.6"); !fault.Is(err, fault.NotFound) || got.UserData != nil {
		t.Errorf("a port with the id of the server: %+v %v", got, err)
	}
}
