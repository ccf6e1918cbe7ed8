package bridges_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/agent/bridges"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// fakes are the surroundings of the networks of a host, in memory.
type fakes struct {
	all      network.HostNetworks
	err      error // of the network service
	links    map[string]bridgeplan.Link
	rules    string
	refuse   error // of the next operation
	servers  []bridgeplan.DHCP
	metadata map[string][]string
	filtered []int // the number of ports of each call
	filter   error
	noIPv6   bool          // of the kernel
	forward  map[int]error // by the version of IP
}

func (f *fakes) HostNetworks(context.Context, string) (network.HostNetworks, error) {
	return f.all, f.err
}

func (f *fakes) Links([]bridgeplan.Link) (map[string]bridgeplan.Link, error) {
	return maps.Clone(f.links), nil
}

func (f *fakes) Routes(map[string]bridgeplan.Link) error { return nil }

func (f *fakes) Perform(o bridgeplan.Operation) error {
	if f.refuse != nil {
		return f.refuse
	}
	switch o.Verb {
	case bridgeplan.Delete:
		delete(f.links, o.Link.Name)
		delete(f.links, o.Link.Peer)
	default:
		f.links[o.Link.Name] = o.Link
	}
	return nil
}

func (f *fakes) SetRules(_ context.Context, text string) error {
	f.rules = text
	return nil
}

func (f *fakes) Rules(context.Context) (string, error) { return f.rules, nil }

func (f *fakes) HasIPv6() bool { return !f.noIPv6 }

func (f *fakes) Forward(version int) (bool, []string, error) { return false, nil, f.forward[version] }

func (f *fakes) Apply(_ context.Context, want []bridgeplan.DHCP) map[string]error {
	f.servers = want
	return nil
}

func (f *fakes) Serve(_ int, interfaces map[string][]string) map[string]error {
	f.metadata = interfaces
	return nil
}

// filterOf is the filter of fakes, whose Apply is that of DHCP.
type filterOf struct{ *fakes }

func (f filterOf) Apply(_ context.Context, all network.HostNetworks) error {
	f.filtered = append(f.filtered, len(all.Ports))
	return f.filter
}

// start returns the networks of a host as a new process has them.
func (f *fakes) start(file string) *bridges.Bridges {
	return bridges.New(bridges.Options{Name: "h", File: file,
		Host:   bridgeplan.Host{TunnelIP: "192.0.2.1", TunnelPort: 4789},
		Source: f, Kernel: f, DHCP: f, Metadata: f, Filter: filterOf{f}, Log: slog.New(slog.DiscardHandler)})
}

func (f *fakes) wants(t *testing.T, b *bridges.Bridges, conditions string) {
	t.Helper()
	got := strings.Join(condition.Texts(b.Sync(t.Context())), "\n")
	if conditions == "" && got != "" || !strings.Contains(got, conditions) {
		t.Errorf("conditions %q, want %q", got, conditions)
	}
}

