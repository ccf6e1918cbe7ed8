package groupfilter

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/securitygroup"
)

// chain is a chain of the frame; hook is empty for one that others jump to.
type chain struct {
	name, hook string
	rules      []string
}

// numbers returns a list of numbers in nft's syntax.
func numbers(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

const isIP = "ether type { ip, ip6 } "

// bridgeChains check the sources of frames, set the marks, and drop frames that no decision has let pass. The
// priorities are before and after those of br_netfilter, which are 0.
func bridgeChains() []chain {
	unset := "meta mark != " + passed + " drop"
	return []chain{
		{"prerouting", "prerouting priority -310", []string{"iifname @ports jump source"}},
		{"source", "", []string{
			"iifname . ether saddr != @macs drop",
			"ether type arp goto source_arp",
			"meta mark set iifname map @marks",
			"ether type ip goto source4",
			"ether type ip6 goto source6",
			"drop", // frames with a VLAN tag too, which br_netfilter does not pass on
		}},
		{"source_arp", "", []string{
			"iifname . arp saddr ether . arp saddr ip @sources4 accept",
			"iifname . arp saddr ether @macs arp saddr ip 0.0.0.0 accept", // a probe
			"jump arp_networks",
			"drop",
		}},
		{"source4", "", []string{
			"udp sport 68 udp dport 67 jump dhcp_client",
			"iifname . ether saddr . ip saddr @sources4 accept",
			"ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
			"jump networks4",
			"drop",
		}},
		// A DHCP server goes by the client's MAC address in the message (chaddr, at byte 28 of it), not by the source: a
		// guest could give back or decline the address of another one. A message without it matches no rule, and a fragment
		// neither.
		{"dhcp_client", "", []string{"iifname . @th,288,48 @clients return", "drop"}},
		{"source6", "", []string{
			"icmpv6 type 136 jump advertised",
			"iifname . ether saddr . ip6 saddr @sources6 accept",
			"ip6 saddr :: icmpv6 type " + numbers(securitygroup.Discovery(true)) + " accept",
			"jump networks6",
			"drop",
		}},
		{"advertised", "", []string{"iifname vmap @neighbours"}},
		{"arp_networks", "", nil}, {"networks4", "", nil}, {"networks6", "", nil},
		{"forward", "forward priority -10", []string{
			"iifname @ports " + isIP + unset,
			"iifname != @ports meta mark " + passed + " accept", // of the host, decided by postrouting
			"oifname @ports jump destination",
		}},
		{"destination", "", []string{
			"ether type arp accept",
			isIP + "meta mark set oifname map @marks accept",
			"drop",
		}},
		{"input", "input priority -10", []string{"iifname @ports jump received"}},
		{"received", "", []string{isIP + unset, "meta mark set 0"}},
		{"output", "output priority -10", []string{"oifname . meta mark @denied drop",
			"oifname @ports meta mark set " + passed}},
		{"postrouting", "postrouting priority 10", []string{"oifname @ports " + isIP + unset}},
	}
}

// inetChains decide. Those of a profile and of a group are added to them.
func inetChains() []chain {
	discovery := func(egress bool) string {
		return "icmpv6 type " + numbers(securitygroup.Discovery(egress)) + " " + pass
	}
	return []chain{
		{"zone", "prerouting priority -300", nil},
		{"prerouting", "prerouting priority -150", []string{"meta mark vmap @from"}},
		{"forward", "forward priority -10", []string{"meta mark vmap @to"}},
		{"postrouting", "postrouting priority 50", []string{
			"meta mark " + passed + " meta mark set 0 accept",
			"oifname . ip daddr vmap @local4",
			"oifname . ip6 daddr vmap @local6",
			"jump local_networks",
		}},
		{"local_networks", "", nil},
		{"basics_from", "", []string{
			"meta nfproto ipv4 udp sport 67 udp dport 68 drop",
			"meta nfproto ipv6 udp sport 547 udp dport 546 drop",
			"icmpv6 type " + numbers(securitygroup.Forbidden()) + " drop",
			"meta nfproto ipv4 udp sport 68 udp dport 67 " + pass,
			"meta nfproto ipv6 udp sport 546 udp dport 547 " + pass,
			discovery(true),
		}},
		{"basics_to", "", []string{
			"meta nfproto ipv4 udp sport 67 udp dport 68 " + pass,
			"meta nfproto ipv6 udp sport 547 udp dport 546 " + pass,
			discovery(false),
		}},
		{"connections", "", []string{
			fmt.Sprintf("ct mark & 0x%08x != 0 drop", Blocked),
			"ct state established,related " + pass,
			"ct state invalid drop",
		}},
	}
}
