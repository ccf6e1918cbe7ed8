package operations

import (
	"context"
	"slices"

	"github.com/openberth/berth/network/store"
)

// CreateNetwork stores a new network. Segments without an ID get one; without any segment one is selected. The MTU 0
// means the largest.
func (s *Service) CreateNetwork(ctx context.Context, n store.Network) (store.Network, error) {
	wanted := n
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		n = wanted
		if err := checkDNSDomain(n.DNSDomain); err != nil {
			return err
		}
		s.begin(&n.Base)
		n.Number = firstRevision
		if err := s.checkQuota(ctx, tx, "network", n.Project); err != nil {
			return err
		}
		used, err := usedSegments(ctx, tx)
		if err != nil {
			return err
		}
		if n.Segments, err = s.Segments.allocate(n.Segments, used); err != nil {
			return err
		}
		if err := s.setMTU(&n); err != nil {
			return err
		}
		if n.Policy == "" {
			if n.Policy, err = defaultPolicy(ctx, tx, n.Project); err != nil {
				return err
			}
		}
		if err := checkNetworkPolicy(ctx, tx, n); err != nil {
			return err
		}
		if err := (Sharing{s}).share(ctx, tx, SharedNetwork, n.Base, false, n.Shared); err != nil {
			return err
		}
		return store.Put(ctx, tx, &n)
	})
	return n, err
}

// setMTU sets the MTU 0 to the largest one, and refuses a larger one.
func (s *Service) setMTU(n *store.Network) error {
	largest := s.Segments.mtu(n.Segments)
	switch {
	case n.MTU == 0:
		n.MTU = largest
	case n.MTU > largest:
		return invalid("Requested MTU is too big, maximum is %d", largest)
	case n.MTU < 68:
		return invalid("Requested MTU is too small, minimum is 68")
	}
	return nil
}

// UpdateNetwork changes a network. revision is the revision that the client expects, or NoRevision. If the effective
// policy of bound ports changes, their allocations are changed first, all or none; if Placement refuses that, network
// and ports stay as they are.
func (s *Service) UpdateNetwork(ctx context.Context, id string, revision int,
	change func(*store.Network) error) (n store.Network, err error) {
	for attempt := 0; attempt < attempts; attempt++ {
		before, err := Get[store.Network](ctx, s, id)
		if err != nil {
			return n, err
		}
		after := before
		if err := change(&after); err != nil {
			return n, err
		}
		planned, seen, err := s.planNetworkPolicy(ctx, before, after)
		if err != nil {
			return n, err
		}
		again := false
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			if n, err = current[store.Network](ctx, tx, id, revision); err != nil {
				return err
			}
			if again, err = editPorts(ctx, tx, s, before, after, seen, planned); err != nil || again {
				return err
			}
			shared := n.Shared
			if err := s.updateNetwork(ctx, tx, &n, change); err != nil {
				return err
			}
			if planned == nil || !n.Shared { // a network is shared when the change is made: see write
				if err := (Sharing{s}).share(ctx, tx, SharedNetwork, n.Base, shared, n.Shared); err != nil {
					return err
				}
			}
			if planned == nil {
				return store.Put(ctx, tx, &n)
			}
			planned.Network = &n
			return s.record(ctx, tx, planned)
		})
		if err == nil && !again && planned != nil {
			err = s.complete(ctx, *planned, true)
		}
		if !again && !repeat(ctx, s, &attempt, err) {
			return n, err
		}
	}
	return n, conflict("NetworkChanged", "the ports of network %s change too often; try again", id)
}

// editPorts counts a new policy of a network as a change of each port that gets its policy from the network, so that a
// client that binds one of them reads it again. It reports whether a port has changed since it was seen when the change
// was planned.
func editPorts(ctx context.Context, tx *store.Tx, s *Service, before, after store.Network, seen map[string]int,
	planned *store.Change) (outdated bool, err error) {
	if before.Policy == after.Policy {
		return false, nil
	}
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{before.ID}})
	if err != nil {
		return false, err
	}
	for _, p := range ports {
		if number, known := seen[p.ID]; p.Policy == "" && (!known || number != p.Number) {
			return true, nil
		}
	}
	for _, p := range ports {
		if p.Policy != "" || planned != nil &&
			slices.ContainsFunc(planned.Ports, func(o store.Port) bool { return o.ID == p.ID }) {
			continue
		}
		s.edited(&p.Base)
		if err := tx.PutPort(ctx, &p); err != nil {
			return false, err
		}
	}
	if planned == nil {
		return false, nil
	}
	return s.outdated(ctx, tx, planned)
}