// TestNetworksOfAHost follows the networks of a host while its surroundings fail: what exists stays, and a guest does
// not start without its network.
func TestNetworksOfAHost(t *testing.T) {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	p := port(n, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10")
	f := &fakes{links: map[string]bridgeplan.Link{"eth0": {Name: "eth0"}}, err: errors.New("down")}
	file := filepath.Join(t.TempDir(), "networks.json")
	b := f.start(file)
	f.wants(t, b, "the networks of this host cannot be read")
	if f.rules != "" || len(f.filtered) != 0 {
		t.Errorf("a host without networks was changed: %q %v", f.rules, f.filtered)
	}
	if err := b.Prepare(t.Context(), []string{p.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a guest without its network: %v", err)
	}
	f.all, f.err = network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: []network.HostPort{p}}, nil
	f.refuse = errors.New("no memory")
	if err := b.Prepare(t.Context(), []string{p.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a network that cannot be made: %v", err)
	}
	f.refuse, f.filter = nil, errors.New("nft")
	if err := b.Prepare(t.Context(), []string{p.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a guest without its filter: %v", err)
	}
	f.filter = nil
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if len(f.servers) != 1 || !slices.Equal(f.metadata[n.ID], []string{n.Bridge}) ||
		!strings.Contains(f.rules, "masquerade") {
		t.Errorf("servers %v, metadata %v", f.servers, f.metadata)
	}
	f.err, f.rules = errors.New("down"), ""
	b = f.start(file) // the host has booted again, and the service does not answer
	f.links = map[string]bridgeplan.Link{"eth0": {Name: "eth0"}}
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if f.links[n.Bridge].Owner != n.ID || !strings.Contains(f.rules, "masquerade") {
		t.Errorf("after the boot: %v", f.links)
	}
	if err := b.Prepare(t.Context(), []string{"another"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a port that is not known: %v", err)
	}
	f.err = fault.New(fault.NotFound, "Neutron")
	f.wants(t, b, "")
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if err := b.Prepare(t.Context(), []string{"another"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a service that has lost the request, and a port that is not known: %v", err)
	}
	if f.links[n.Bridge].Owner != n.ID {
		t.Error("a service without the request removes networks")
	}
	f.links[network.TapName(p.ID)] = bridgeplan.Link{Name: network.TapName(p.ID), Master: n.Bridge}
	f.all, f.err = network.HostNetworks{}, nil
	f.wants(t, b, "stays as long as")
	if last := f.filtered[len(f.filtered)-1]; f.links[n.Bridge].Owner != n.ID || last != 1 {
		t.Errorf("a guest was cut: %v, %d ports filtered", f.links, last)
	}
	delete(f.links, network.TapName(p.ID))
	f.wants(t, b, "")
	if len(f.links) != 1 || len(f.servers)+len(f.metadata) != 0 || f.rules != bridgeplan.NoRules {
		t.Errorf("left: %v %v %s", f.links, f.servers, f.rules)
	}
}

// TestSubnetOfTheHost refuses a network whose subnet the host has, and starts no guest on it.
func TestSubnetOfTheHost(t *testing.T) {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	p := port(n, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10")
	f := &fakes{links: map[string]bridgeplan.Link{"eth0": {Name: "eth0", Addresses: []bridgeplan.Address{{
		Prefix: netip.MustParsePrefix("10.0.0.7/16")}}}},
		all: network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: []network.HostPort{p}}}
	b := f.start(filepath.Join(t.TempDir(), "networks.json"))
	f.wants(t, b, "overlaps with the address 10.0.0.7/16 of eth0")
	if err := b.Prepare(t.Context(), []string{p.ID}); !fault.Is(err, fault.Unavailable) || len(f.links) != 1 {
		t.Errorf("%v, %v", err, f.links)
	}
}

// TestUnlistedPort: a guest does not start with a port that the network service does not list, because nothing would
// filter it. Where another service than Berth's connects ports, it starts.
func TestUnlistedPort(t *testing.T) {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	p := port(n, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10")
	f := &fakes{links: map[string]bridgeplan.Link{}, err: fault.New(fault.NotFound, "Neutron")}
	b := f.start(filepath.Join(t.TempDir(), "networks.json"))
	must(t, b.Prepare(t.Context(), []string{"another"}))
	f.all, f.err = network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: []network.HostPort{p}}, nil
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if err := b.Prepare(t.Context(), []string{p.ID, "deleted"}); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "deleted") {
		t.Errorf("a deleted port: %v", err)
	}
	// It is deleted after it was prepared, and its guest starts: it keeps its rules while another port is connected, until
	// its interface has come and gone.
	has := func(want bool) {
		t.Helper()
		f.wants(t, b, "")
		state, err := b.State()
		must(t, err)
		if got := slices.ContainsFunc(state.Ports, func(o network.HostPort) bool { return o.ID == p.ID }); got != want {
			t.Errorf("the deleted port has rules: %v", got)
		}
	}
	f.all.Ports = []network.HostPort{port(n, "b1b1b1b1-0001-4000-8000-1", "beta", "10.0.1.11")}
	has(true)
	f.links[network.TapName(p.ID)] = bridgeplan.Link{Name: network.TapName(p.ID), Master: n.Bridge}
	has(true)
	delete(f.links, network.TapName(p.ID))
	has(false)
}

// TestLaterSubnetOfTheHost: a subnet that a network gets later and that the host has is left out; guests with other
// addresses of the network start.
func TestLaterSubnetOfTheHost(t *testing.T) {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	p, q := port(n, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"), port(n, "a2", "beta", "192.0.2.30")
	q.FixedIPs[0].Subnet = "late"
	f := &fakes{links: map[string]bridgeplan.Link{"eth0": {Name: "eth0", Addresses: []bridgeplan.Address{{
		Prefix: netip.MustParsePrefix("192.0.2.10/24")}}}},
		all: network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: []network.HostPort{p, q}}}
	b := f.start(filepath.Join(t.TempDir(), "networks.json"))
	f.wants(t, b, "")
	n.Subnets = append(n.Subnets, network.HostSubnet{ID: "late", IPVersion: 4, CIDR: "192.0.2.0/24",
		Gateway: "192.0.2.10"})
	f.all.Networks = []network.HostNetwork{n}
	f.wants(t, b, "its subnet 192.0.2.0/24 gives this host the address 192.0.2.10")
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if err := b.Prepare(t.Context(), []string{q.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a guest with an address of a subnet that is left out: %v", err)
	}
}

// TestRetainedAddresses: a port that stays after it was deleted keeps no address that another port has got.
func TestRetainedAddresses(t *testing.T) {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	p := port(n, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10")
	p.FixedIPs = append(p.FixedIPs, network.FixedIP{Subnet: "sub-" + netA, Address: "10.0.1.11"})
	p.Pairs = []network.AddressPair{{Address: "10.0.1.0/28"}, {Address: "10.0.9.0/24"}}
	f := &fakes{links: map[string]bridgeplan.Link{}, all: network.HostNetworks{Networks: []network.HostNetwork{n},
		Ports: []network.HostPort{p}}}
	b := f.start(filepath.Join(t.TempDir(), "networks.json"))
	f.wants(t, b, "")
	f.links[network.TapName(p.ID)] = bridgeplan.Link{Name: network.TapName(p.ID), Master: n.Bridge}
	f.all.Ports = []network.HostPort{port(n, "b1", "beta", "10.0.1.10")}
	f.wants(t, b, "")
	all, err := b.State()
	must(t, err)
	if len(all.Ports) != 2 {
		t.Fatalf("ports %+v", all.Ports)
	}
	if stays := all.Ports[1]; stays.ID != p.ID || len(stays.FixedIPs) != 1 || stays.FixedIPs[0].Address != "10.0.1.11" ||
		len(stays.Pairs) != 1 || stays.Pairs[0].Address != "10.0.9.0/24" {
		t.Errorf("the port that stays: %+v", stays)
	}
}

// TestHostWithoutIPv6: where the kernel has no IPv6 a network with a subnet of IPv6 is routed by IPv4, with a
// condition. If the host must not forward packets of IPv6, only networks with such a subnet get no guests.
func TestHostWithoutIPv6(t *testing.T) {
	four := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	both := withSix(routed(netB, "10.0.2.0/24", "10.0.2.1", "10.0.2.250", "fa:16:3e:aa:00:02", 102), "fd00:2::/64",
		"fd00:2::1", "fd00:2::250", "slaac")
	p, q := port(four, "a1", "alpha", "10.0.1.10"), six(port(both, "b1", "beta", "10.0.2.10"), "fd00:2::10")
	f := &fakes{links: map[string]bridgeplan.Link{}, all: network.HostNetworks{
		Networks: []network.HostNetwork{four, both}, Ports: []network.HostPort{p, q}},
		forward: map[int]error{6: errors.New("read-only")}}
	b := f.start(filepath.Join(t.TempDir(), "networks.json"))
	f.wants(t, b, "read-only")
	must(t, b.Prepare(t.Context(), []string{p.ID}))
	if err := b.Prepare(t.Context(), []string{q.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a guest whose IPv6 is not forwarded: %v", err)
	}
	f.noIPv6, f.links = true, map[string]bridgeplan.Link{}
	f.wants(t, b, "network "+netB+": this host does not serve its subnets of IPv6")
	must(t, b.Prepare(t.Context(), []string{p.ID, q.ID}))
	if got := f.links[both.Bridge].Addresses; len(got) != 1 || !got[0].Prefix.Addr().Is4() {
		t.Errorf("addresses of the bridge: %v", got)
	}
	if state, err := b.State(); err != nil || state.Networks[1].Subnets[1].Gateway != "fd00:2::1" {
		t.Errorf("the file of the state: %+v, %v", state.Networks, err)
	}
}
