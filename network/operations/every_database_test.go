package operations

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
)

// TestOperationsOnEveryDatabase runs the suite on every database.
func TestOperationsOnEveryDatabase(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, s *Service)
		}{{"concurrent ports", concurrentPorts}, {"concurrent networks", concurrentNetworks},
			{"addresses", addresses}, {"objects", objects}, {"segments", segments}, {"revisions", revisions},
			{"agents", agents}, {"quotas", quotas}, {"together", together},
			{"ports with policies", portsWithPolicies}} {
			t.Run(c.name, func(t *testing.T) { c.run(t, open(t, fresh(t), nil)) })
		}
		t.Run("policies of ports", func(t *testing.T) { concurrentPolicies(t, newCloudOn(t, fresh(t))) })
	})
}

// newSubnet creates a network with a subnet.
func newSubnet(t *testing.T, s *Service, cidr string) (store.Network, store.Subnet) {
	t.Helper()
	n, err := s.CreateNetwork(t.Context(), store.Network{Base: store.Base{Project: "demo"}})
	must(t, err)
	sub := store.Subnet{Base: store.Base{Project: "demo"}, Network: n.ID, IPVersion: 4, CIDR: cidr}
	sub, err = s.CreateSubnet(t.Context(), sub, false)
	must(t, err)
	return n, sub
}

// parallel calls a function from several goroutines and returns the errors.
func parallel(count int, do func(i int) error) []error {
	errs := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errs
}

// portsWithPolicies reads ports with their network and their own policy, that of the network, or none.
func portsWithPolicies(t *testing.T, s *Service) {
	ctx := t.Context()
	var policies []store.Policy
	for range 2 {
		p, err := Policies{s}.CreatePolicy(ctx, store.Policy{})
		must(t, err)
		policies = append(policies, p)
	}
	for own, ofNetwork := range map[string]string{"": "", policies[0].ID: "", policies[1].ID: policies[0].ID} {
		for _, p := range []store.Port{{Policy: own}, {}} {
			n, err := s.CreateNetwork(ctx, store.Network{Policy: ofNetwork})
			must(t, err)
			p.Network = n.ID
			made, err := s.CreatePort(ctx, p, nil)
			must(t, err)
			read, with, policy, err := PortWithPolicy(ctx, s, made.ID)
			must(t, err)
			if want := cmp.Or(p.Policy, ofNetwork); read.ID != made.ID || with.ID != n.ID || policy.ID != want {
				t.Errorf("port %s, network %s, policy %s; want %s, %s, %s", read.ID, with.ID, policy.ID, made.ID, n.ID,
					want)
			}
		}
	}
	if _, _, _, err := PortWithPolicy(ctx, s, "unknown"); fault.CodeOf(err) != "PortNotFound" {
		t.Error(err)
	}
}

// concurrentPorts creates more ports at once than the subnet has addresses: each address is given once, and the others
// fail because no address is left.
func concurrentPorts(t *testing.T, s *Service) {
	n, _ := newSubnet(t, s, "10.0.0.0/28")
	const addresses, tries = 13, 20
	ports := make([]store.Port, tries)
	errs := parallel(tries, func(i int) (err error) {
		ports[i], err = s.CreatePort(context.Background(), store.Port{Network: n.ID}, nil)
		return err
	})
	seen, refused := map[string]bool{}, 0
	for i, err := range errs {
		if err != nil {
			if fault.CodeOf(err) != noAddress {
				t.Error(err)
			}
			refused++
			continue
		}
		ip := ports[i].FixedIPs[0].Address
		if seen[ip] || seen[ports[i].MAC] {
			t.Errorf("address %s or %s given twice", ip, ports[i].MAC)
		}
		seen[ip], seen[ports[i].MAC] = true, true
	}
	if len(seen) != 2*addresses || refused != tries-addresses {
		t.Errorf("%d addresses, %d refused", len(seen)/2, refused)
	}
}

func concurrentNetworks(t *testing.T, s *Service) {
	s.Segments.TenantTypes, s.Segments.VLANs = []string{"vlan"}, []VLANRange{{"physnet0", 10, 14}}
	networks := make([]store.Network, 8)
	errs := parallel(len(networks), func(i int) (err error) {
		networks[i], err = s.CreateNetwork(context.Background(), store.Network{})
		return err
	})
	seen := map[int]bool{}
	for i, err := range errs {
		if err == nil {
			seen[networks[i].Segments[0].ID] = true
		} else if fault.CodeOf(err) != "NoNetworkAvailable" {
			t.Error(err)
		}
	}
	if len(seen) != 5 || !seen[10] || !seen[14] {
		t.Errorf("VLANs %v", seen)
	}
}

