package operations

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/store"
)

// bridged is the vif_type of ports that Linux bridges connect.
const bridged = "bridge"

// HostNetworks returns the networks that a host connects by Linux bridges, with its ports there. A host has an own port
// on each of them that its agent routes or serves by DHCP: it is created by the first request after a port of a server
// is bound to the host, and removed when the last one has left.
func (s Agents) HostNetworks(ctx context.Context, host string) (all api.HostNetworks, err error) {
	complete := false
	if err = s.Store.Read(ctx, func(tx *store.Tx) error {
		mark, err := markOf(ctx, tx)
		if err != nil {
			return err
		}
		if all, complete = s.answers.get(host, mark); complete {
			return nil
		}
		all, complete, err = s.hostNetworks(ctx, tx, host, false)
		if err == nil && complete {
			s.answers.put(host, mark, all)
		}
		return err
	}); err != nil || complete {
		return all, err
	}
	mark := ""
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if all, _, err = s.hostNetworks(ctx, tx, host, true); err == nil {
			mark, err = markOf(ctx, tx)
		}
		return err
	})
	if err == nil {
		// Not before the commit: the next transaction may give the revisions of one that failed to other changes. An answer
		// without an address, because none is free, counts until something changes.
		s.answers.put(host, mark, all)
	}
	return all, err
}

// hostNetworks returns the networks of a host. complete reports whether the host has the own ports that it needs, and
// no others; with write it gets them.
func (s Agents) hostNetworks(ctx context.Context, tx *store.Tx, host string, write bool) (all api.HostNetworks,
	complete bool, err error) {
	all = api.HostNetworks{Networks: []api.HostNetwork{}, Ports: []api.HostPort{}}
	ports, own, err := bridgedPorts(ctx, tx, host)
	if err != nil {
		return all, false, err
	}
	ends, err := tx.TunnelEnds(ctx)
	if err != nil {
		return all, false, err
	}
	complete = true
	used, policies := map[string]store.Network{}, map[string]store.Policy{"": {}}
	for _, p := range ports {
		if _, known := used[p.Network]; !known {
			n, err := GetIn[store.Network](ctx, tx, p.Network)
			if err != nil {
				return all, false, err
			}
			used[n.ID] = n
		}
		effective := qos.Effective(p.Policy, used[p.Network].Policy)
		if _, known := policies[effective]; !known {
			if policies[effective], _, err = store.Get[store.Policy](ctx, tx, effective); err != nil {
				return all, false, err
			}
		}
		all.Ports = append(all.Ports, hostPort(p, used[p.Network], policies[effective],
			Domain(s.Service, used[p.Network])))
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		at := slices.IndexFunc(ports, func(p store.Port) bool { return p.Network == id })
		one, ready, err := s.hostNetwork(ctx, tx, hostNetworkOf{used[id], ports[at].Binding, own[id], ends, write})
		if err != nil {
			return all, false, err
		}
		complete = complete && ready
		delete(own, id)
		all.Networks = append(all.Networks, one)
	}
	for _, p := range own {
		complete = false
		if !write {
			break
		}
		if err := tx.DeletePort(ctx, p); err != nil {
			return all, false, err
		}
	}
	all.Groups, err = hostGroups(ctx, tx, all.Ports)
	return all, complete, err
}

