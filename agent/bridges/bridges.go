// Package bridges makes the networks of a host that are connected by Linux bridges: it reads them from the network
// service, and makes links, rules, DHCP servers and metadata servers what package bridgeplan computes. It keeps the
// last state on disk, so a host whose network service does not answer keeps its networks.
package bridges

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// Source returns the networks of a host; *network.Client implements it. NotFound: the network service has no such
// request, as Neutron.
type Source interface {
	HostNetworks(ctx context.Context, host string) (network.HostNetworks, error)
}

// Kernel reads and changes links and rules; bridgelink.Kernel implements it.
type Kernel interface {
	Links(want []bridgeplan.Link) (map[string]bridgeplan.Link, error)
	Routes(links map[string]bridgeplan.Link) error // adds them
	Perform(o bridgeplan.Operation) error
	SetRules(ctx context.Context, text string) error
	Rules(ctx context.Context) (string, error)
	HasIPv6() bool
	// Forward makes the host forward packets of a version of IP; bridgelink.Kernel.Forward describes the results.
	Forward(version int) (changed bool, routers []string, err error)
}

// DHCP runs DHCP servers; dnsmasq.Servers implements it. The faults are by network.
type DHCP interface {
	Apply(ctx context.Context, want []bridgeplan.DHCP) map[string]error
}

// Metadata answers guests by the interfaces of each network; *metadata.Service implements it. The faults are by
// network.
type Metadata interface {
	Serve(port int, interfaces map[string][]string) map[string]error
}

// Filter enforces the security groups of ports. Apply makes the rules of the host those of its ports, all or nothing.
// It may be repeated.
type Filter interface {
	Apply(ctx context.Context, all network.HostNetworks) error
}

// Options configure the networks of a host.
type Options struct {
	Name     string // of the host
	File     string // that keeps the last state
	Host     bridgeplan.Host
	Source   Source
	Kernel   Kernel
	DHCP     DHCP
	Metadata Metadata
	Filter   Filter // nil: no security groups are enforced
	Log      *slog.Logger
}

// Bridges are the networks of one host. The methods may be called concurrently.
type Bridges struct {
	o     Options
	calls sync.Mutex // held while the networks are read and made, so that an older state does not follow a newer one
	// When ports were prepared whose interfaces have not been seen since; guarded by calls.
	prepared map[string]time.Time

	mu    sync.Mutex // guards the fields below
	state network.HostNetworks
	read  bool   // state is that of the service or of the file
	known bool   // there is a state: the host has or has had a network
	rules string // that nft has printed after the last change
	text  string // of the last change; empty: none
}

// New returns the networks of a host. It changes nothing.
func New(o Options) *Bridges { return &Bridges{o: o} }

// Sync makes the networks those that the network service has now, or the last known ones if it does not answer, and
// returns the conditions of the host and of networks.
func (b *Bridges) Sync(ctx context.Context) []condition.Condition {
	list, failed := b.sync(ctx)
	for id, err := range failed {
		list = append(list, condition.New(condition.Network, id, fault.TextOf(err)))
	}
	return condition.Sorted(list)
}

// Prepare makes the networks of ports before their guest is built. Unavailable: try again later; the guest must not
// start. Ports are connected by others if the network service has no such request and the host has never had a network
// of Berth.
func (b *Bridges) Prepare(ctx context.Context, ports []string) error {
	b.calls.Lock()
	defer b.calls.Unlock()
	fetched, err := b.fetch(ctx)
	use := &fetched
	switch {
	case err == nil:
		if missing := notListed(ports, fetched); missing != "" {
			return fault.New(fault.Unavailable, "port %s: the network service does not list it for this host; detach it if it "+
				"was deleted", missing)
		}
	case fault.Is(err, fault.NotFound):
		if _, known, err2 := b.last(); err2 == nil && !known {
			return nil
		}
		fallthrough
	default:
		if fetched, err = b.lastOf(ports, err); err != nil {
			return err
		}
		use = nil
	}
	b.remember(ports)
	_, failed := b.make(ctx, use)
	for _, p := range fetched.Ports {
		if err := failedOf(p, failed); slices.Contains(ports, p.ID) && err != nil {
			return fault.New(fault.Unavailable, "port %s: %w", p.ID, err)
		}
	}
	if err := failed[everyNetwork]; err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	return nil
}

