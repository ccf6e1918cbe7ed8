package address

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
)

// Pool is a range of addresses of one family; both ends belong to it.
type Pool struct{ First, Last netip.Addr }

// String returns the pool as FIRST-LAST.
func (p Pool) String() string { return p.First.String() + "-" + p.Last.String() }

// Contains reports whether an address is in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	return a.BitLen() == p.First.BitLen() && p.First.Compare(a) <= 0 && a.Compare(p.Last) <= 0
}

// Overlaps reports whether two pools have an address in common.
func (p Pool) Overlaps(q Pool) bool {
	return p.First.BitLen() == q.First.BitLen() && p.First.Compare(q.Last) <= 0 && q.First.Compare(p.Last) <= 0
}

// Size returns the number of addresses of a pool.
func (p Pool) Size() *big.Int {
	size := new(big.Int).Sub(number(p.Last), number(p.First))
	return size.Add(size, big.NewInt(1))
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// LastOf returns the last address of a network: the broadcast address of IPv4.
func LastOf(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Masked().Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// Hosts returns the addresses that ports may have in a network. IPv4 excludes the network and the broadcast address,
// except in networks of one or two addresses; IPv6 excludes the first address (the subnet-router anycast address),
// except in such networks.
func Hosts(cidr netip.Prefix) Pool {
	cidr = cidr.Masked()
	all := Pool{cidr.Addr(), LastOf(cidr)}
	if cidr.Addr().BitLen()-cidr.Bits() < 2 {
		return all
	}
	all.First = all.First.Next()
	if cidr.Addr().Is4() {
		all.Last = all.Last.Prev()
	}
	return all
}

// DefaultGateway returns the first host address of a network.
func DefaultGateway(cidr netip.Prefix) netip.Addr { return Hosts(cidr).First }

// DefaultPools returns the host addresses of a network without the gateway; an invalid gateway means none.
func DefaultPools(cidr netip.Prefix, gateway netip.Addr) []Pool {
	hosts := Hosts(cidr)
	if !gateway.IsValid() || !hosts.Contains(gateway) {
		return []Pool{hosts}
	}
	var pools []Pool
	if gateway != hosts.First {
		pools = append(pools, Pool{hosts.First, gateway.Prev()})
	}
	if gateway != hosts.Last {
		pools = append(pools, Pool{gateway.Next(), hosts.Last})
	}
	return pools
}

// CheckPools returns why the pools of a subnet are not valid, with a code of Neutron's errors; empty if they are valid.
func CheckPools(cidr netip.Prefix, gateway netip.Addr, pools []Pool) (code, reason string) {
	hosts := Hosts(cidr)
	for _, p := range pools {
		switch {
		case p.First.BitLen() != cidr.Addr().BitLen() || p.Last.BitLen() != cidr.Addr().BitLen() ||
			p.Last.Compare(p.First) < 0:
			return "InvalidAllocationPool", fmt.Sprintf("the allocation pool %s is not a range of IPv%d addresses; "+
				"write start before end", p, Version(cidr.Addr()))
		case !hosts.Contains(p.First) || !hosts.Contains(p.Last):
			return "OutOfBoundsAllocationPool", fmt.Sprintf("the allocation pool %s is not within %s; use addresses of %s",
				p, cidr, hosts)
		case gateway.IsValid() && p.Contains(gateway):
			return "GatewayConflictWithAllocationPools", fmt.Sprintf("the gateway %s is in the allocation pool %s; "+
				"exclude it", gateway, p)
		}
	}
	sorted := slices.SortedFunc(slices.Values(pools), func(p, q Pool) int { return p.First.Compare(q.First) })
	for i, p := range sorted[:max(len(sorted)-1, 0)] {
		if q := sorted[i+1]; p.Overlaps(q) {
			return "OverlappingAllocationPools",
				fmt.Sprintf("the allocation pools %s and %s overlap; separate them", p, q)
		}
	}
	return "", ""
}

// special are networks whose addresses have a meaning of their own on each machine: the metadata service of the hosts
// is a link-local address.
var special = []struct{ network, name string }{
	{"0.0.0.0/8", "addresses of this network"}, {"127.0.0.0/8", "loopback addresses"},
	{"169.254.0.0/16", "link-local addresses"}, {"224.0.0.0/4", "multicast addresses"},
	{"240.0.0.0/4", "reserved addresses"}, {"::/8", "reserved addresses"}, {"fe80::/10", "link-local addresses"},
	{"ff00::/8", "multicast addresses"}}

// Special returns what a network contains of addresses that no subnet may have; empty: it has none.
func Special(cidr netip.Prefix) string {
	for _, s := range special {
		if p := netip.MustParsePrefix(s.network); p.Overlaps(cidr) {
			return s.name + " (" + s.network + ")"
		}
	}
	return ""
}

// Version returns 4 or 6.
func Version(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// Free returns the lowest address of the pools that is not in use; ok is false if there is none. used is sorted by
// Sort.
func Free(pools []Pool, used []netip.Addr) (free netip.Addr, ok bool) {
	for _, p := range pools {
		at := p.First
		i, _ := slices.BinarySearchFunc(used, at, netip.Addr.Compare)
		for ; i < len(used) && used[i] == at; i++ {
			if at == p.Last {
				break
			}
			at = at.Next()
		}
		if i == len(used) || used[i] != at {
			return at, true
		}
	}
	return netip.Addr{}, false
}

// From returns at most limit addresses of the pools, in their order, from an address on that is in one of them; none if
// it is in none.
func From(pools []Pool, at netip.Addr, limit int) (list []netip.Addr) {
	first := slices.IndexFunc(pools, func(p Pool) bool { return p.Contains(at) })
	if first < 0 {
		return nil
	}
	for i, p := range pools[first:] {
		if i > 0 {
			at = p.First
		}
		for ; len(list) < limit && p.Contains(at); at = at.Next() {
			list = append(list, at)
		}
	}
	return list
}

// Sort sorts addresses and removes duplicates.
func Sort(list []netip.Addr) []netip.Addr {
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// EUI64 returns the address that a host with a MAC address gives itself in an IPv6 network (RFC 4291, appendix A).
func EUI64(cidr netip.Prefix, mac MAC) netip.Addr {
	bytes := cidr.Masked().Addr().As16()
	copy(bytes[8:], []byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
	return netip.AddrFrom16(bytes)
}

// BySLAAC reports whether hosts of a subnet form their addresses from their MAC address: the address modes slaac and
// dhcpv6-stateless of IPv6.
func BySLAAC(version int, addressMode string) bool {
	return version == 6 && (addressMode == "slaac" || addressMode == "dhcpv6-stateless")
}

// MAC is a MAC address.
type MAC [6]byte

// String returns the address in lower case with colons.
func (m MAC) String() string {
	parts := make([]string, len(m))
	for i, b := range m {
		parts[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(parts, ":")
}

// ParseMAC parses six bytes in hexadecimal, separated by colons or hyphens. It returns false for another text, and for
// a multicast address.
func ParseMAC(text string) (m MAC, ok bool) {
	parts := strings.Split(strings.ReplaceAll(text, "-", ":"), ":")
	if len(parts) != len(m) {
		return m, false
	}
	for i, part := range parts {
		if len(part) != 2 || strings.Trim(part, "0123456789abcdefABCDEF") != "" {
			return m, false
		}
		fmt.Sscanf(part, "%x", &m[i])
	}
	return m, m[0]&1 == 0
}

// NewMAC returns an address of Neutron's default range fa:16:3e:… from three random bytes.
func NewMAC(random [3]byte) MAC { return MAC{0xfa, 0x16, 0x3e, random[0], random[1], random[2]} }
