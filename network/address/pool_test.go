package address

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestDefaultPools(t *testing.T) {
	for _, c := range []struct {
		cidr, gateway string
		want          []string
	}{
		{"10.0.0.0/24", "10.0.0.1", []string{"10.0.0.2-10.0.0.254"}},
		{"10.0.0.0/24", "10.0.0.254", []string{"10.0.0.1-10.0.0.253"}},
		{"10.0.0.0/24", "10.0.0.10", []string{"10.0.0.1-10.0.0.9", "10.0.0.11-10.0.0.254"}},
		{"10.0.0.0/24", "", []string{"10.0.0.1-10.0.0.254"}},
		{"10.0.0.0/31", "", []string{"10.0.0.0-10.0.0.1"}},
		{"10.0.0.0/32", "", []string{"10.0.0.0-10.0.0.0"}},
		{"2001:db8::/64", "2001:db8::1", []string{"2001:db8::2-2001:db8::ffff:ffff:ffff:ffff"}},
	} {
		var gateway netip.Addr
		if c.gateway != "" {
			gateway = netip.MustParseAddr(c.gateway)
		}
		var got []string
		for _, p := range DefaultPools(netip.MustParsePrefix(c.cidr), gateway) {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s gateway %s: pools %v, want %v", c.cidr, c.gateway, got, c.want)
		}
	}
}

func pool(first, last string) Pool {
	return Pool{netip.MustParseAddr(first), netip.MustParseAddr(last)}
}

func TestCheckPools(t *testing.T) {
	cidr, gateway := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct {
		want  string
		pools []Pool
	}{
		{"", []Pool{pool("10.0.0.2", "10.0.0.9"), pool("10.0.0.10", "10.0.0.20")}},
		{"InvalidAllocationPool", []Pool{pool("10.0.0.9", "10.0.0.2")}},
		{"InvalidAllocationPool", []Pool{pool("2001:db8::1", "2001:db8::2")}},
		{"OutOfBoundsAllocationPool", []Pool{pool("10.0.0.2", "10.0.1.2")}},
		{"OutOfBoundsAllocationPool", []Pool{pool("10.0.0.2", "10.0.0.255")}},
		{"GatewayConflictWithAllocationPools", []Pool{pool("10.0.0.1", "10.0.0.9")}},
		{"OverlappingAllocationPools", []Pool{pool("10.0.0.2", "10.0.0.9"), pool("10.0.0.9", "10.0.0.20")}},
	} {
		if code, reason := CheckPools(cidr, gateway, c.pools); code != c.want || (code == "") != (reason == "") {
			t.Errorf("%v: %q (%s), want %q", c.pools, code, reason, c.want)
		}
	}
}

// TestFreeIsTheLowestFreeAddress compares Free with a search through all addresses.
func TestFreeIsTheLowestFreeAddress(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pools := []Pool{pool("10.0.0.2", "10.0.0.5"), pool("10.0.0.8", "10.0.0.15")}
	for range 5000 {
		used := map[netip.Addr]bool{}
		var list []netip.Addr
		for range random.IntN(40) {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(18))})
			used[a] = true
			list = append(list, a)
		}
		var want netip.Addr
		for _, p := range pools {
			for a := p.First; p.Contains(a) && !want.IsValid(); a = a.Next() {
				if !used[a] {
					want = a
				}
			}
		}
		got, ok := Free(pools, Sort(list))
		if ok != want.IsValid() || got != want {
			t.Fatalf("used %v: %v %v, want %v", list, got, ok, want)
		}
	}
}

func TestFromReturnsAddressesOfPoolsInOrder(t *testing.T) {
	pools := []Pool{pool("10.0.0.2", "10.0.0.5"), pool("255.255.255.254", "255.255.255.255"), pool("10.0.0.8", "10.0.0.9")}
	for _, c := range []struct {
		at    string
		limit int
		want  string
	}{
		{"10.0.0.2", 3, "[10.0.0.2 10.0.0.3 10.0.0.4]"},
		{"10.0.0.5", 9, "[10.0.0.5 255.255.255.254 255.255.255.255 10.0.0.8 10.0.0.9]"},
		{"10.0.0.9", 9, "[10.0.0.9]"}, {"10.0.0.6", 9, "[]"}, {"fd00::1", 9, "[]"},
	} {
		if got := fmt.Sprint(From(pools, netip.MustParseAddr(c.at), c.limit)); got != c.want {
			t.Errorf("%d from %s: %s, want %s", c.limit, c.at, got, c.want)
		}
	}
}

func TestEUI64(t *testing.T) {
	mac, ok := ParseMAC("FA-16-3e-00-11-22")
	if !ok || mac.String() != "fa:16:3e:00:11:22" {
		t.Fatal(mac, ok)
	}
	if got := EUI64(netip.MustParsePrefix("2001:db8::/64"), mac); got.String() != "2001:db8::f816:3eff:fe00:1122" {
		t.Error(got)
	}
}

func TestParseMACRefuses(t *testing.T) {
	for _, text := range []string{"", "fa:16:3e:00:11", "fa:16:3e:00:11:2", "fa:16:3e:00:11:2g", "01:00:5e:00:00:01"} {
		if m, ok := ParseMAC(text); ok {
			t.Errorf("%q is parsed as %s", text, m)
		}
	}
}

func TestSize(t *testing.T) {
	if got := pool("10.0.0.2", "10.0.0.5").Size().Int64(); got != 4 {
		t.Error(got)
	}
	if BySLAAC(4, "slaac") || !BySLAAC(6, "slaac") || BySLAAC(6, "dhcpv6-stateful") {
		t.Error("BySLAAC is wrong")
	}
}

// TestManyPoolsAreComparedFast has as many pools as a request may have bytes for.
func TestManyPoolsAreComparedFast(t *testing.T) {
	cidr := netip.MustParsePrefix("10.0.0.0/12")
	var pools []Pool
	for at := netip.MustParseAddr("10.0.1.0"); len(pools) < 80_000; at = at.Next() {
		pools = append(pools, Pool{First: at, Last: at})
	}
	began := time.Now()
	if code, reason := CheckPools(cidr, netip.Addr{}, pools); code != "" {
		t.Error(code, reason)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("%v for %d pools", took, len(pools))
	}
	if code, _ := CheckPools(cidr, netip.Addr{}, append(pools, pools[5])); code != "OverlappingAllocationPools" {
		t.Errorf("a pool twice: %q", code)
	}
}