// startTime is how long a port that was prepared keeps its rules although the service does not list it any more: its
// guest may start by then, after its image has been copied. A port that is deleted meanwhile must not start without
// rules.
const startTime = time.Hour

// remember notes when ports were prepared, and forgets those of long ago. The caller holds calls.
func (b *Bridges) remember(ports []string) {
	if b.prepared == nil {
		b.prepared = map[string]time.Time{}
	}
	maps.DeleteFunc(b.prepared, func(_ string, at time.Time) bool { return time.Since(at) > startTime })
	for _, id := range ports {
		b.prepared[id] = time.Now()
	}
}

// stays reports whether a port that the service does not list keeps its rules: its interface exists, or is about to.
// The caller holds calls.
func (b *Bridges) stays(port string, present map[string]bridgeplan.Link) bool {
	if _, exists := present[network.TapName(port)]; exists {
		return true
	}
	at, prepared := b.prepared[port]
	return prepared && time.Since(at) <= startTime
}

// notListed returns the first of some ports that is not one of the host; empty: all are.
func notListed(ports []string, all network.HostNetworks) string {
	for _, id := range ports {
		if !slices.ContainsFunc(all.Ports, func(p network.HostPort) bool { return p.ID == id }) {
			return id
		}
	}
	return ""
}

// failedOf returns the fault of the network or of a subnet of a port.
func failedOf(p network.HostPort, failed map[string]error) error {
	err := failed[p.Network]
	for _, ip := range p.FixedIPs {
		if err == nil {
			err = failed[ip.Subnet]
		}
	}
	return err
}

// fetchTime limits a request to the network service.
const fetchTime = 15 * time.Second

// fetch reads the networks of the host from the network service.
func (b *Bridges) fetch(ctx context.Context) (network.HostNetworks, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	return b.o.Source.HostNetworks(ctx, b.o.Name)
}

// lastOf returns the last known state, for a service that has not answered. Unavailable: a port is not part of it.
func (b *Bridges) lastOf(ports []string, unanswered error) (network.HostNetworks, error) {
	all, _, err := b.last()
	if err != nil {
		return all, err
	}
	if id := notListed(ports, all); id != "" {
		return all, fault.New(fault.Unavailable, "port %s: the networks of this host cannot be read: %w; remove %s if "+
			"another service than Berth's connects the ports of this host now", id, unanswered, b.o.File)
	}
	return all, nil
}

// everyNetwork is the key of faults that concern all networks.
const everyNetwork = ""

// sync reads the networks and makes them.
func (b *Bridges) sync(ctx context.Context) (conditions []condition.Condition, failed map[string]error) {
	b.calls.Lock()
	defer b.calls.Unlock()
	fetched, err := b.fetch(ctx)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil
	case err != nil:
		conditions = append(conditions, condition.New(condition.Network, "",
			"the networks of this host cannot be read, so changes of them have no effect: "+fault.TextOf(err)))
		more, failed := b.make(ctx, nil)
		return append(conditions, more...), failed
	}
	return b.make(ctx, &fetched)
}

// make makes the networks: fetched, or the last known ones if that is nil. Nothing is made if none are known.
func (b *Bridges) make(ctx context.Context, fetched *network.HostNetworks) (conditions []condition.Condition,
	failed map[string]error) {
	failed = map[string]error{}
	last, known, err := b.last()
	if err != nil {
		return nil, map[string]error{everyNetwork: err}
	}
	if fetched == nil && !known {
		return nil, failed
	}
	all := last
	if fetched != nil {
		present, err := b.o.Kernel.Links(nil)
		if err != nil {
			return nil, map[string]error{everyNetwork: err}
		}
		maps.DeleteFunc(b.prepared, func(port string, _ time.Time) bool {
			_, exists := present[network.TapName(port)]
			return exists
		})
		all, conditions = retain(*fetched, last, present, b.stays)
		if err := b.keep(all); err != nil {
			return nil, map[string]error{everyNetwork: err}
		}
	}
	if len(all.Networks) == 0 && !known {
		return conditions, failed // a host that has never had a network needs no program
	}
	if !b.o.Kernel.HasIPv6() {
		var lacking []condition.Condition
		all.Networks, lacking = bridgeplan.WithoutIPv6(all.Networks)
		conditions = append(conditions, lacking...)
	}
	b.connect(ctx, all, failed)
	return append(conditions, bridgeplan.Shortages(all.Networks)...), failed
}

