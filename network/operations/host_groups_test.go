package operations

import (
	"slices"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
)

// TestGroupsOfAHost: a host gets the groups of its ports with their rules, and the members of remote groups: the
// addresses and the address pairs of all their ports, also of those of other hosts. They follow each change.
func TestGroupsOfAHost(t *testing.T) {
	s := open(t, databases.SQLite(t), nil)
	ctx, agents, groups := t.Context(), Agents{s}, SecurityGroups{s}
	must(t, agents.ReportAgent(ctx, host, "Linux bridge agent", network.AgentReport{
		Devices: []network.AgentDevice{{Name: "br-ex", PhysicalNetworks: []string{"physnet0"}}}}))
	n, err := s.CreateNetwork(ctx, store.Network{Base: store.Base{Project: "demo"}, AdminUp: true,
		Segments: []store.Segment{{Type: "flat", PhysicalNetwork: "physnet0"}}})
	must(t, err)
	_, err = s.CreateSubnet(ctx, store.Subnet{Base: store.Base{Project: "demo"}, Network: n.ID, IPVersion: 4,
		CIDR: "10.0.0.0/24"}, false)
	must(t, err)
	group := func(name string) string {
		g, err := groups.Create(ctx, store.SecurityGroup{Base: store.Base{Project: "demo", Name: name}})
		must(t, err)
		return g.ID
	}
	web, db, unused := group("web"), group("db"), group("unused")
	r, err := groups.CreateRule(ctx, store.SecurityGroupRule{Group: web, Direction: "ingress", RemoteGroup: db})
	must(t, err)
	create := func(host string, p store.Port) store.Port {
		p.Project, p.Network, p.PortSecurity, p.AdminUp, p.Owner, p.Device = "demo", n.ID, true, true, "compute:nova", "s"
		p.Binding = store.Binding{Host: host, VNIC: "normal"}
		p, err := s.CreatePort(ctx, p, nil)
		must(t, err)
		return p
	}
	here := create(host, store.Port{Groups: []string{web}})
	there := create("", store.Port{Groups: []string{db}, Pairs: []store.AddressPair{{Address: "10.9.0.0/24"}}})
	create("", store.Port{Groups: []string{unused}})
	if here.Binding.VIF != "bridge" {
		t.Fatalf("binding %+v", here.Binding)
	}
	check := func(name string, rules int, members ...string) {
		t.Helper()
		all, err := agents.HostNetworks(ctx, host)
		must(t, err)
		var ids []string
		for _, g := range all.Groups {
			ids = append(ids, g.ID)
			switch {
			case g.ID == web && len(g.Rules) != rules, g.ID == db && (len(g.Rules) != 0 || !slices.Equal(g.Members, members)):
				t.Errorf("%s: %+v", name, g)
			}
		}
		if slices.Contains(ids, unused) || !slices.Contains(ids, web) || slices.Contains(ids, db) != (rules == 3) {
			t.Errorf("%s: groups %v", name, ids)
		}
	}
	address := there.FixedIPs[0].Address
	check("at first", 3, address, "10.9.0.0/24")
	another := create("", store.Port{Groups: []string{db}})
	check("another member", 3, address, another.FixedIPs[0].Address, "10.9.0.0/24")
	must(t, s.DeletePort(ctx, another.ID, NoRevision))
	_, err = s.UpdatePort(ctx, there.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Pairs = nil
		return nil, false, nil
	})
	must(t, err)
	check("fewer members", 3, address)
	_, err = s.UpdatePort(ctx, there.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Groups = nil
		return nil, false, nil
	})
	must(t, err)
	check("no members", 3)
	must(t, groups.DeleteRule(ctx, r.ID, NoRevision))
	check("no rule", 2)
}