// addresses has the rules for requested addresses.
func addresses(t *testing.T, s *Service) {
	ctx := t.Context()
	n, sub := newSubnet(t, s, "10.0.0.0/24")
	six, err := s.CreateSubnet(ctx, store.Subnet{Network: n.ID, IPVersion: 6, CIDR: "2001:db8::/64",
		AddressMode: "slaac", DHCP: true, RAMode: "slaac"}, false)
	must(t, err)
	p, err := s.CreatePort(ctx, store.Port{Network: n.ID, MAC: "fa:16:3e:00:11:22"}, nil)
	must(t, err)
	want := []store.FixedIP{{Subnet: sub.ID, Address: "10.0.0.2"},
		{Subnet: six.ID, Address: "2001:db8::f816:3eff:fe00:1122"}}
	if fmt.Sprint(p.FixedIPs) != fmt.Sprint(want) {
		t.Errorf("addresses %v, want %v", p.FixedIPs, want)
	}
	for _, c := range []struct {
		code, mac string
		ips       []store.FixedIP
	}{
		{"", "", []store.FixedIP{{Address: "10.0.0.200"}}},
		{"", "", []store.FixedIP{{Subnet: sub.ID}, {Subnet: sub.ID}}},
		{"", "", []store.FixedIP{}},
		{"IpAddressAlreadyAllocated", "", []store.FixedIP{{Address: "10.0.0.2"}}},
		{"InvalidIpForNetwork", "", []store.FixedIP{{Address: "10.1.0.2"}}},
		{"InvalidIpForSubnet", "", []store.FixedIP{{Subnet: sub.ID, Address: "10.1.0.2"}}},
		{"InvalidIpForSubnet", "", []store.FixedIP{{Address: "10.0.0.255"}}},
		{"AllocationOnAutoAddressSubnet", "", []store.FixedIP{{Address: "2001:db8::5"}}},
		{"InvalidInput", "", []store.FixedIP{{Subnet: "x"}}},
		{"InvalidInput", "", []store.FixedIP{{Address: "10.0.0.9"}, {Address: "10.0.0.9"}}},
		{"MacAddressInUse", "fa:16:3e:00:11:22", []store.FixedIP{}},
	} {
		got, err := s.CreatePort(ctx, store.Port{Network: n.ID, MAC: c.mac}, c.ips)
		if fault.CodeOf(err) != c.code || err == nil && len(got.FixedIPs) != len(c.ips) {
			t.Errorf("%v: %v %v, want code %q", c.ips, got.FixedIPs, err, c.code)
		}
	}
	if err := s.DeleteSubnet(ctx, sub.ID, NoRevision); fault.CodeOf(err) != "SubnetInUse" {
		t.Error(err)
	}
	must(t, s.DeleteSubnet(ctx, six.ID, NoRevision)) // its addresses are removed from the ports
	p, err = Get[store.Port](ctx, s, p.ID)
	if err != nil || len(p.FixedIPs) != 1 {
		t.Errorf("%v %v", p.FixedIPs, err)
	}
	if err := s.DeleteNetwork(ctx, n.ID, NoRevision); fault.CodeOf(err) != "NetworkInUse" {
		t.Error(err)
	}
}

// objects creates, changes and deletes one object of each kind.
func objects(t *testing.T, s *Service) {
	ctx := t.Context()
	n, sub := newSubnet(t, s, "10.0.0.0/24")
	for code, other := range map[string]store.Subnet{
		"InvalidInput": {IPVersion: 4, CIDR: "10.0.0.128/25"},
		"OutOfBoundsAllocationPool": {IPVersion: 4, CIDR: "10.1.0.0/24",
			Pools: []store.Pool{{Start: "10.2.0.1", End: "10.2.0.2"}}},
		"SegmentNotFound": {IPVersion: 4, CIDR: "10.3.0.0/24", Segment: "x"},
	} {
		other.Network = n.ID
		if _, err := s.CreateSubnet(ctx, other, false); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v, want code %s", other, err, code)
		}
	}
	p, err := s.CreatePort(ctx, store.Port{Network: n.ID}, nil)
	must(t, err)
	if _, err := s.UpdateSubnet(ctx, sub.ID, NoRevision, func(sub *store.Subnet) error {
		sub.Gateway, sub.Pools = "10.0.0.2", []store.Pool{{Start: "10.0.0.3", End: "10.0.0.9"}}
		return nil
	}); fault.CodeOf(err) != "GatewayIpInUse" {
		t.Error(err)
	}
	p, err = s.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Name = "renamed"
		return []store.FixedIP{{Address: "10.0.0.77"}}, true, nil
	})
	if err != nil || p.FixedIPs[0].Address != "10.0.0.77" || p.Name != "renamed" || p.Number != firstRevision+1 {
		t.Errorf("%+v %v", p, err)
	}
	must(t, s.DeletePort(ctx, p.ID, NoRevision))
	must(t, s.DeleteNetwork(ctx, n.ID, NoRevision))
	if _, err := Get[store.Subnet](ctx, s, sub.ID); fault.CodeOf(err) != "SubnetNotFound" {
		t.Error(err)
	}
}

