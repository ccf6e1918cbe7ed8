package operations

import (
	"context"
	"reflect"
	"slices"

	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
)

// CreatePort stores a new port. ips are the requested addresses; nil means the default ones. A port with a host is
// bound; if that fails its VIF type is binding_failed.
func (s *Service) CreatePort(ctx context.Context, p store.Port, ips []store.FixedIP) (store.Port, error) {
	wanted := p
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		p = wanted
		n, err := GetIn[store.Network](ctx, tx, p.Network)
		if err != nil {
			return err
		}
		if err := checkDNSName(p.DNSName, Domain(s, n)); err != nil {
			return err
		}
		s.begin(&p.Base)
		p.Number = firstRevision
		if err := s.checkQuota(ctx, tx, "port", p.Project); err != nil {
			return err
		}
		if err := selectMAC(ctx, tx, &p); err != nil {
			return err
		}
		a, err := newAddressing(ctx, tx, p, n)
		if err != nil {
			return err
		}
		if ips == nil {
			p.FixedIPs, err = a.defaults(ctx)
		} else {
			p.FixedIPs, err = a.requested(ctx, ips)
		}
		if err != nil {
			return err
		}
		if err := (SecurityGroups{s}).selectGroups(ctx, tx, &p); err != nil {
			return err
		}
		if err := checkPairs(p); err != nil {
			return err
		}
		if err := checkPortPolicy(ctx, tx, p, n); err != nil {
			return err
		}
		if err := checkFilter(ctx, tx, p, ""); err != nil {
			return err
		}
		if err := s.bind(ctx, tx, &p, n); err != nil {
			return err
		}
		if err := takeDeviceMAC(ctx, tx, &p, n, store.Binding{}); err != nil {
			return err
		}
		return tx.AddPort(ctx, &p)
	})
	return p, err
}

// PortUpdate changes a port, apart from its addresses. It returns the requested addresses; given is false if they stay.
type PortUpdate func(p *store.Port) (ips []store.FixedIP, given bool, err error)

// UpdatePort changes a port. If its effective policy changes while it is bound to a server, the server's allocation is
// changed first; if Placement refuses that, the port stays as it is.
func (s *Service) UpdatePort(ctx context.Context, id string, revision int,
	update PortUpdate) (p store.Port, err error) {
	planning := false // the policy of the port changes
	for attempt := 0; attempt < attempts; attempt++ {
		var before store.Port
		var change, recorded *store.Change
		if planning {
			if before, change, err = s.planPort(ctx, id, update); err != nil {
				return p, err
			}
		}
		again := false
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			recorded = nil
			if p, err = current[store.Port](ctx, tx, id, revision); err != nil {
				return err
			}
			old, after := p, p
			if _, _, err := update(&after); err != nil {
				return err
			}
			// a port that was not bound when the change was planned may be bound by now
			if again = after.Policy != old.Policy && (!planning || p.Number != before.Number); again {
				return nil
			}
			if err := s.updatePort(ctx, tx, &p, update); err != nil {
				return err
			}
			if change == nil || after.Policy == old.Policy {
				return tx.ReplacePort(ctx, old, &p)
			}
			setAllocated(&p, change.Ports[0].Allocated)
			change.Ports[0], recorded = p, change
			if err := tx.Reserve(ctx, old, p); err != nil {
				return err
			}
			return s.record(ctx, tx, change)
		})
		planning = planning || again
		if err == nil && !again && recorded != nil {
			err = s.complete(ctx, *recorded, true)
		}
		if !again && !repeat(ctx, s, &attempt, err) {
			return p, err
		}
	}
	return p, conflict("PortChanged", "port %s changes too often; try again", id)
}

// planPort returns a port before an update, and the change of allocations that the update needs.
func (s *Service) planPort(ctx context.Context, id string, update PortUpdate) (before store.Port, change *store.Change,
	err error) {
	if before, err = Get[store.Port](ctx, s, id); err != nil {
		return before, nil, err
	}
	after := before
	if _, _, err = update(&after); err != nil {
		return before, nil, err
	}
	change, err = s.planPortPolicy(ctx, before, after)
	return before, change, err
}