// connect makes links, rules and servers for networks.
func (b *Bridges) connect(ctx context.Context, all network.HostNetworks, failed map[string]error) {
	present, err := b.o.Kernel.Links(nil)
	if err != nil {
		failed[everyNetwork] = err
		return
	}
	if bridgeplan.NeedsRoutes(all.Networks, present) { // there may be very many routes
		if err := b.o.Kernel.Routes(present); err != nil {
			failed[everyNetwork] = err
			return
		}
	}
	asked := all.Networks
	admitted, refused := b.o.Host.Admit(asked, present)
	all.Networks = admitted
	links, more := b.o.Host.Links(all.Networks)
	maps.Copy(refused, more)
	for _, n := range asked {
		if why := refused[n.ID]; why != "" {
			failed[n.ID] = unconnected(n.ID, why)
		}
		for _, s := range n.Subnets {
			if why := refused[s.ID]; why != "" {
				failed[s.ID] = unconnected(n.ID, why)
			}
		}
	}
	// Rules come before links: a guest or a host is never reachable by a link without its rules.
	if err := b.setRules(ctx, all.Networks); err != nil {
		failed[everyNetwork] = err
		return
	}
	if present, err = b.o.Kernel.Links(links); err != nil {
		failed[everyNetwork] = err
		return
	}
	list, more := bridgeplan.Operations(links, present, refused)
	for id, why := range more {
		failed[id] = unconnected(id, why)
	}
	for _, o := range list {
		if failed[o.Link.Owner] != nil && o.Verb != bridgeplan.Delete {
			continue
		}
		if err := b.o.Kernel.Perform(o); err != nil {
			failed[o.Link.Owner] = err
			continue
		}
		b.o.Log.Info("network link changed", "operation", o.String(), "network", o.Link.Owner)
	}
	for _, version := range []int{4, 6} {
		if !bridgeplan.Forwards(all.Networks, version) {
			continue
		}
		changed, routers, err := b.o.Kernel.Forward(version)
		if len(routers) > 0 {
			b.o.Log.Warn("accept_ra set to 2", "interfaces", routers)
		}
		if err != nil {
			failForwarding(failed, all.Networks, version, err)
		} else if changed {
			b.o.Log.Warn("host forwards packets now", "ip_version", version)
		}
	}
	b.serve(ctx, all, failed)
}

// failForwarding records why packets of a version of IP are not forwarded: for each network whose packets these are.
func failForwarding(failed map[string]error, networks []network.HostNetwork, version int, err error) {
	for _, n := range networks {
		if failed[n.ID] == nil && bridgeplan.Forwards([]network.HostNetwork{n}, version) {
			failed[n.ID] = err
		}
	}
}

// unconnected returns the fault for a network that cannot be connected.
func unconnected(id, why string) error {
	return fault.New(fault.Conflict, "network %s is not connected: %s", id, why)
}

// serve makes the servers of networks, and the filter of their ports.
func (b *Bridges) serve(ctx context.Context, all network.HostNetworks, failed map[string]error) {
	var ready []network.HostNetwork
	interfaces := map[string][]string{}
	present, err := b.o.Kernel.Links(nil)
	if err != nil {
		failed[everyNetwork] = err
		return
	}
	for _, n := range all.Networks {
		if present[n.Bridge].Name == "" {
			continue // a network that is only not as it must be keeps its servers
		}
		ready = append(ready, n)
		interfaces[n.ID] = bridgeplan.ServedBy(n)
	}
	for _, faults := range []map[string]error{
		b.o.DHCP.Apply(ctx, bridgeplan.Servers(network.HostNetworks{Networks: ready, Ports: all.Ports})),
		b.o.Metadata.Serve(bridgeplan.MetadataPort, interfaces)} {
		for id, err := range faults {
			if failed[id] == nil { // the first fault of a network is the cause of the others
				failed[id] = err
			}
		}
	}
	if b.o.Filter != nil {
		if err := b.o.Filter.Apply(ctx, all); err != nil {
			failed[everyNetwork] = err
		}
	}
}

