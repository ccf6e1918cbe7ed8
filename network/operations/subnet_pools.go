package operations

import (
	"context"
	"math/big"
	"net/netip"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// SubnetPools has the operations of subnet pools, and the allocation of subnets from them.
type SubnetPools struct{ *Service }

// Create stores a new subnet pool. Lengths that are 0 have the defaults: from 8 to 32 for IPv4, from 64 to 128 for
// IPv6.
func (s SubnetPools) Create(ctx context.Context, p store.SubnetPool) (store.SubnetPool, error) {
	if err := completePool(&p); err != nil {
		return p, err
	}
	wanted := p
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		p = wanted
		s.begin(&p.Base)
		if err := s.checkQuota(ctx, tx, "subnetpool", p.Project); err != nil {
			return err
		}
		if err := checkDefaultPool(ctx, tx, p); err != nil {
			return err
		}
		if err := (Sharing{s.Service}).share(ctx, tx, SharedPool, p.Base, false, p.Shared); err != nil {
			return err
		}
		return store.Put(ctx, tx, &p)
	})
	return p, err
}

// prefixesOf returns the prefixes of a pool.
func prefixesOf(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, invalid("prefixes: '%s' is not a network; write for example 10.0.0.0/8", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// maxPrefixes limits the time in which a pool is compared with its former state while no other client can write.
const maxPrefixes = 1000

// completePool sets the defaults of a pool, and refuses one that contradicts itself.
func completePool(p *store.SubnetPool) error {
	prefixes, err := prefixesOf(p.Prefixes)
	if err != nil {
		return err
	}
	switch {
	case len(prefixes) == 0:
		return fault.New(fault.Invalid, "Empty subnet pool prefix list; give at least one prefix").
			WithCode("EmptySubnetPoolPrefixList")
	case len(prefixes) > maxPrefixes:
		return fault.New(fault.Invalid, "a subnet pool has at most %d prefixes; make several pools", maxPrefixes)
	}
	p.IPVersion, p.Prefixes = address.Version(prefixes[0].Addr()), nil
	for _, one := range address.Compact(prefixes) {
		if address.Version(one.Addr()) != p.IPVersion {
			return fault.New(fault.Invalid, "Cannot mix IPv4 and IPv6 prefixes in a subnet pool; make two pools").
				WithCode("PrefixVersionMismatch")
		}
		p.Prefixes = append(p.Prefixes, one.String())
	}
	least, most := 8, 32
	if p.IPVersion == 6 {
		least, most = 64, 128
	}
	if p.MinLength == 0 {
		p.MinLength = least
	}
	if p.MaxLength == 0 {
		p.MaxLength = most
	}
	if p.DefaultLength == 0 {
		p.DefaultLength = p.MinLength
	}
	if p.MinLength > p.MaxLength || p.MaxLength > most || p.DefaultLength < p.MinLength ||
		p.DefaultLength > p.MaxLength {
		return fault.New(fault.Invalid, "Illegal prefix bounds: min_prefixlen=%d, default_prefixlen=%d, max_prefixlen=%d; "+
			"they must be in this order, and at most %d", p.MinLength, p.DefaultLength, p.MaxLength, most).
			WithCode("IllegalSubnetPoolPrefixBounds")
	}
	return nil
}

// checkDefaultPool refuses a second default pool of an IP version.
func checkDefaultPool(ctx context.Context, tx *store.Tx, p store.SubnetPool) error {
	if !p.IsDefault {
		return nil
	}
	all, err := store.List[store.SubnetPool](ctx, tx, store.Filter{})
	for _, o := range all {
		if o.IsDefault && o.IPVersion == p.IPVersion && o.ID != p.ID {
			return invalid("A default subnetpool for this IP family has already been set: %s. Only one default may exist per "+
				"IP family", o.ID)
		}
	}
	return err
}

// Update changes a subnet pool. Prefixes can be added only.
func (s SubnetPools) Update(ctx context.Context, id string, revision int,
	change func(*store.SubnetPool) error) (p store.SubnetPool, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if p, err = current[store.SubnetPool](ctx, tx, id, revision); err != nil {
			return err
		}
		old := p
		if err := change(&p); err != nil {
			return err
		}
		if err := completePool(&p); err != nil {
			return err
		}
		before, _ := prefixesOf(old.Prefixes)
		after, _ := prefixesOf(p.Prefixes)
		for _, prefix := range before {
			if p.IPVersion != old.IPVersion || !address.Within(after, prefix) {
				return fault.New(fault.Invalid, "Illegal update to prefixes: %s is missing; prefixes can be added only", prefix).
					WithCode("IllegalSubnetPoolPrefixUpdate")
			}
		}
		if err := checkDefaultPool(ctx, tx, p); err != nil {
			return err
		}
		if err := (Sharing{s.Service}).share(ctx, tx, SharedPool, p.Base, old.Shared, p.Shared); err != nil {
			return err
		}
		s.edited(&p.Base)
		return store.Put(ctx, tx, &p)
	})
	return p, err
}

