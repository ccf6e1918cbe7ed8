package securitygroup

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The numbers of protocols that rules treat in their own way.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	DCCP   = 33
	ICMPv6 = 58
	SCTP   = 132
	Lite   = 136 // UDP-Lite
)

// protocols are the names of protocols that the API accepts. Those of IPv6 begin with ipv6-.
var protocols = map[string]int{"ah": 51, "dccp": DCCP, "egp": 8, "esp": 50, "gre": 47, "icmp": ICMP, "icmpv6": ICMPv6,
	"igmp": 2, "ipip": 4, "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": ICMPv6, "ipv6-nonxt": 59, "ipv6-opts": 60,
	"ipv6-route": 43, "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": SCTP, "tcp": TCP, "udp": UDP, "udplite": Lite,
	"vrrp": 112}

// ProtocolNumber returns the number of a protocol that the API names by its name or number. known is false for other
// texts.
func ProtocolNumber(text string) (number int, known bool) {
	if number, known = protocols[strings.ToLower(text)]; known {
		return number, true
	}
	number, err := strconv.Atoi(text)
	return number, err == nil && number >= 0 && number <= 255
}

// protocolNames returns the names of protocols, sorted.
func protocolNames() []string { return slices.Sorted(maps.Keys(protocols)) }

// hasPorts reports whether the packets of a protocol have ports.
func hasPorts(protocol int) bool {
	return slices.Contains([]int{TCP, UDP, DCCP, SCTP, Lite}, protocol)
}
