package nftables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/securitygroup"
)

// testPorts are the ports that guests serve.
var testPorts = []int{80, 81, 443}

// randomRule returns a rule that concerns the probes.
func randomRule(r *rand.Rand, id int, groups []string) securitygroup.Rule {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	rule := securitygroup.Rule{ID: fmt.Sprint(id), Direction: pick(securitygroup.Ingress, securitygroup.Egress),
		EtherType: pick(securitygroup.IPv4, securitygroup.IPv6), Protocol: pick("", "tcp", "udp", "icmp", "17", "6")}
	if n, _ := securitygroup.ProtocolNumber(rule.Protocol); n == securitygroup.TCP || n == securitygroup.UDP {
		if r.IntN(3) > 0 {
			low := testPorts[r.IntN(len(testPorts))]
			high := low + r.IntN(2)
			rule.Min, rule.Max = &low, &high
		}
	}
	if rule.Protocol == "icmp" && r.IntN(2) == 0 {
		kind := 8
		if rule.EtherType == securitygroup.IPv6 {
			kind = 128
		}
		if r.IntN(3) == 0 {
			kind++
		}
		rule.Min = &kind
		if code := r.IntN(4); code < 2 { // the probes have code 0
			rule.Max = &code
		}
	}
	switch r.IntN(4) {
	case 0:
		rule.RemoteGroup = groups[r.IntN(len(groups))]
	case 1:
		rule.RemotePrefix = pick("10.0.0.1/32", "10.0.0.2/31", "10.0.0.0/24", "192.0.2.0/24")
		if rule.EtherType == securitygroup.IPv6 {
			rule.RemotePrefix = pick("2001:db8::1/128", "2001:db8::2/127", "2001:db8::/64", "fe80::/10")
		}
	}
	rule, err := rule.Normalise()
	if err != nil {
		panic(err)
	}
	return rule
}

// randomState returns groups with random rules for ports of guests.
func randomState(r *rand.Rand, guests []*guest) groupfilter.State {
	s := groupfilter.State{Groups: map[string]securitygroup.Group{},
		Zones: map[string]groupfilter.Zone{"br1": {Number: 7}}}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		g := securitygroup.Group{ID: name, Stateless: r.IntN(6) == 0}
		for i := range 1 + r.IntN(6) {
			g.Rules = append(g.Rules, randomRule(r, i, names))
		}
		s.Groups[name] = g
	}
	for _, g := range guests {
		p := g.port("br1")
		for _, name := range names {
			if r.IntN(2) == 0 && (len(p.Groups) == 0 || s.Groups[name].Stateless == s.Groups[p.Groups[0]].Stateless) {
				p.Groups = append(p.Groups, name)
			}
		}
		p.Secured = r.IntN(8) > 0
		for _, name := range p.Groups {
			one := s.Groups[name]
			for _, a := range p.Addresses {
				one.Members = append(one.Members, netip.PrefixFrom(a, a.BitLen()))
			}
			s.Groups[name] = one
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// expected returns whether the model lets a packet and the answer pass between two ports.
func expected(s groupfilter.State, from, to groupfilter.Port, p securitygroup.Packet) bool {
	passes := func(from, to groupfilter.Port, p securitygroup.Packet, answer bool) bool {
		for _, end := range []struct {
			port      groupfilter.Port
			direction string
		}{{from, securitygroup.Egress}, {to, securitygroup.Ingress}} {
			g := end.port.Groups
			if p.Direction = end.direction; answer && (len(g) == 0 || !s.Groups[g[0]].Stateless) {
				continue
			}
			if !securitygroup.Decide(end.port.Port, s.Groups, p).Allowed {
				return false
			}
		}
		return true
	}
	back := p
	back.Source, back.Destination, back.SourcePort, back.Port = p.Destination, p.Source, p.Port, p.SourcePort
	if p.Protocol == securitygroup.ICMP {
		back.Type = 0
	} else if p.Protocol == securitygroup.ICMPv6 {
		back.Type++
	}
	return passes(from, to, p, false) && passes(to, from, back, true)
}

// TestRandomRules compares 50 random states with the model by packets between four guests: TCP, UDP and ICMP, of IPv4
// and IPv6. Each state follows the one before it.
func TestRandomRules(t *testing.T) {
	h := newHost(t)
	h.bridge("br1")
	var guests []*guest
	for n := 1; n <= 4; n++ {
		g := h.connect("br1", n)
		g.serve(testPorts...)
		guests = append(guests, g)
	}
	passed, dropped := 0, 0
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := randomState(r, guests)
		h.apply(s)
		h.do(func() {
			if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
				t.Error(err)
			}
		})
		var all sync.WaitGroup
		for i, from := range guests {
			for j, to := range guests {
				if i == j {
					continue
				}
				for _, p := range probes(from, to) {
					want := expected(s, s.Ports[i], s.Ports[j], p)
					if want {
						passed++
					} else {
						dropped++
					}
					all.Go(func() {
						got := from.probe(p, want)
						for range 10 { // a host without time loses packets; one that must not pass never passes
							if !want || got {
								break
							}
							got = from.probe(p, want)
						}
						if got != want {
							t.Errorf("state %d, %d to %d: %+v: passes %t, want %t", seed, i, j, p, got, want)
						}
					})
				}
			}
		}
		all.Wait()
		if t.Failed() {
			t.Logf("%+v\n%s", s, groupfilter.Render(s).Text())
			return
		}
	}
	t.Logf("%d probes pass, %d are dropped", passed, dropped)
	if passed < 500 || dropped < 500 {
		t.Error("the states do not differ enough")
	}
}