// Delete removes a subnet pool from which no subnet is allocated.
func (s SubnetPools) Delete(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := current[store.SubnetPool](ctx, tx, id, revision); err != nil {
			return err
		}
		used, err := store.List[store.Subnet](ctx, tx, store.Filter{Policies: []string{id}})
		if err != nil {
			return err
		}
		if len(used) > 0 {
			return fault.New(fault.Invalid, "Unable to delete subnet pool: Subnet pool has existing allocations; delete its "+
				"%d subnets first, such as %s.", len(used), used[0].ID).WithCode("SubnetPoolDeleteError")
		}
		if err := (Sharing{s.Service}).forget(ctx, tx, id); err != nil {
			return err
		}
		return store.Delete[store.SubnetPool](ctx, tx, id)
	})
}

// CreateSubnet stores a new subnet. hasGateway is whether Gateway and not the default applies: an empty one then means
// none. Without Pools all host addresses except the gateway belong to one. A subnet with a SubnetPool and without a
// CIDR gets a prefix of the default length of the pool.
func (s *Service) CreateSubnet(ctx context.Context, sub store.Subnet, hasGateway bool) (store.Subnet, error) {
	return SubnetPools{s}.CreateSubnet(ctx, sub, hasGateway, 0)
}

// CreateSubnet is Service.CreateSubnet. bits is the length of the prefix of a subnet without a CIDR; 0: that of the
// pool.
func (s SubnetPools) CreateSubnet(ctx context.Context, sub store.Subnet, hasGateway bool, bits int) (store.Subnet,
	error) {
	wanted := sub
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		sub = wanted
		if sub.SubnetPool != "" {
			if err := s.allocate(ctx, tx, &sub, bits); err != nil {
				return err
			}
		}
		if sub, err = completeSubnet(sub, hasGateway); err != nil {
			return err
		}
		return createSubnet(ctx, tx, s.Service, &sub)
	})
	return sub, err
}

// DefaultPool returns the default pool of an IP version, or fault.NotFound.
func (s SubnetPools) DefaultPool(ctx context.Context, version int) (store.SubnetPool, error) {
	all, err := List[store.SubnetPool](ctx, s.Service, store.Filter{})
	for _, p := range all {
		if p.IsDefault && p.IPVersion == version {
			return p, nil
		}
	}
	if err == nil {
		err = fault.New(fault.NotFound, "No default subnetpool found for IPv%d; give subnetpool_id or cidr, or an "+
			"administrator sets a pool with `openstack subnet pool set --default`", version).WithCode("NoDefaultSubnetPool")
	}
	return store.SubnetPool{}, err
}