// setRules makes the rules of networks those of the host, if they are not: another program may have changed them.
func (b *Bridges) setRules(ctx context.Context, networks []network.HostNetwork) error {
	text := b.o.Host.Rules(networks)
	b.mu.Lock()
	known, same := b.rules, text == b.text
	b.mu.Unlock()
	if same {
		if present, err := b.o.Kernel.Rules(ctx); err == nil && present == known {
			return nil
		}
	}
	if err := b.o.Kernel.SetRules(ctx, text); err != nil {
		return err
	}
	present, err := b.o.Kernel.Rules(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules, b.text = present, text
	return nil
}

// retain adds to the fetched networks the last known ones that guests still use: their interfaces are in the bridge.
// Such a port may have left the host a moment ago, and its guest is about to end, or to arrive elsewhere.
func retain(fetched, last network.HostNetworks, present map[string]bridgeplan.Link,
	stays func(port string, present map[string]bridgeplan.Link) bool) (all network.HostNetworks,
	conditions []condition.Condition) {
	all = network.HostNetworks{Networks: slices.Clone(fetched.Networks), Ports: slices.Clone(fetched.Ports),
		Groups: slices.Clone(fetched.Groups)}
	for _, n := range last.Networks {
		listed := slices.ContainsFunc(all.Networks, func(o network.HostNetwork) bool { return o.ID == n.ID })
		if members := bridgeplan.Members(present, n.Bridge); !listed && len(members) > 0 && owned(present, n) {
			all.Networks = append(all.Networks, n)
			conditions = append(conditions, condition.New(condition.Network, n.ID, "network "+n.ID+
				" has no port on this host any more, and stays as long as "+members[0]+" is in its bridge "+n.Bridge))
		}
	}
	for _, p := range last.Ports {
		listed := slices.ContainsFunc(all.Ports, func(o network.HostPort) bool { return o.ID == p.ID })
		connected := slices.ContainsFunc(all.Networks, func(n network.HostNetwork) bool { return n.ID == p.Network })
		if !listed && connected && stays(p.ID, present) {
			all.Ports = append(all.Ports, withoutTaken(p, fetched.Ports))
			all.Groups = withGroups(all.Groups, last.Groups, fetched.Ports)
		}
	}
	return all, conditions
}

// withoutTaken returns a port that stays without the addresses that a listed port of its network has now.
func withoutTaken(p network.HostPort, listed []network.HostPort) network.HostPort {
	taken := func(address string) bool {
		at, err := netip.ParsePrefix(address)
		if a, err2 := netip.ParseAddr(address); err2 == nil {
			at, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		return slices.ContainsFunc(listed, func(o network.HostPort) bool {
			return err == nil && o.Network == p.Network && slices.ContainsFunc(o.FixedIPs, func(ip network.FixedIP) bool {
				a, err := netip.ParseAddr(ip.Address)
				return err == nil && at.Contains(a)
			})
		})
	}
	p.FixedIPs = slices.DeleteFunc(slices.Clone(p.FixedIPs), func(ip network.FixedIP) bool { return taken(ip.Address) })
	p.Pairs = slices.DeleteFunc(slices.Clone(p.Pairs), func(pair network.AddressPair) bool { return taken(pair.Address) })
	return p
}

// withGroups returns security groups with the last known rules of those that none of some ports has: a port that stays
// has its rules as long.
func withGroups(groups, last []network.HostSecurityGroup, ports []network.HostPort) []network.HostSecurityGroup {
	for _, g := range last {
		at := slices.IndexFunc(groups, func(o network.HostSecurityGroup) bool { return o.ID == g.ID })
		has := func(p network.HostPort) bool { return slices.Contains(p.Groups, g.ID) }
		switch {
		case at < 0:
			groups = append(groups, g)
		case !slices.ContainsFunc(ports, has):
			groups[at].Rules, groups[at].Stateless = g.Rules, g.Stateless
		}
	}
	return groups
}

// owned reports whether Berth has made the bridge of a network.
func owned(present map[string]bridgeplan.Link, n network.HostNetwork) bool {
	return present[n.Bridge].Owner == n.ID
}