// bridgedPorts returns the ports of servers that Linux bridges of a host connect, each with its binding to this host as
// the active one, and the host's own ports by network.
func bridgedPorts(ctx context.Context, tx *store.Tx, host string) (ports []store.Port, own map[string]store.Port,
	err error) {
	own = map[string]store.Port{}
	bound, err := store.List[store.Port](ctx, tx, store.Filter{Hosts: []string{host}})
	if err != nil {
		return nil, nil, err
	}
	arriving, err := tx.Arriving(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range arriving {
		p, err := GetIn[store.Port](ctx, tx, id)
		if err != nil {
			return nil, nil, err
		}
		p.Binding, _ = bindingOn(p, host)
		bound = append(bound, p)
	}
	for _, p := range bound {
		switch {
		case isHostPort(p):
			own[p.Network] = p
		case p.Binding.VIF == bridged && p.Binding.Agent == string(bandwidth.LinuxBridge):
			ports = append(ports, p)
		}
	}
	slices.SortFunc(ports, func(a, b store.Port) int { return cmp.Compare(a.ID, b.ID) })
	return ports, own, nil
}

// hostNetworkOf is what hostNetwork needs: the network, a binding of a port to the host, the host's own port, and the
// ends of tunnels by host.
type hostNetworkOf struct {
	network store.Network
	binding store.Binding
	own     store.Port
	ends    map[string]string
	write   bool
}

// hostNetwork returns a network of a host. ready is whether the host has the own port that it needs.
func (s Agents) hostNetwork(ctx context.Context, tx *store.Tx, of hostNetworkOf) (out api.HostNetwork, ready bool,
	err error) {
	n := of.network
	out = api.HostNetwork{ID: n.ID, Name: n.Name, Bridge: of.binding.Bridge, MTU: n.MTU,
		DNSDomain: Domain(s.Service, n),
		Subnets:   []api.HostSubnet{}}
	for _, segment := range n.Segments {
		if segment.UUID == of.binding.Segment {
			out.NetworkType, out.PhysicalNetwork, out.SegmentationID = segment.Type, segment.PhysicalNetwork, segment.ID
		}
	}
	subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{n.ID}})
	if err != nil {
		return out, false, err
	}
	own, ready, err := s.hostOwnPort(ctx, tx, of, subnets, out.Routed())
	if err != nil {
		return out, false, err
	}
	out.Port, out.MAC = own.ID, own.MAC
	for _, sub := range subnets {
		if sub.Segment != "" && sub.Segment != of.binding.Segment {
			continue
		}
		one := api.HostSubnet{ID: sub.ID, IPVersion: sub.IPVersion, CIDR: sub.CIDR, Gateway: sub.Gateway, DHCP: sub.DHCP,
			DNS: sub.DNS, UserChosen: sub.UserChosen, IPv6Mode: sub.AddressMode}
		if out.Routed() {
			one.IPv6Mode = cmp.Or(sub.RAMode, sub.AddressMode)
		}
		for _, r := range sub.Routes {
			one.Routes = append(one.Routes, api.Route(r))
		}
		for _, ip := range own.FixedIPs {
			if ip.Subnet == sub.ID {
				one.Address = ip.Address
			}
		}
		out.Subnets = append(out.Subnets, one)
	}
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{n.ID}})
	out.Names, out.Peers = namesOf(ports, out.DNSDomain), peersOf(ports, of.binding.Host, of.ends)
	if !out.Routed() {
		out.Peers = nil
	}
	return out, ready, err
}