// allocate sets the CIDR of a subnet from its pool, or checks the requested one. bits is the requested length; 0: that
// of the pool.
func (s SubnetPools) allocate(ctx context.Context, tx *store.Tx, sub *store.Subnet, bits int) error {
	p, err := GetIn[store.SubnetPool](ctx, tx, sub.SubnetPool)
	if err != nil {
		return err
	}
	if p.IPVersion != sub.IPVersion {
		return invalid("subnet pool %s has IPv%d prefixes, and the subnet has ip_version %d", p.ID, p.IPVersion,
			sub.IPVersion)
	}
	others, err := store.List[store.Subnet](ctx, tx, store.Filter{Policies: []string{p.ID}})
	if err != nil {
		return err
	}
	pools, err := prefixesOf(p.Prefixes)
	if err != nil {
		return err
	}
	var used []netip.Prefix
	for _, o := range others {
		if cidr, err := netip.ParsePrefix(o.CIDR); err == nil {
			used = append(used, cidr)
		}
	}
	wanted, notGiven := netip.ParsePrefix(sub.CIDR)
	switch {
	case sub.CIDR != "" && notGiven != nil:
		return invalid("'%s' is not a network; write for example 192.0.2.0/24", sub.CIDR)
	case notGiven == nil:
		bits = wanted.Bits()
	case bits == 0:
		bits = p.DefaultLength
	}
	if err := checkLength(p, bits); err != nil {
		return err
	}
	if err := checkPoolQuota(p, sub.Project, others, bits); err != nil {
		return err
	}
	if notGiven == nil {
		free := address.Within(pools, wanted) &&
			!slices.ContainsFunc(used, func(u netip.Prefix) bool { return u.Overlaps(wanted) })
		if !free {
			return conflict("SubnetAllocationError", "Failed to allocate subnet: Cannot allocate requested subnet %s from the "+
				"available set of prefixes of pool %s; choose another one, or leave out cidr", wanted, p.ID)
		}
		return nil
	}
	free, ok := address.FreePrefix(pools, used, bits)
	if !ok {
		return conflict("SubnetAllocationError", "Failed to allocate subnet: Insufficient prefix space to allocate subnet "+
			"size /%d in pool %s; add prefixes to the pool, or choose a longer prefix", bits, p.ID)
	}
	sub.CIDR = free.String()
	return nil
}

// checkLength refuses a length that a pool does not permit.
func checkLength(p store.SubnetPool, bits int) error {
	switch {
	case bits < p.MinLength:
		return fault.New(fault.Invalid, "Unable to allocate subnet with prefix length %d, minimum allowed prefix is %d.",
			bits, p.MinLength).WithCode("MinPrefixSubnetAllocationError")
	case bits > p.MaxLength:
		return fault.New(fault.Invalid, "Unable to allocate subnet with prefix length %d, maximum allowed prefix is %d.",
			bits, p.MaxLength).WithCode("MaxPrefixSubnetAllocationError")
	}
	return nil
}

// checkPoolQuota refuses a subnet with which a project would have more of a pool than default_quota: addresses of IPv4,
// networks with the length 64 of IPv6.
func checkPoolQuota(p store.SubnetPool, project string, others []store.Subnet, bits int) error {
	if p.Quota == nil {
		return nil
	}
	unit := map[int]int{4: 32, 6: 64}[p.IPVersion]
	size := func(bits int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(max(unit-bits, 0))) }
	used := new(big.Int)
	for _, o := range others {
		if cidr, err := netip.ParsePrefix(o.CIDR); err == nil && o.Project == project {
			used.Add(used, size(cidr.Bits()))
		}
	}
	if new(big.Int).Add(used, size(bits)).Cmp(big.NewInt(int64(*p.Quota))) > 0 {
		return conflict("SubnetPoolQuotaExceeded", "Per-tenant subnet pool prefix quota exceeded: project %s has %s of %d, "+
			"and requests %s; choose a longer prefix", project, used, *p.Quota, size(bits))
	}
	return nil
}
