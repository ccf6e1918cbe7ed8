package operations

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/sqldb"
)

// addressing selects the addresses of one port in a transaction.
type addressing struct {
	tx      *store.Tx
	port    string
	mac     address.MAC
	subnets []store.Subnet
	routed  bool // the hosts have the gateways of the network
}

// newAddressing returns the state for a port of a network. The subnets are sorted by creation.
func newAddressing(ctx context.Context, tx *store.Tx, p store.Port, n store.Network) (*addressing, error) {
	subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{p.Network}})
	slices.SortStableFunc(subnets, func(a, b store.Subnet) int { return int(a.Created - b.Created) })
	if err != nil {
		return nil, err
	}
	routed := false
	if isTunnelled(n) {
		ends, err := tx.TunnelEnds(ctx)
		if err != nil {
			return nil, err
		}
		routed = len(ends) > 0
	}
	mac, _ := address.ParseMAC(p.MAC)
	return &addressing{tx: tx, port: p.ID, mac: mac, subnets: subnets, routed: routed}, nil
}

// selectMAC sets the MAC address of a port: a random one if it has none. The code of the conflict is MacAddressInUse.
func selectMAC(ctx context.Context, tx *store.Tx, p *store.Port) error {
	if p.MAC != "" {
		owner, err := tx.MACOwner(ctx, p.Network, p.MAC)
		if err == nil && owner != "" && owner != p.ID {
			err = conflict("MacAddressInUse", "Unable to complete operation for network %s. The mac address %s is in use by "+
				"port %s.", p.Network, p.MAC, owner)
		}
		return err
	}
	for range 16 {
		var random [3]byte
		rand.Read(random[:]) // never fails: crypto/rand ends the program instead
		mac := address.NewMAC(random).String()
		owner, err := tx.MACOwner(ctx, p.Network, mac)
		if err != nil {
			return err
		}
		if owner == "" {
			p.MAC = mac
			return nil
		}
	}
	return sqldb.Retry(fault.New(fault.Unavailable, "Unable to generate unique mac on network %s; try again.",
		p.Network).
		WithCode("MacAddressGenerationFailure"))
}

// defaults returns the addresses of a port whose fixed_ips are not given: one of IPv4 and one of IPv6, and those that
// the host forms itself.
func (a *addressing) defaults(ctx context.Context) (ips []store.FixedIP, err error) {
	for _, version := range []int{4, 6} {
		var refused error
		found, any := false, false
		for _, sub := range a.subnets {
			if sub.IPVersion != version || address.BySLAAC(sub.IPVersion, sub.AddressMode) || found {
				continue
			}
			any = true
			ip, err := a.free(ctx, sub, ips)
			if fault.CodeOf(err) == noAddress {
				refused = err
				continue
			}
			if err != nil {
				return nil, err
			}
			found = true
			ips = append(ips, ip)
		}
		if any && !found {
			return nil, refused
		}
	}
	return a.withSLAAC(ips), nil
}

// withSLAAC adds the addresses that the host forms from its MAC address.
func (a *addressing) withSLAAC(ips []store.FixedIP) []store.FixedIP {
	for _, sub := range a.subnets {
		if !address.BySLAAC(sub.IPVersion, sub.AddressMode) ||
			slices.ContainsFunc(ips, func(ip store.FixedIP) bool { return ip.Subnet == sub.ID }) {
			continue
		}
		ips = append(ips, a.slaac(sub))
	}
	return ips
}

// formAddresses replaces the addresses that the host forms itself by those from the present MAC address of a port.
func formAddresses(ctx context.Context, tx *store.Tx, p *store.Port, n store.Network) error {
	a, err := newAddressing(ctx, tx, *p, n)
	if err != nil {
		return err
	}
	p.FixedIPs = slices.Clone(p.FixedIPs)
	for i, ip := range p.FixedIPs {
		for _, sub := range a.subnets {
			if ip.Subnet == sub.ID && address.BySLAAC(sub.IPVersion, sub.AddressMode) {
				p.FixedIPs[i] = a.slaac(sub)
			}
		}
	}
	return nil
}

func (a *addressing) slaac(sub store.Subnet) store.FixedIP {
	cidr, _ := netip.ParsePrefix(sub.CIDR)
	return store.FixedIP{Subnet: sub.ID, Address: address.EUI64(cidr, a.mac).String()}
}

// noAddress is the code of the fault for a subnet without a free address.
const noAddress = "IpAddressGenerationFailure"

// lookedUp is the number of addresses that are looked up at once. Only if all of them are in use, all addresses of the
// subnet are read.
const lookedUp = 64

// free returns the lowest free address of a subnet's pools, or nearly so: see store.Tx.Lowest. taken are addresses that
// the port gets in addition. Its cost does not depend on the number of ports.
func (a *addressing) free(ctx context.Context, sub store.Subnet, taken []store.FixedIP) (store.FixedIP, error) {
	pools, err := poolsOf(sub)
	if err != nil {
		return store.FixedIP{}, err
	}
	var used []netip.Addr // by taken
	for _, ip := range taken {
		if at, err := address.Parse(ip.Address); err == nil && ip.Subnet == sub.ID {
			used = append(used, at)
		}
	}
	at, ok, err := a.near(ctx, sub, pools, used)
	if err == nil && !ok {
		at, ok, err = a.lowest(ctx, sub, pools, used)
	}
	if err != nil {
		return store.FixedIP{}, err
	}
	if !ok {
		return store.FixedIP{}, conflict(noAddress, "No more IP addresses available on network %s: the allocation pools of "+
			"subnet %s are used; extend them, or create another subnet", sub.Network, sub.ID)
	}
	a.tx.SetLowest(sub.ID, fmt.Sprint(pools), at)
	return store.FixedIP{Subnet: sub.ID, Address: at.String()}, nil
}