func segments(t *testing.T, s *Service) {
	ctx := t.Context()
	vlan := store.Segment{Type: "vlan", PhysicalNetwork: "physnet0", ID: 5}
	n, err := s.CreateNetwork(ctx, store.Network{Segments: []store.Segment{vlan}})
	must(t, err)
	for code, seg := range map[string]store.Segment{
		"VlanIdInUse":        vlan,
		"InvalidInput":       {Type: "vlan", ID: 5},
		"NoNetworkAvailable": {Type: "vlan", PhysicalNetwork: "physnet0"},
	} {
		if _, err := s.CreateNetwork(ctx, store.Network{Segments: []store.Segment{seg}}); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v, want code %s", seg, err, code)
		}
	}
	added, err := s.AddSegment(ctx, n.ID, store.Segment{Type: "flat", PhysicalNetwork: "physnet1"})
	must(t, err)
	must(t, s.UpdateSegment(ctx, n.ID, added.UUID, func(seg *store.Segment) error { seg.Name = "x"; return nil }))
	must(t, s.DeleteSegment(ctx, n.ID, added.UUID))
	if err := s.DeleteSegment(ctx, n.ID, added.UUID); fault.CodeOf(err) != "SegmentNotFound" {
		t.Error(err)
	}
}

func revisions(t *testing.T, s *Service) {
	n, _ := newSubnet(t, s, "10.0.0.0/24")
	rename := func(revision int) error {
		_, err := s.UpdateNetwork(t.Context(), n.ID, revision, func(n *store.Network) error { n.Name += "x"; return nil })
		return err
	}
	must(t, rename(firstRevision+1)) // the subnet is a change
	if err := rename(firstRevision + 1); fault.CodeOf(err) != "RevisionNumberConstraintFailed" {
		t.Error(err)
	}
	errs := parallel(8, func(int) error { return rename(firstRevision + 2) })
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if fault.CodeOf(err) != "RevisionNumberConstraintFailed" {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d of 8 updates of one revision were made", made)
	}
}

func quotas(t *testing.T, s *Service) {
	ctx := t.Context()
	must(t, s.SetLimits(ctx, "demo", map[string]int{"network": 3}))
	create := func(int) error {
		_, err := s.CreateNetwork(context.Background(), store.Network{Base: store.Base{Project: "demo"}})
		return err
	}
	made := 0
	for _, err := range parallel(8, create) {
		if err == nil {
			made++
		} else if fault.CodeOf(err) != "OverQuota" {
			t.Error(err)
		}
	}
	if used, err := s.Used(ctx, "demo"); made != 3 || err != nil || used["network"] != 3 {
		t.Errorf("%d networks made, used %v %v", made, used, err)
	}
	must(t, s.ResetLimits(ctx, "demo"))
	must(t, create(0))
}

// together creates networks in one transaction: all of them or none.
func together(t *testing.T, s *Service) {
	create := func(fail bool) error {
		return s.Store.Together(t.Context(), func(ctx context.Context) error {
			for range 2 {
				if _, err := s.CreateNetwork(ctx, store.Network{}); err != nil {
					return err
				}
			}
			if list, err := List[store.Network](ctx, s, store.Filter{}); err != nil || len(list) != 2 {
				t.Errorf("in the transaction: %d networks, %v", len(list), err)
			}
			if fail {
				return invalid("no")
			}
			return nil
		})
	}
	for _, fail := range []bool{true, false} {
		if err := create(fail); (err != nil) != fail {
			t.Fatal(err)
		}
		want := 2
		if fail {
			want = 0
		}
		if list, err := List[store.Network](t.Context(), s, store.Filter{}); err != nil || len(list) != want {
			t.Errorf("after it: %d networks, want %d, %v", len(list), want, err)
		}
	}
}
