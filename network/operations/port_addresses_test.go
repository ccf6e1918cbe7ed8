package operations

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
)

// TestPortsGetTheLowestFreeAddress creates and deletes ports at random, changes the pools, and compares each address
// with the lowest free one. A transaction that fails changes nothing of that.
func TestPortsGetTheLowestFreeAddress(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(1, 2))
	s := open(t, databases.SQLite(t), nil)
	s.Quotas["port"] = -1
	n, sub := newSubnet(t, s, "10.0.0.0/23")
	pools := []store.Pool{{Start: "10.0.0.10", End: "10.0.0.150"}, {Start: "10.0.0.200", End: "10.0.1.250"}}
	setPools := func(pools []store.Pool) {
		t.Helper()
		_, err := s.UpdateSubnet(ctx, sub.ID, NoRevision, func(sub *store.Subnet) error { sub.Pools = pools; return nil })
		must(t, err)
	}
	setPools(pools)
	ports := map[netip.Addr]string{}
	for range 1500 {
		switch action := rng.IntN(10); {
		case action < 3 && len(ports) > 150 || len(ports) > 300:
			some := slices.SortedFunc(maps.Keys(ports), netip.Addr.Compare)
			at := some[rng.IntN(len(some))]
			must(t, s.DeletePort(ctx, ports[at], NoRevision))
			delete(ports, at)
		case action == 3 && rng.IntN(20) == 0:
			pools[0].Start = fmt.Sprint("10.0.0.", 2+rng.IntN(9))
			setPools(pools)
		case action == 4: // fails after it has chosen an address
			_, err := s.CreatePort(ctx, store.Port{Network: n.ID, Policy: "unknown"}, nil)
			if err == nil {
				t.Fatal("a port with an unknown policy was created")
			}
		default:
			p, err := s.CreatePort(ctx, store.Port{Network: n.ID}, nil)
			must(t, err)
			at := netip.MustParseAddr(p.FixedIPs[0].Address)
			if want := lowestOf(pools, ports); at != want {
				t.Fatalf("with %d ports the address is %v, want %v", len(ports), at, want)
			}
			ports[at] = p.ID
		}
	}
}

// lowestOf returns the first address of the pools that no port has.
func lowestOf(pools []store.Pool, ports map[netip.Addr]string) netip.Addr {
	for _, p := range pools {
		for at, last := netip.MustParseAddr(p.Start), netip.MustParseAddr(p.End); at.Compare(last) <= 0; at = at.Next() {
			if ports[at] == "" {
				return at
			}
		}
	}
	return netip.Addr{}
}

// TestAllAddressesAreGiven fills a subnet from two services on one database, one port at a time, many in one
// transaction, and with two addresses each. Every address of the pools is given once, also those that the other service
// has released.
func TestAllAddressesAreGiven(t *testing.T) {
	ctx, url := t.Context(), databases.SQLite(t)
	services := []*Service{open(t, url, nil), open(t, url, nil)}
	for _, s := range services {
		s.Quotas["port"] = -1
	}
	n, sub := newSubnet(t, services[0], "10.0.0.0/23")
	const all = 509 // without the network, the gateway and the broadcast address
	owner := map[string]string{}
	create := func(ctx context.Context, s *Service, ips ...store.FixedIP) {
		t.Helper()
		p, err := s.CreatePort(ctx, store.Port{Network: n.ID}, ips)
		must(t, err)
		for _, ip := range p.FixedIPs {
			if owner[ip.Address] != "" {
				t.Fatalf("%s is given twice", ip.Address)
			}
			owner[ip.Address] = p.ID
		}
	}
	create(ctx, services[0])
	create(ctx, services[1])
	for range 100 { // more than are looked up at once
		create(ctx, services[1])
	}
	create(ctx, services[0])
	must(t, services[0].Store.Together(ctx, func(ctx context.Context) error {
		for range 150 {
			create(ctx, services[0])
		}
		return nil
	}))
	for range 100 {
		create(ctx, services[1], store.FixedIP{Subnet: sub.ID}, store.FixedIP{Subnet: sub.ID})
	}
	for _, at := range []string{"10.0.0.5", "10.0.0.77"} { // services[0] has given higher ones
		must(t, services[1].DeletePort(ctx, owner[at], NoRevision))
		delete(owner, at)
	}
	for len(owner) < all {
		create(ctx, services[0])
	}
	if _, err := services[0].CreatePort(ctx, store.Port{Network: n.ID}, nil); err == nil {
		t.Error("an address was given that does not exist")
	}
}

// TestNewMACFormsAddresses has a port with an address that its host forms from the MAC address. With another MAC
// address it has the address of that one, and another port can get the former ones.
func TestNewMACFormsAddresses(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	sub, err := c.CreateSubnet(ctx, store.Subnet{Base: store.Base{Project: "demo"}, Network: c.network.ID, IPVersion: 6,
		CIDR: "fd00:1::/64", DHCP: true, RAMode: "slaac", AddressMode: "slaac"}, false)
	must(t, err)
	p, err := c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID}, nil)
	must(t, err)
	was := p
	for _, ips := range [][]store.FixedIP{nil, {{Subnet: sub.ID}}} {
		mac := "fa:16:3e:00:00:77"
		if ips != nil {
			mac = "fa:16:3e:00:00:78"
		}
		p, err = c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
			p.MAC = mac
			return ips, ips != nil, nil
		})
		must(t, err)
		if want := "fd00:1::f816:3eff:fe00:" + mac[len(mac)-2:]; len(p.FixedIPs) != 1 || p.FixedIPs[0].Address != want {
			t.Errorf("with %s the port has %v, want %s", mac, p.FixedIPs, want)
		}
	}
	_, err = c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID, MAC: was.MAC}, nil)
	must(t, err)
}

// TestNamedAddressIsNotChosen has requests for any address of a subnet beside the one that would be chosen.
func TestNamedAddressIsNotChosen(t *testing.T) {
	s := open(t, databases.SQLite(t), nil)
	n, sub := newSubnet(t, s, "10.0.0.0/24")
	for _, named := range []store.FixedIP{{Address: "10.0.0.2"}, {Subnet: sub.ID, Address: "10.0.0.4"}} {
		p, err := s.CreatePort(t.Context(), store.Port{Network: n.ID}, []store.FixedIP{{Subnet: sub.ID}, named})
		must(t, err)
		if len(p.FixedIPs) != 2 || p.FixedIPs[1].Address != named.Address {
			t.Errorf("with %v: %v", named, p.FixedIPs)
		}
	}
}
