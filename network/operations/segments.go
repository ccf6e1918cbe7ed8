package operations

import (
	"context"
	"slices"

	"github.com/openberth/berth/network/store"
)

// VLANRange is a range of VLANs of a physical network; First is 0 if no VLAN may be selected automatically.
type VLANRange struct {
	PhysicalNetwork string
	First, Last     int
}

// DefaultSegmentRanges returns the ranges without any option.
func DefaultSegmentRanges() SegmentRanges {
	return SegmentRanges{TenantTypes: []string{"local"}, Flat: []string{"*"}, MTU: 1500}
}

// overhead is the number of bytes that a type of tunnel adds to each packet.
var overhead = map[string]int{"vxlan": 50, "gre": 42, "geneve": 50}

// mtu returns the largest MTU of a network with these segments.
func (r SegmentRanges) mtu(segments []store.Segment) int {
	mtu := r.MTU
	for _, s := range segments {
		mtu = min(mtu, r.MTU-overhead[s.Type])
	}
	return mtu
}

// maxID is the largest segmentation ID of a network type.
var maxID = map[string]int{"vlan": 4094, "vxlan": 1<<24 - 1, "geneve": 1<<24 - 1, "gre": 1<<32 - 1}

// check refuses a segment that contradicts itself or the ranges.
func (r SegmentRanges) check(s store.Segment) error {
	physical := s.Type == "flat" || s.Type == "vlan"
	switch {
	case s.Type == "":
		return invalid("provider:network_type is missing; give it together with the other provider attributes")
	case !physical && s.Type != "local" && maxID[s.Type] == 0:
		return invalid("network_type value '%s' not supported; use local, flat, vlan, vxlan, gre or geneve", s.Type)
	case physical && s.PhysicalNetwork == "":
		return invalid("provider:physical_network is required for a %s network", s.Type)
	case !physical && s.PhysicalNetwork != "":
		return invalid("provider:physical_network is not allowed for a %s network", s.Type)
	case s.ID != 0 && maxID[s.Type] == 0:
		return invalid("provider:segmentation_id is not allowed for a %s network", s.Type)
	case s.ID < 0 || s.ID > maxID[s.Type]:
		return invalid("provider:segmentation_id %d is not from 1 to %d", s.ID, maxID[s.Type])
	case s.Type == "flat" && !slices.Contains(r.Flat, "*") && !slices.Contains(r.Flat, s.PhysicalNetwork):
		return invalid("physical_network '%s' unknown for flat provider network; add it to [ml2_type_flat] flat_networks",
			s.PhysicalNetwork)
	case s.Type == "vlan" && r.VLANs != nil && !slices.ContainsFunc(r.VLANs, func(v VLANRange) bool {
		return v.PhysicalNetwork == s.PhysicalNetwork
	}):
		return invalid("physical_network '%s' unknown for VLAN provider network; add it to [ml2_type_vlan] "+
			"network_vlan_ranges", s.PhysicalNetwork)
	}
	return nil
}

// ids returns the ranges from which the ID of a segment is selected.
func (r SegmentRanges) ids(s store.Segment) (ranges [][2]int) {
	if s.Type != "vlan" {
		return r.Tunnels[s.Type]
	}
	for _, v := range r.VLANs {
		if v.First > 0 && v.PhysicalNetwork == s.PhysicalNetwork {
			ranges = append(ranges, [2]int{v.First, v.Last})
		}
	}
	return ranges
}

// segmentKey is what two segments must not have in common.
type segmentKey struct {
	kind, physical string
	id             int
}

func keyOf(s store.Segment) segmentKey { return segmentKey{s.Type, s.PhysicalNetwork, s.ID} }

// usedSegments returns the segments of all networks.
func usedSegments(ctx context.Context, tx *store.Tx) (map[segmentKey]bool, error) {
	networks, err := store.List[store.Network](ctx, tx, store.Filter{})
	used := map[segmentKey]bool{}
	for _, n := range networks {
		for _, s := range n.Segments {
			used[keyOf(s)] = true
		}
	}
	return used, err
}

// allocate completes the segments of a new network and marks them as used. Without any segment it selects one of the
// tenant types.
func (r SegmentRanges) allocate(segments []store.Segment, used map[segmentKey]bool) ([]store.Segment, error) {
	if len(segments) == 0 {
		return r.tenantSegment(used)
	}
	out := slices.Clone(segments)
	for i := range out {
		s := &out[i]
		if err := r.check(*s); err != nil {
			return nil, err
		}
		if s.ID == 0 && maxID[s.Type] > 0 && !r.selectID(s, used) {
			return nil, conflict("NoNetworkAvailable", "no segmentation ID of type %s is free; give one with "+
				"provider:segmentation_id, or extend the ranges in the configuration", s.Type)
		}
		if s.Type != "local" && used[keyOf(*s)] {
			return nil, inUse(*s)
		}
		used[keyOf(*s)] = true
		if s.UUID == "" {
			s.UUID = store.NewUUID()
		}
	}
	return out, nil
}

func inUse(s store.Segment) error {
	switch s.Type {
	case "flat":
		return conflict("FlatNetworkInUse", "the flat network of physical network %s is in use; use another one",
			s.PhysicalNetwork)
	case "vlan":
		return conflict("VlanIdInUse", "VLAN %d of physical network %s is in use; use another one", s.ID, s.PhysicalNetwork)
	}
	return conflict("TunnelIdInUse", "tunnel ID %d is in use; use another one", s.ID)
}

// tenantSegment returns a segment of the first tenant type that has a free one.
func (r SegmentRanges) tenantSegment(used map[segmentKey]bool) ([]store.Segment, error) {
	for _, kind := range r.TenantTypes {
		tries := []store.Segment{{Type: kind}}
		if kind == "vlan" {
			tries = nil
			for _, v := range r.VLANs {
				tries = append(tries, store.Segment{Type: kind, PhysicalNetwork: v.PhysicalNetwork})
			}
		}
		for _, s := range tries {
			if kind == "local" || r.selectID(&s, used) {
				s.UUID = store.NewUUID()
				used[keyOf(s)] = true
				return []store.Segment{s}, nil
			}
		}
	}
	return nil, conflict("NoNetworkAvailable", "no segment of the types %v is free; extend the ranges in the "+
		"configuration, or give provider attributes", r.TenantTypes)
}

// selectID sets the lowest free ID of a segment; false if there is none.
func (r SegmentRanges) selectID(s *store.Segment, used map[segmentKey]bool) bool {
	for _, ids := range r.ids(*s) {
		for s.ID = ids[0]; s.ID <= ids[1]; s.ID++ {
			if !used[keyOf(*s)] {
				return true
			}
		}
	}
	s.ID = 0
	return false
}