// updateNetwork changes a network in a transaction, without writing it.
func (s *Service) updateNetwork(ctx context.Context, tx *store.Tx, n *store.Network,
	change func(*store.Network) error) error {
	if err := checkNotPending(ctx, tx, n.ID); err != nil {
		return err
	}
	old := *n
	if err := change(n); err != nil {
		return err
	}
	if err := checkDNSDomain(n.DNSDomain); err != nil {
		return err
	}
	if err := s.setMTU(n); err != nil {
		return err
	}
	if n.MTU < old.MTU {
		subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{n.ID}})
		if err != nil {
			return err
		}
		if err := checkMTU(*n, subnets...); err != nil {
			return err
		}
	}
	if n.Policy != old.Policy {
		if err := checkNetworkPolicy(ctx, tx, *n); err != nil {
			return err
		}
	}
	s.edited(&n.Base)
	return nil
}

// DeleteNetwork removes a network with its subnets. The code of the conflict is NetworkInUse if it has ports.
func (s *Service) DeleteNetwork(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := current[store.Network](ctx, tx, id, revision); err != nil {
			return err
		}
		ports, err := removeHostPorts(ctx, tx, id)
		if err != nil {
			return err
		}
		if ports > 0 {
			return conflict("NetworkInUse", "Unable to complete operation on network %s. There are one or more ports still in "+
				"use on the network; it has %d ports, delete them first", id, ports)
		}
		subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{id}})
		if err != nil {
			return err
		}
		for _, sub := range subnets {
			if err := store.Delete[store.Subnet](ctx, tx, sub.ID); err != nil {
				return err
			}
		}
		if err := (Sharing{s}).forget(ctx, tx, id); err != nil {
			return err
		}
		return store.Delete[store.Network](ctx, tx, id)
	})
}

// AddSegment adds a segment to a network and returns it.
func (s *Service) AddSegment(ctx context.Context, network string, segment store.Segment) (store.Segment, error) {
	var added store.Segment
	err := s.changeSegments(ctx, network, func(tx *store.Tx, n *store.Network) error {
		used, err := usedSegments(ctx, tx)
		if err != nil {
			return err
		}
		list, err := s.Segments.allocate([]store.Segment{segment}, used)
		if err != nil {
			return err
		}
		added = list[0]
		n.Segments = append(n.Segments, added)
		subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{network}})
		for _, sub := range subnets {
			if err == nil {
				err = checkRouted(ctx, tx, s, *n, sub)
			}
		}
		return err
	})
	return added, err
}

// changeSegments changes the segments of a network.
func (s *Service) changeSegments(ctx context.Context, network string,
	change func(*store.Tx, *store.Network) error) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := GetIn[store.Network](ctx, tx, network)
		if err != nil {
			return err
		}
		if err := checkNotPending(ctx, tx, network); err != nil {
			return err
		}
		if err := change(tx, &n); err != nil {
			return err
		}
		s.edited(&n.Base)
		return store.Put(ctx, tx, &n)
	})
}

// UpdateSegment changes the name and the description of a segment.
func (s *Service) UpdateSegment(ctx context.Context, network, id string, change func(*store.Segment) error) error {
	return s.changeSegments(ctx, network, func(_ *store.Tx, n *store.Network) error {
		for i := range n.Segments {
			if n.Segments[i].UUID == id {
				n.Segments[i].Number++
				return change(&n.Segments[i])
			}
		}
		return notFound("Segment", id)
	})
}

// DeleteSegment removes a segment without subnets and bound ports.
func (s *Service) DeleteSegment(ctx context.Context, network, id string) error {
	return s.changeSegments(ctx, network, func(tx *store.Tx, n *store.Network) error {
		subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{network}})
		if err != nil {
			return err
		}
		ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{network}})
		if err != nil {
			return err
		}
		for _, sub := range subnets {
			if sub.Segment == id {
				return conflict("SegmentInUse", "Segment '%s' cannot be deleted: subnet %s uses it; delete that first", id, sub.ID)
			}
		}
		for _, p := range ports {
			if p.Binding.Segment == id {
				return conflict("SegmentInUse", "Segment '%s' cannot be deleted: port %s is bound to it; delete that first", id,
					p.ID)
			}
		}
		left := n.Segments[:0:0]
		for _, segment := range n.Segments {
			if segment.UUID != id {
				left = append(left, segment)
			}
		}
		if len(left) == len(n.Segments) {
			return notFound("Segment", id)
		}
		n.Segments = left
		return nil
	})
}
