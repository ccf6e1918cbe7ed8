package nftables

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/securitygroup"
)

// pair starts a host with a bridge in a zone, and two guests, of which the second one serves.
func pair(t testing.TB) (h *host, a, b *guest, s groupfilter.State) {
	t.Helper()
	h = newHost(t)
	h.bridge("br1")
	a, b = h.connect("br1", 1), h.connect("br1", 2)
	b.serve(80)
	s = groupfilter.State{
		Groups: map[string]securitygroup.Group{"open": openGroup("open"), "server": openGroup("server")},
		Zones:  map[string]groupfilter.Zone{"br1": {Number: 7}},
		Ports:  []groupfilter.Port{a.port("br1", "open"), b.port("br1", "server")}}
	return h, a, b, s
}

// TestRemovedRuleEndsConnections removes the rule of open connections: they stop, and continue when
// the rule is back. A connection that another rule permits is not cut.
func TestRemovedRuleEndsConnections(t *testing.T) {
	h, a, b, s := pair(t)
	h.apply(s)
	a.serve(81)
	var all []net.Conn
	for _, to := range []netip.Addr{b.four, b.six} {
		c, err := a.open(to, 80)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	other, err := b.open(a.four, 81) // egress of b, which stays permitted
	if err != nil {
		t.Fatal(err)
	}
	for i, permitted := range []bool{true, false, false, true} {
		if state := s; permitted {
			h.apply(state)
		} else {
			h.apply(without(state, "server"))
		}
		for _, c := range all {
			if got := exchange(c, permitted); got != permitted {
				t.Errorf("step %d: %s: answers %t", i, c.RemoteAddr(), got)
			}
		}
		if !exchange(other, true) {
			t.Errorf("step %d: the other connection does not answer", i)
		}
		// what was sent meanwhile arrives late
		for _, c := range all {
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
			if b := make([]byte, 64); permitted && i > 0 {
				_, _ = c.Read(b)
			}
		}
	}
}

// stream exchanges bytes without a pause until it is stopped, and returns the longest time between two answers.
type stream struct {
	stop    atomic.Bool
	longest atomic.Int64
	answers atomic.Int64
	ended   chan error
}

func startStream(c net.Conn) *stream {
	s := &stream{ended: make(chan error, 1)}
	go func() {
		last := time.Now()
		for !s.stop.Load() {
			if !exchange(c, true) {
				s.ended <- fmt.Errorf("no answer for %v", patience(true))
				return
			}
			s.answers.Add(1)
			s.longest.Store(max(s.longest.Load(), int64(time.Since(last))))
			last = time.Now()
		}
		s.ended <- nil
	}()
	return s
}

// TestRestart restarts the agent, and replaces all tables, while a connection is used without a pause and another guest
// tries what is not permitted: nothing is cut, and nothing passes.
func TestRestart(t *testing.T) {
	h, a, b, s := pair(t)
	s.Groups["server"] = securitygroup.Group{ID: "server", Rules: []securitygroup.Rule{
		rule(securitygroup.Ingress, securitygroup.IPv4, "tcp", 80, 80)}}
	h.apply(s)
	c, err := a.open(b.four, 80)
	if err != nil {
		t.Fatal(err)
	}
	out, in := a.packetSocket(), b.packetSocket()
	traffic := startStream(c)
	var stop atomic.Bool
	tried := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			for _, f := range [][]byte{ethernet(b.mac, a.mac, 0x0800, udp4(a.four, b.four, 9, 9, "forbidden")),
				ethernet(b.mac, a.mac, 0x0800, udp4(b.four, b.four, 9, 80, "forbidden"))} {
				_, _ = writeFrame(out, f)
			}
		}
		tried <- n
	}()
	passed := make(chan bool)
	go func() { passed <- receives(in, "forbidden", 3*time.Second) }()
	for i := range 40 {
		state := s
		if i%2 == 1 { // another state, which permits the same
			state.Ports = append(slices.Clone(s.Ports), groupfilter.Port{Tap: "tapother", Bridge: "br1",
				Port: securitygroup.Port{ID: "other", MAC: "fa:16:3e:00:00:99", Secured: true, Groups: []string{"open"},
					Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.99")}}})
		}
		if i%3 == 0 {
			h.filter = &Filter{Log: slog.New(slog.DiscardHandler)} // a new process
		}
		h.apply(state)
	}
	if <-passed {
		t.Error("a packet that is not permitted has passed")
	}
	stop.Store(true)
	traffic.stop.Store(true)
	if err := <-traffic.ended; err != nil {
		t.Error(err)
	}
	if n := <-tried; n < 1000 || traffic.answers.Load() < 1000 {
		t.Errorf("%d forbidden packets, %d answers: too few to find a gap", n, traffic.answers.Load())
	}
	t.Logf("%d answers, longest wait %v", traffic.answers.Load(), time.Duration(traffic.longest.Load()))
}

// TestNothingIsWrittenAtARestart: a new process writes nothing if the kernel has the tables, and repairs them if
// another program has removed them. Tables of other programs stay.
func TestNothingIsWrittenAtARestart(t *testing.T) {
	h, _, _, s := pair(t)
	h.run("nft", "add", "table", "inet", "other")
	h.apply(s)
	handles := func() string { return h.run("nft", "-a", "list", "ruleset") }
	before := handles()
	h.filter = &Filter{Log: slog.New(slog.DiscardHandler)}
	h.apply(s)
	if after := handles(); after != before {
		t.Errorf("the tables were written:\n%s\n%s", before, after)
	}
	h.run("nft", "delete", "table", "inet", groupfilter.Table)
	h.apply(s)
	for _, want := range []string{groupfilter.Render(s).Version(), "table inet other"} {
		if out := handles(); !strings.Contains(out, want) {
			t.Errorf("the tables are not repaired: no %s in\n%s", want, out)
		}
	}
	h.run("nft", "delete", "table", "bridge", groupfilter.Table)
	h.apply(s)
	h.run("nft", "list", "table", "bridge", groupfilter.Table)
	h.run("nft", "flush", "ruleset")
	h.apply(s)
	var err error
	h.do(func() { err = Remove(t.Context()) })
	if err != nil || strings.Contains(handles(), groupfilter.Table) {
		t.Errorf("the tables are not removed: %v", err)
	}
}

// TestChangesEqualTheText: the difference of two states leads to the same tables as writing the second one as a whole.
func TestChangesEqualTheText(t *testing.T) {
	h, _, _, s := pair(t)
	groups := func(state groupfilter.State, port int, names ...string) groupfilter.State {
		state.Ports = slices.Clone(state.Ports)
		state.Ports[port].Groups = names
		return state
	}
	pairs := s
	pairs.Ports = slices.Clone(s.Ports)
	pairs.Ports[0].Pairs = []securitygroup.Pair{{Address: netip.MustParsePrefix("10.9.0.0/24")},
		{Address: netip.MustParsePrefix("2001:db8:9::/64")}, {Address: netip.MustParsePrefix("10.0.0.2/32")}}
	remote := s
	members := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.0.1/32"),
		netip.MustParsePrefix("10.0.1.0/24"), netip.MustParsePrefix("2001:db8::1/128")}
	from := securitygroup.Rule{Direction: securitygroup.Ingress, EtherType: securitygroup.IPv4, RemoteGroup: "peers"}
	remote.Groups = map[string]securitygroup.Group{"open": {ID: "open", Rules: []securitygroup.Rule{from}},
		"server": s.Groups["server"], "peers": {ID: "peers", Members: members}}
	fewer := remote
	fewer.Groups = map[string]securitygroup.Group{"open": remote.Groups["open"], "server": s.Groups["server"],
		"peers": {ID: "peers", Members: members[2:]}}
	states := []groupfilter.State{s, without(s, "server"), groups(s, 0, "open", "server"), groups(s, 1), pairs, remote,
		fewer, {}, {Zones: map[string]groupfilter.Zone{"br2": {Number: 3}}}, {Ports: s.Ports[:1]}}
	list := func() string { return h.run("nft", "list", "ruleset") }
	for i, first := range states {
		for _, step := range []int{1, 3, 7} {
			j := (i + step) % len(states)
			second := states[j]
			h.filter = &Filter{Log: slog.New(slog.DiscardHandler)}
			h.apply(first)
			h.apply(second)
			if !h.filter.known && len(second.Ports) > 0 {
				t.Errorf("%d to %d: the difference was not written", i, j)
			}
			got := list()
			h.run("nft", "flush", "ruleset")
			h.filter = &Filter{Log: slog.New(slog.DiscardHandler)}
			h.apply(second)
			if want := list(); sorted(got) != sorted(want) {
				t.Fatalf("%d to %d:\n%s\n---- want\n%s", i, j, got, want)
			}
		}
	}
}

// sorted returns the lines of a listing in order, because nft lists chains and elements in the order of their addition.
func sorted(listing string) string {
	words := strings.FieldsFunc(listing, func(r rune) bool { return r == '\n' || r == ',' })
	for i, w := range words {
		words[i] = strings.Trim(strings.TrimPrefix(strings.TrimSpace(w), "elements = {"), " {}")
	}
	slices.Sort(words)
	return strings.Join(words, "\n")
}

// TestEqualAddressesInTwoNetworks: guests of two networks have the same addresses. Their connections do not mix, and
// the rules of one network do not end those of the other.
func TestEqualAddressesInTwoNetworks(t *testing.T) {
	h := newHost(t)
	s := groupfilter.State{Groups: map[string]securitygroup.Group{"open": openGroup("open"), "server": openGroup("server"),
		"closed": openGroup("closed")}, Zones: map[string]groupfilter.Zone{"br1": {Number: 7}, "br2": {Number: 8}}}
	conns := map[string]net.Conn{}
	for _, bridge := range []string{"br1", "br2"} {
		h.bridge(bridge)
		a, b := h.connect(bridge, 1), h.connect(bridge, 2)
		b.serve(80)
		group := map[string]string{"br1": "server", "br2": "closed"}[bridge]
		s.Ports = append(s.Ports, a.port(bridge, "open"), b.port(bridge, group))
		h.apply(s)
		a.do(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{Port: 5555}, Timeout: patience(true)} // the same port in both
			c, err := d.Dial("tcp", "10.0.0.2:80")
			if err != nil {
				t.Error(bridge, err)
				return
			}
			conns[bridge] = c
		})
	}
	if t.Failed() {
		return
	}
	h.apply(without(s, "closed"))
	if !exchange(conns["br1"], true) {
		t.Error("the connection of the other network is cut")
	}
	if exchange(conns["br2"], false) {
		t.Error("the connection is not cut")
	}
	for _, c := range conns {
		c.Close()
	}
}