// near returns a free address among the first ones from store.Tx.Lowest on.
func (a *addressing) near(ctx context.Context, sub store.Subnet, pools []address.Pool, used []netip.Addr) (netip.Addr,
	bool, error) {
	from, known := a.tx.Lowest(sub.ID, fmt.Sprint(pools))
	if !known {
		return netip.Addr{}, false, nil
	}
	var texts []string
	all := address.From(pools, from, lookedUp)
	for _, at := range all {
		texts = append(texts, at.String())
	}
	if len(texts) == 0 {
		return netip.Addr{}, false, nil
	}
	owned, err := a.tx.Taken(ctx, sub.ID, texts)
	if err != nil {
		return netip.Addr{}, false, err
	}
	for i, at := range all {
		if !owned[texts[i]] && !slices.Contains(used, at) {
			return at, true, nil
		}
	}
	return netip.Addr{}, false, nil
}

// lowest returns the lowest free address. It reads all addresses of the subnet.
func (a *addressing) lowest(ctx context.Context, sub store.Subnet, pools []address.Pool, used []netip.Addr) (netip.Addr,
	bool, error) {
	owners, err := a.tx.Addresses(ctx, sub.ID)
	if err != nil {
		return netip.Addr{}, false, err
	}
	for text := range owners {
		if at, err := address.Parse(text); err == nil {
			used = append(used, at)
		}
	}
	at, ok := address.Free(pools, address.Sort(used))
	return at, ok, nil
}

// requested returns the addresses for the fixed_ips of a request: each has a subnet, an address, or both. An address
// that the request names is not chosen for another element.
func (a *addressing) requested(ctx context.Context, wanted []store.FixedIP) (ips []store.FixedIP, err error) {
	var named []store.FixedIP
	for _, w := range wanted {
		if sub, err := a.subnetOf(w); err == nil && w.Address != "" {
			named = append(named, store.FixedIP{Subnet: sub.ID, Address: w.Address})
		}
	}
	for _, w := range wanted {
		sub, err := a.subnetOf(w)
		if err != nil {
			return nil, err
		}
		slaac := address.BySLAAC(sub.IPVersion, sub.AddressMode)
		switch {
		case slaac && w.Address != "" && w.Address != a.slaac(sub).Address:
			return nil, fault.New(fault.Invalid, "IPv6 address %s cannot be directly assigned to a port on subnet %s as "+
				"the subnet is configured for automatic addresses", w.Address, sub.ID).WithCode("AllocationOnAutoAddressSubnet")
		case slaac:
			w = a.slaac(sub)
		case w.Address == "":
			if w, err = a.free(ctx, sub, slices.Concat(ips, named)); err != nil {
				return nil, err
			}
		default:
			if w, err = a.given(ctx, sub, w); err != nil {
				return nil, err
			}
		}
		if slices.Contains(ips, w) {
			return nil, invalid("Duplicate IP address '%s' in fixed_ips", w.Address)
		}
		ips = append(ips, w)
	}
	return ips, nil
}

// subnetOf returns the subnet of a requested address.
func (a *addressing) subnetOf(w store.FixedIP) (store.Subnet, error) {
	at, err := address.Parse(w.Address)
	if w.Address != "" && err != nil {
		return store.Subnet{}, invalid("'%s' is not a valid IP address", w.Address)
	}
	for _, sub := range a.subnets {
		cidr, err := netip.ParsePrefix(sub.CIDR)
		inside := err == nil && at.IsValid() && cidr.Contains(at)
		switch {
		case w.Subnet == "" && inside:
			return sub, nil
		case w.Subnet == sub.ID && w.Address != "" && !inside:
			return sub, fault.New(fault.Invalid, "IP address %s is not a valid IP for the specified subnet: it is not in "+
				"%s.", w.Address, sub.CIDR).WithCode("InvalidIpForSubnet")
		case w.Subnet == sub.ID:
			return sub, nil
		}
	}
	if w.Subnet != "" {
		return store.Subnet{}, invalid("Failed to create port on network, because fixed_ips included invalid subnet %s; "+
			"use a subnet of the network of the port", w.Subnet)
	}
	return store.Subnet{}, fault.New(fault.Invalid, "IP address %s is not a valid IP for any of the subnets on the "+
		"specified network.", w.Address).WithCode("InvalidIpForNetwork")
}

// given checks an address that a client has chosen.
func (a *addressing) given(ctx context.Context, sub store.Subnet, w store.FixedIP) (store.FixedIP, error) {
	at, err := address.Parse(w.Address)
	if err != nil {
		return w, invalid("'%s' is not a valid IP address", w.Address)
	}
	cidr, err := netip.ParsePrefix(sub.CIDR)
	if err != nil || !address.Hosts(cidr).Contains(at) {
		return w, fault.New(fault.Invalid, "IP address %s is not a valid IP for the specified subnet.", w.Address).
			WithCode("InvalidIpForSubnet")
	}
	if a.routed && at.String() == sub.Gateway {
		return w, conflict("IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s: it is the gateway, "+
			"which the hosts have; use another one", at, sub.ID)
	}
	owner, err := a.tx.AddressOwner(ctx, sub.ID, at.String())
	if err != nil {
		return w, err
	}
	if owner != "" && owner != a.port {
		return w, conflict("IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s: port %s has it; use "+
			"another one", at, sub.ID, owner)
	}
	return store.FixedIP{Subnet: sub.ID, Address: at.String()}, nil
}
