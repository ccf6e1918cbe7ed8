package nftables

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/securitygroup"
)

// manyPorts returns a state with ports of one group, whose rules name the group as their remote group, and some other
// rules.
func manyPorts(count int) groupfilter.State {
	g := openGroup("g")
	for port := range 20 {
		r := rule(securitygroup.Ingress, securitygroup.IPv4, "tcp", port+1, port+1)
		r.RemoteGroup = "g"
		g.Rules = append(g.Rules, r)
	}
	s := groupfilter.State{Groups: map[string]securitygroup.Group{},
		Zones: map[string]groupfilter.Zone{"br1": {Number: 7}}}
	for i := range count {
		a := netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i%250 + 1)})
		s.Ports = append(s.Ports, groupfilter.Port{Tap: fmt.Sprintf("tap%d", i), Bridge: "br1", Port: securitygroup.Port{
			ID: fmt.Sprint(i), MAC: fmt.Sprintf("fa:16:3e:01:%02x:%02x", i/250, i%250), Secured: true, Groups: []string{"g"},
			Addresses: []netip.Addr{a}}})
		g.Members = append(g.Members, netip.PrefixFrom(a, 32))
	}
	s.Groups["g"] = g
	return s
}

// TestThousandPorts applies 1000 ports, one port more, and one rule less, each within a time that a slow machine
// needs. The log has the times.
func TestThousandPorts(t *testing.T) {
	h := newHost(t)
	s, more := manyPorts(1000), manyPorts(1001)
	fewer := more
	g := more.Groups["g"]
	g.Rules = slices.Clone(g.Rules[:len(g.Rules)-1])
	fewer.Groups = map[string]securitygroup.Group{"g": g}
	for _, step := range []struct {
		name  string
		state groupfilter.State
	}{{"all", s}, {"again", s}, {"one port more", more}, {"one rule less", fewer}} {
		begin := time.Now()
		h.apply(step.state)
		took := time.Since(begin)
		t.Logf("%s: %v", step.name, took)
		if took > 5*time.Second {
			t.Errorf("%s: %v", step.name, took)
		}
	}
	h.filter = &Filter{Log: slog.New(slog.DiscardHandler)}
	begin := time.Now()
	h.apply(fewer)
	t.Logf("after a restart: %v", time.Since(begin))
}
