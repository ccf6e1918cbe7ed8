package securitygroup

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// The directions of rules, as the port sees them.
const (
	Ingress = "ingress" // to the port
	Egress  = "egress"  // from the port
)

// The ethertypes of rules.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
)

// Rule permits traffic. Texts that are empty and numbers that are nil mean any.
type Rule struct {
	ID           string
	Direction    string
	EtherType    string
	Protocol     string // a name, or a number as text
	Min, Max     *int   // destination ports; with ICMP the type and the code
	RemoteGroup  string // the addresses of the ports of this group
	RemotePrefix string // in CIDR notation
}

// Normalise returns a rule in the form in which it is stored: canonical names, the prefix without host bits. It returns
// a fault with the code of Neutron's error for a rule that is not valid.
func (r Rule) Normalise() (Rule, error) {
	for _, step := range []func(*Rule) error{(*Rule).setEtherType, (*Rule).setProtocol, (*Rule).checkPorts,
		(*Rule).setRemote} {
		if err := step(&r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func refuse(code, format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...).WithCode(code)
}

func (r *Rule) setEtherType() error {
	switch strings.ToLower(r.EtherType) {
	case "", "ipv4":
		r.EtherType = IPv4
	case "ipv6":
		r.EtherType = IPv6
	default:
		return refuse("SecurityGroupRuleInvalidEtherType", "Security group rule for ethertype '%s' not supported. Allowed "+
			"values are IPv4 and IPv6.", clip(r.EtherType))
	}
	return nil
}

// setProtocol makes names lower case. The names any and 0 mean any protocol, and icmp of IPv6 is ipv6-icmp.
func (r *Rule) setProtocol() error {
	r.Protocol = strings.ToLower(r.Protocol)
	if r.Protocol == "any" || r.Protocol == "" {
		r.Protocol = ""
		return nil
	}
	n, known := ProtocolNumber(r.Protocol)
	if !known {
		return refuse("SecurityGroupRuleInvalidProtocol", "Security group rule protocol %s not supported. Only protocol "+
			"values %s and numbers from 0 to 255 are supported.", clip(r.Protocol), strings.Join(protocolNames(), ", "))
	}
	if _, named := protocols[r.Protocol]; !named {
		r.Protocol = strconv.Itoa(n)
	}
	if n == 0 {
		r.Protocol = ""
		return nil
	}
	if r.EtherType == IPv6 && (r.Protocol == "icmp" || r.Protocol == "icmpv6") {
		r.Protocol = "ipv6-icmp"
	}
	if r.EtherType == IPv4 && (strings.HasPrefix(r.Protocol, "ipv6-") || r.Protocol == "icmpv6") {
		return refuse("SecurityGroupEthertypeConflictWithProtocol", "Invalid ethertype %s for protocol %s; use IPv6.",
			r.EtherType, r.Protocol)
	}
	return nil
}

// clip shortens a text of a request for an error.
func clip(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// number returns the number of the protocol; 0: any.
func (r Rule) number() int {
	n, _ := ProtocolNumber(r.Protocol)
	return n
}

func (r *Rule) checkPorts() error {
	if r.Min == nil && r.Max == nil {
		return nil
	}
	switch n := r.number(); {
	case r.Protocol == "":
		return refuse("SecurityGroupProtocolRequiredWithPorts", "Must also specify protocol if port range is given.")
	case hasPorts(n):
		return r.checkRange()
	case n == ICMP || n == ICMPv6:
		return r.checkICMP()
	}
	return refuse("SecurityGroupInvalidProtocolForPort", "Invalid protocol %s for port range, only supported for TCP, "+
		"UDP, UDPLITE, SCTP and DCCP.", r.Protocol)
}

func (r *Rule) checkRange() error {
	for _, port := range []*int{r.Min, r.Max} {
		if port != nil && (*port < 1 || *port > 65535) {
			return refuse("SecurityGroupInvalidPortValue", "Invalid value for port %d; it must be 1 to 65535", *port)
		}
	}
	if r.Min == nil || r.Max == nil || *r.Min > *r.Max {
		return refuse("SecurityGroupInvalidPortRange", "For TCP/UDP protocols, port_range_min must be <= port_range_max; "+
			"give both")
	}
	return nil
}

func (r *Rule) checkICMP() error {
	for _, field := range []struct {
		name, key string
		value     *int
	}{{"type", "port_range_min", r.Min}, {"code", "port_range_max", r.Max}} {
		if field.value != nil && (*field.value < 0 || *field.value > 255) {
			return refuse("SecurityGroupInvalidIcmpValue", "Invalid value for ICMP %s (%s) %d. It must be 0 to 255.",
				field.name, field.key, *field.value)
		}
	}
	if r.Min == nil {
		return refuse("SecurityGroupMissingIcmpType", "ICMP code (port-range-max) %d is provided but ICMP type "+
			"(port-range-min) is missing.", *r.Max)
	}
	return nil
}

func (r *Rule) setRemote() error {
	if r.RemotePrefix == "" {
		return nil
	}
	if r.RemoteGroup != "" {
		return refuse("SecurityGroupMultipleRemoteEntites", "Only remote_ip_prefix or remote_group_id may be provided.")
	}
	prefix, err := netip.ParsePrefix(r.RemotePrefix)
	if err != nil {
		address, err := netip.ParseAddr(r.RemotePrefix)
		if err != nil || address.Zone() != "" {
			return refuse("InvalidInput", "Invalid input for remote_ip_prefix. Reason: '%s' is not a network in CIDR "+
				"notation.", clip(r.RemotePrefix))
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return refuse("InvalidInput", "Invalid input for remote_ip_prefix. Reason: '%s' is an IPv4 address in IPv6; write "+
			"the IPv4 network.", clip(r.RemotePrefix))
	}
	if prefix.Addr().Is4() != (r.EtherType == IPv4) {
		return refuse("SecurityGroupRuleParameterConflict", "Conflicting value ethertype %s for CIDR %s", r.EtherType,
			prefix)
	}
	r.RemotePrefix = prefix.Masked().String()
	return nil
}

// Same reports whether two normalised rules permit the same traffic by the same words: a prefix that contains all
// addresses equals none, and a protocol its number.
func (r Rule) Same(o Rule) bool {
	return r.key() == o.key() && equal(r.Min, o.Min) && equal(r.Max, o.Max)
}

func (r Rule) key() [5]string {
	prefix := r.RemotePrefix
	if prefix == "0.0.0.0/0" || prefix == "::/0" {
		prefix = ""
	}
	return [5]string{r.Direction, r.EtherType, strconv.Itoa(r.number()), r.RemoteGroup, prefix}
}

func equal(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
