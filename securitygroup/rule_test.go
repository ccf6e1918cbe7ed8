package securitygroup

import (
	"testing"

	"github.com/openberth/berth/fault"
)

// number returns a pointer to a number.
func number(n int) *int { return &n }

// TestNormalise has rules as clients send them, and how they are stored or the code of the refusal.
func TestNormalise(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		want Rule
		code string
	}{
		{"nothing", Rule{}, Rule{EtherType: IPv4}, ""},
		{"case", Rule{EtherType: "ipv6", Protocol: "TCP"}, Rule{EtherType: IPv6, Protocol: "tcp"}, ""},
		{"any", Rule{Protocol: "any"}, Rule{EtherType: IPv4}, ""},
		{"zero is any", Rule{Protocol: "0"}, Rule{EtherType: IPv4}, ""},
		{"number", Rule{Protocol: "06"}, Rule{EtherType: IPv4, Protocol: "6"}, ""},
		{"icmp of IPv6", Rule{EtherType: IPv6, Protocol: "icmp"}, Rule{EtherType: IPv6, Protocol: "ipv6-icmp"}, ""},
		{"host bits", Rule{RemotePrefix: "10.1.2.3/8"}, Rule{EtherType: IPv4, RemotePrefix: "10.0.0.0/8"}, ""},
		{"address", Rule{RemotePrefix: "10.1.2.3"}, Rule{EtherType: IPv4, RemotePrefix: "10.1.2.3/32"}, ""},
		{"other ethertype", Rule{EtherType: "ARP"}, Rule{}, "SecurityGroupRuleInvalidEtherType"},
		{"unknown protocol", Rule{Protocol: "tcpp"}, Rule{}, "SecurityGroupRuleInvalidProtocol"},
		{"large protocol", Rule{Protocol: "256"}, Rule{}, "SecurityGroupRuleInvalidProtocol"},
		{"negative protocol", Rule{Protocol: "-1"}, Rule{}, "SecurityGroupRuleInvalidProtocol"},
		{"icmpv6 in IPv4", Rule{Protocol: "icmpv6"}, Rule{}, "SecurityGroupEthertypeConflictWithProtocol"},
		{"ports of nothing", Rule{Min: number(1), Max: number(2)}, Rule{}, "SecurityGroupProtocolRequiredWithPorts"},
		{"ports of gre", Rule{Protocol: "gre", Min: number(1), Max: number(2)}, Rule{},
			"SecurityGroupInvalidProtocolForPort"},
		{"port 0", Rule{Protocol: "tcp", Min: number(0), Max: number(2)}, Rule{}, "SecurityGroupInvalidPortValue"},
		{"port 65536", Rule{Protocol: "17", Min: number(1), Max: number(65536)}, Rule{}, "SecurityGroupInvalidPortValue"},
		{"reversed", Rule{Protocol: "tcp", Min: number(2), Max: number(1)}, Rule{}, "SecurityGroupInvalidPortRange"},
		{"half", Rule{Protocol: "tcp", Min: number(2)}, Rule{}, "SecurityGroupInvalidPortRange"},
		{"type 256", Rule{Protocol: "icmp", Min: number(256)}, Rule{}, "SecurityGroupInvalidIcmpValue"},
		{"code without type", Rule{Protocol: "1", Max: number(2)}, Rule{}, "SecurityGroupMissingIcmpType"},
		{"two remotes", Rule{RemoteGroup: "g", RemotePrefix: "10.0.0.0/8"}, Rule{}, "SecurityGroupMultipleRemoteEntites"},
		{"no network", Rule{RemotePrefix: "10.0.0.0/33"}, Rule{}, "InvalidInput"},
		{"a zone", Rule{EtherType: IPv6, RemotePrefix: "fe80::1%eth0"}, Rule{}, "InvalidInput"},
		{"mapped", Rule{EtherType: IPv6, RemotePrefix: "::ffff:10.0.0.0/104"}, Rule{}, "InvalidInput"},
		{"family", Rule{RemotePrefix: "::/0"}, Rule{}, "SecurityGroupRuleParameterConflict"},
	} {
		got, err := c.rule.Normalise()
		if fault.CodeOf(err) != c.code || c.code == "" && got != c.want {
			t.Errorf("%s: %+v %v", c.name, got, err)
		}
	}
}

// TestSame: a rule that all addresses match equals one without a prefix; the direction and the ports count.
func TestSame(t *testing.T) {
	a := Rule{Direction: Ingress, EtherType: IPv4, Protocol: "tcp", Min: number(1), Max: number(2)}
	b := a
	b.Protocol, b.RemotePrefix, b.Min = "6", "0.0.0.0/0", number(1)
	if !a.Same(b) {
		t.Error("equal rules differ")
	}
	for _, change := range []func(*Rule){func(r *Rule) { r.Direction = Egress }, func(r *Rule) { r.Max = number(3) },
		func(r *Rule) { r.Min = nil }, func(r *Rule) { r.RemoteGroup = "g" },
		func(r *Rule) { r.RemotePrefix = "10.0.0.0/8" }} {
		other := a
		change(&other)
		if a.Same(other) || other.Same(a) {
			t.Errorf("%+v equals %+v", a, other)
		}
	}
}