// hostOwnPort returns the host's own port on a network, with an address of each subnet that the host routes, and of
// each that it serves by DHCP; an empty one if it needs none or no address is free. Without write, ready is
// false if that is another port than the host has.
func (s Agents) hostOwnPort(ctx context.Context, tx *store.Tx, of hostNetworkOf, subnets []store.Subnet, routed bool) (
	own store.Port, ready bool, err error) {
	var wanted []store.FixedIP
	for _, sub := range subnets {
		needs := routed || sub.DHCP
		switch {
		case sub.IPVersion == 6 && routed:
			needs = sub.Gateway != ""
		case sub.IPVersion == 6:
			needs = sub.DHCP && api.HostServesDHCPv6(sub.AddressMode, sub.CIDR, of.network.MTU)
		}
		if needs && (sub.Segment == "" || sub.Segment == of.binding.Segment) {
			wanted = append(wanted, store.FixedIP{Subnet: sub.ID})
		}
	}
	same := len(wanted) == len(of.own.FixedIPs) && !slices.ContainsFunc(wanted, func(w store.FixedIP) bool {
		return !slices.ContainsFunc(of.own.FixedIPs, func(ip store.FixedIP) bool { return ip.Subnet == w.Subnet })
	})
	if same || !of.write {
		return of.own, same, nil
	}
	if own = of.own; len(wanted) == 0 {
		return store.Port{}, true, tx.DeletePort(ctx, own)
	}
	if own.ID == "" {
		own = store.Port{Base: store.Base{Project: of.network.Project}, Network: of.network.ID, AdminUp: true,
			Device: "dhcp-" + of.binding.Host, Owner: hostPortOwner, Status: active}
		own.Binding = store.Binding{Host: of.binding.Host, VNIC: "normal", VIF: bridged, Bridge: of.binding.Bridge,
			Agent: string(bandwidth.LinuxBridge), Segment: of.binding.Segment}
		s.begin(&own.Base)
		own.Number = firstRevision
		if err := selectMAC(ctx, tx, &own); err != nil {
			return own, false, err
		}
	}
	had := own.FixedIPs
	if own.FixedIPs, err = s.hostAddresses(ctx, tx, own, of.network, wanted); err != nil {
		return own, false, err
	}
	switch {
	case sameAddresses(own.FixedIPs, had):
		return of.own, true, nil
	case len(own.FixedIPs) == 0:
		return store.Port{}, true, tx.DeletePort(ctx, of.own)
	}
	return own, true, tx.PutPort(ctx, &own)
}

// sameAddresses reports whether two lists have the same addresses.
func sameAddresses(a, b []store.FixedIP) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(ip store.FixedIP) bool { return !slices.Contains(b, ip) })
}

// hostAddresses returns the addresses of a host's own port in subnets: those that it has, and free ones in the others.
// A subnet without a free address has none.
func (s Agents) hostAddresses(ctx context.Context, tx *store.Tx, own store.Port, n store.Network,
	wanted []store.FixedIP) (ips []store.FixedIP, err error) {
	a, err := newAddressing(ctx, tx, own, n)
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		if at := slices.IndexFunc(own.FixedIPs, func(ip store.FixedIP) bool { return ip.Subnet == w.Subnet }); at >= 0 {
			w = own.FixedIPs[at]
		}
		got, err := a.requested(ctx, []store.FixedIP{w})
		switch {
		case fault.CodeOf(err) != "": // no fault of the database
			s.Log.Warn("no own address of a host", "host", own.Binding.Host, "network", own.Network, "subnet", w.Subnet,
				"error", err)
		case err != nil:
			return nil, err
		default:
			ips = append(ips, got...)
		}
	}
	return ips, nil
}

// namesOf returns the names of the ports of a network.
func namesOf(ports []store.Port, domain string) (names []api.HostName) {
	for _, p := range ports {
		for _, one := range DNSAssignments(p, domain) {
			if p.Owner != hostPortOwner {
				names = append(names, api.HostName{Name: one.Hostname, Address: one.Address})
			}
		}
	}
	slices.SortFunc(names, func(a, b api.HostName) int { return cmp.Compare(a.Address, b.Address) })
	return names
}

// peersOf returns the tunnel ends of the hosts that have ports of a network, except one host, sorted.
func peersOf(ports []store.Port, except string, ends map[string]string) (peers []string) {
	add := func(b store.Binding) {
		at := ends[b.Host]
		if at != "" && b.Host != except && b.Agent == string(bandwidth.LinuxBridge) && !slices.Contains(peers, at) {
			peers = append(peers, at)
		}
	}
	for _, p := range ports {
		add(p.Binding)
		for _, b := range p.Inactive {
			add(b.Binding)
		}
	}
	slices.Sort(peers)
	return peers
}

// markOf returns a text that is another one after each change of what the answers for hosts depend on. Agents count by
// their tunnels only, because their heartbeats change nothing else.
func markOf(ctx context.Context, tx *store.Tx) (string, error) {
	ends, err := tx.TunnelEnds(ctx)
	if err != nil {
		return "", err
	}
	mark, err := tx.HostMark(ctx)
	return fmt.Sprint(mark, ends), err
}