// probes returns the packets that a guest sends to another one.
func probes(from, to *guest) (all []securitygroup.Packet) {
	for _, ends := range [][2]netip.Addr{{from.four, to.four}, {from.six, to.six}} {
		p := securitygroup.Packet{Source: ends[0], Destination: ends[1], SourcePort: 40000}
		for _, port := range testPorts {
			for _, protocol := range []int{securitygroup.TCP, securitygroup.UDP} {
				p.Protocol, p.Port = protocol, port
				all = append(all, p)
			}
		}
		p.Protocol, p.Port, p.SourcePort, p.Type = securitygroup.ICMP, 0, 0, 8
		if ends[0].Is6() {
			p.Protocol, p.Type = securitygroup.ICMPv6, 128
		}
		all = append(all, p)
	}
	return all
}

// probe sends a packet, and reports whether it is answered, which is wanted or not.
func (g *guest) probe(p securitygroup.Packet, wanted bool) bool {
	switch p.Protocol {
	case securitygroup.TCP:
		return g.reaches("tcp", p.Destination, p.Port, wanted)
	case securitygroup.UDP:
		return g.reaches("udp", p.Destination, p.Port, wanted)
	}
	return g.pings(p.Destination, wanted)
}

// rule returns a normalised rule.
func rule(direction, ethertype, protocol string, ports ...int) securitygroup.Rule {
	r := securitygroup.Rule{Direction: direction, EtherType: ethertype, Protocol: protocol}
	if len(ports) == 2 {
		r.Min, r.Max = &ports[0], &ports[1]
	}
	r, err := r.Normalise()
	if err != nil {
		panic(err)
	}
	return r
}

// open returns a group that permits everything.
func openGroup(id string) securitygroup.Group {
	g := securitygroup.Group{ID: id}
	for _, d := range []string{securitygroup.Ingress, securitygroup.Egress} {
		for _, e := range []string{securitygroup.IPv4, securitygroup.IPv6} {
			g.Rules = append(g.Rules, rule(d, e, ""))
		}
	}
	return g
}

// without returns a state without the rules of ingress of a group.
func without(s groupfilter.State, group string) groupfilter.State {
	groups := map[string]securitygroup.Group{}
	for id, g := range s.Groups {
		if id == group {
			g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r securitygroup.Rule) bool {
				return r.Direction == securitygroup.Ingress
			})
		}
		groups[id] = g
	}
	s.Groups = groups
	return s
}