// TestHostAndGuests: traffic between the host and its guests, and of guests to the network behind the host with NAT,
// passes by the same rules.
func TestHostAndGuests(t *testing.T) {
	h, a, b, s := pair(t)
	s.Zones = map[string]groupfilter.Zone{"br1": {Number: 7,
		Inside: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}}
	b.serve(81)
	outside := h.connect("br1", 3)
	outside.serve(80)
	// the third guest becomes a machine behind the host
	h.run("ip", "link", "set", outside.tap, "nomaster")
	h.run("ip", "addr", "add", "192.0.2.1/24", "dev", outside.tap)
	outside.run("ip", "addr", "flush", "dev", "eth0")
	outside.run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	h.run("ip", "addr", "add", "10.0.0.254/24", "dev", "br1")
	h.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	h.run("nft", "add table ip nat; add chain ip nat post { type nat hook postrouting priority srcnat; }; "+
		`add rule ip nat post oifname "`+outside.tap+`" masquerade`)
	for _, g := range []*guest{a, b} {
		g.run("ip", "route", "add", "default", "via", "10.0.0.254")
	}
	s.Groups["server"] = securitygroup.Group{ID: "server", Rules: []securitygroup.Rule{
		rule(securitygroup.Ingress, securitygroup.IPv4, "tcp", 80, 80)}}
	h.apply(s)
	host := &guest{space: h.space, four: netip.MustParseAddr("10.0.0.254")}
	host.serve(80)
	for _, c := range []struct {
		name string
		from *guest
		to   string
		port int
		want bool
	}{
		{"host to a permitted port", host, "10.0.0.2", 80, true},
		{"host to another port", host, "10.0.0.2", 81, false},
		{"guest to the host", a, "10.0.0.254", 80, true},
		{"guest without egress to the host", b, "10.0.0.254", 80, false},
		{"guest through the host", a, "192.0.2.2", 80, true},
		{"guest without egress through the host", b, "192.0.2.2", 80, false},
		{"guest to guest", a, "10.0.0.2", 80, true},
		{"guest to another port of a guest", a, "10.0.0.2", 81, false},
	} {
		if got := c.from.reaches("tcp", netip.MustParseAddr(c.to), c.port, c.want); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	closed := s
	closed.Groups = map[string]securitygroup.Group{"open": s.Groups["open"], "server": {ID: "server"}}
	closed.Ports = slices.Clone(s.Ports)
	closed.Ports[1].Pairs = []securitygroup.Pair{{Address: netip.MustParsePrefix("0.0.0.0/0")},
		{Address: netip.MustParsePrefix("10.0.0.9/32")}}
	h.apply(closed)
	other := h.connect("br1", 9) // without port security, or on another host
	other.serve(80)
	if host.reaches("tcp", b.four, 80, false) || !host.reaches("tcp", other.four, 80, true) {
		t.Error("an address pair of a guest stops what the host sends to others, or opens the guest")
	}
	h.apply(s)
	c, err := a.open(netip.MustParseAddr("192.0.2.2"), 80)
	if err != nil {
		t.Fatal(err)
	}
	s.Groups["open"] = securitygroup.Group{ID: "open"}
	h.apply(s)
	if exchange(c, false) {
		t.Error("a connection with NAT is not cut")
	}
}

// TestBridgeWithoutFilter: if br_netfilter does not serve a bridge any more, nothing passes.
func TestBridgeWithoutFilter(t *testing.T) {
	h, a, b, s := pair(t)
	c := h.connect("br1", 3) // without port security
	c.serve(80)
	h.run("ip", "addr", "add", "10.0.0.254/24", "dev", "br1")
	host := &guest{space: h.space}
	host.serve(80)
	h.apply(s)
	others := []netip.Addr{b.four, b.six, c.four, c.six, netip.MustParseAddr("10.0.0.254")}
	for _, to := range others {
		if !a.reaches("tcp", to, 80, true) {
			t.Errorf("%s is not reached", to)
		}
	}
	h.run("ip", "link", "set", "br1", "type", "bridge", "nf_call_iptables", "0", "nf_call_ip6tables", "0")
	for _, to := range others {
		if a.reaches("tcp", to, 80, false) {
			t.Errorf("%s is reached without a decision", to)
		}
	}
	h.apply(s)
	for _, to := range []netip.Addr{b.four, b.six} { // a neighbour may have to be found again
		if _, err := a.open(to, 80); err != nil {
			t.Errorf("the bridge is not served again: %v", err)
		}
	}
}