// updatePort changes a port in a transaction, without writing it.
func (s *Service) updatePort(ctx context.Context, tx *store.Tx, p *store.Port, update PortUpdate) error {
	if err := checkNotPending(ctx, tx, p.ID); err != nil {
		return err
	}
	n, err := GetIn[store.Network](ctx, tx, p.Network)
	if err != nil {
		return err
	}
	old := *p
	ips, given, err := update(p)
	if err != nil {
		return err
	}
	if err := checkBoundChanges(old, *p); err != nil {
		return err
	}
	if err := checkPairs(*p); err != nil {
		return err
	}
	if p.DNSName != old.DNSName {
		if err := checkDNSName(p.DNSName, Domain(s, n)); err != nil {
			return err
		}
	}
	keepAllocation(old, p)
	if p.MAC != old.MAC {
		if err := selectMAC(ctx, tx, p); err != nil {
			return err
		}
		if err := formAddresses(ctx, tx, p, n); err != nil {
			return err
		}
	}
	if given {
		if err := updateAddresses(ctx, tx, p, n, ips); err != nil {
			return err
		}
	}
	given = !slices.Equal(slices.Sorted(slices.Values(p.Groups)), old.Groups)
	if err := checkGroups(ctx, tx, p, given); err != nil {
		return err
	}
	moved := p.Binding.Host != old.Binding.Host
	if moved {
		if err := tx.LeaveHost(ctx, old); err != nil {
			return err
		}
	}
	if err := checkChangedFilter(ctx, tx, old, *p); err != nil {
		return err
	}
	regrouped := p.Binding.VIF == binding.Failed && !slices.Equal(p.Groups, old.Groups)
	if moved || regrouped || p.Binding.VNIC != old.Binding.VNIC ||
		!reflect.DeepEqual(p.Binding.Profile, old.Binding.Profile) {
		if err := s.bind(ctx, tx, p, n); err != nil {
			return err
		}
		if err := takeDeviceMAC(ctx, tx, p, n, old.Binding); err != nil {
			return err
		}
	}
	if p.Policy != old.Policy || p.Binding.VNIC != old.Binding.VNIC {
		if err := checkPortPolicy(ctx, tx, *p, n); err != nil {
			return err
		}
	}
	s.edited(&p.Base)
	return nil
}

// maxPairs is how many address pairs a port may have: the default of Neutron's max_allowed_address_pair.
const maxPairs = 10

// checkPairs refuses too many address pairs, and those of a port without port security, which may use any address.
func checkPairs(p store.Port) error {
	if len(p.Pairs) > maxPairs {
		return invalid("port %s has %d allowed address pairs, more than %d; name a network instead of its addresses", p.ID,
			len(p.Pairs), maxPairs).WithCode("AllowedAddressPairExhausted")
	}
	if len(p.Pairs) == 0 || p.PortSecurity {
		return nil
	}
	return conflict("AddressPairAndPortSecurityRequired", "Port Security must be enabled in order to have allowed "+
		"address pairs on a port: without it the port may use any address; leave out allowed_address_pairs")
}

// checkBoundChanges refuses changes that a bound port cannot have.
func checkBoundChanges(old, p store.Port) error {
	bound := old.Binding.Host != "" && old.Binding.VIF != binding.Failed && old.Binding.VIF != binding.Unbound
	switch {
	case bound && p.Binding.Host == old.Binding.Host && p.Binding.VNIC != old.Binding.VNIC:
		return conflict("PortBoundVnicType", "Unable to change binding:vnic_type of port %s: it is bound to host %s; "+
			"detach it "+
			"first", p.ID, old.Binding.Host)
	case bound && isServerPort(old) && p.Binding.Host == old.Binding.Host &&
		(p.Device != old.Device || !isServerPort(p)): // what it has in Placement is part of its server's allocation
		return conflict("PortBound", "Unable to change device_id and device_owner of port %s: it is bound to host %s "+
			"for server %s; detach it first", p.ID, old.Binding.Host, old.Device)
	case bound && p.MAC != old.MAC && p.Binding.Host == old.Binding.Host:
		return conflict("PortBound", "Unable to complete operation on port %s, port is already bound, port type: %s, "+
			"old_mac %s, new_mac %s", p.ID, old.Binding.VIF, old.MAC, p.MAC)
	}
	return nil
}

// updateAddresses sets the IP addresses of a port to those of a request.
func updateAddresses(ctx context.Context, tx *store.Tx, p *store.Port, n store.Network, ips []store.FixedIP) error {
	a, err := newAddressing(ctx, tx, *p, n)
	if err != nil {
		return err
	}
	ips = slices.Clone(ips)
	for i, ip := range ips { // {"subnet_id": …} keeps the address that the port has there
		at := slices.IndexFunc(p.FixedIPs, func(o store.FixedIP) bool { return o.Subnet == ip.Subnet })
		if ip.Address == "" && at >= 0 && !slices.Contains(ips, p.FixedIPs[at]) {
			ips[i] = p.FixedIPs[at]
		}
	}
	p.FixedIPs, err = a.requested(ctx, ips)
	return err
}

// DeletePort removes a port. What Placement has recorded for it is released first, so no allocation is leaked. If it is
// a port of a server, an event is recorded for compute, because the server still has its device.
func (s *Service) DeletePort(ctx context.Context, id string, revision int) error {
	defer Reports{s}.wake()
	for attempt := 0; attempt < attempts; attempt++ {
		p, err := Get[store.Port](ctx, s, id)
		if err != nil {
			return err
		}
		change, err := s.planRelease(ctx, p)
		if err != nil {
			return err
		}
		again := false
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			now, err := current[store.Port](ctx, tx, id, revision)
			if err != nil {
				return err
			}
			if err := checkNotPending(ctx, tx, id); err != nil {
				return err
			}
			if again = now.Number != p.Number; again {
				return nil
			}
			if change == nil {
				return Reports{s}.deletePort(ctx, tx, now)
			}
			return s.record(ctx, tx, change)
		})
		if err == nil && !again && change != nil {
			err = s.complete(ctx, *change, true)
		}
		if !again && !repeat(ctx, s, &attempt, err) {
			return err
		}
	}
	return conflict("PortChanged", "port %s or the allocation of its server changes too often; try again", id)
}
