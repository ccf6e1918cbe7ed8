package groupfilter

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/securitygroup"
)

// Port is a port of a guest of the host.
type Port struct {
	securitygroup.Port
	Tap    string // the interface of the guest in the bridge
	Bridge string
}

// State is what the tables depend on. Zones has the zone of each bridge; the connections of other bridges are in the
// zone of the host.
type State struct {
	Ports  []Port
	Groups map[string]securitygroup.Group
	Zones  map[string]Zone
}

// Zone is where the kernel tracks the connections of a bridge, so that those of two networks with equal addresses do
// not mix. If the host has addresses in the network, the connections that it routes, or that it is an end of, are in
// the zone of the host, 0, because NAT needs that: only connections between two addresses of Inside, neither of them of
// Host, are in the zone of the bridge. Without Host all are.
//
// The host may send to guests by an interface of its own, the other end of which is in the bridge, and receive from
// them by the bridge. What it routes there is decided before it enters the bridge, where its connection is not known.
type Zone struct {
	Number int // from 1 to 65535
	Inside []netip.Prefix
	Host   []netip.Addr
	Own    string // the interface of the host; empty: none
	Routed bool   // the host routes the network by it
}

// The marks. Those of packets name the state of a decision, and are removed before a packet leaves the bridge.
const (
	passed    = "0x42455254" // a decision has let the packet pass
	profiles  = 0x42000000   // or'ed with the number of a profile: a decision is to be made
	denied    = 0x43000000   // or'ed with that number: its rules do not permit what the host sends
	profileID = 0x00ffffff

	// Blocked is the bit in the mark of a connection that the rules permit no more: its packets are dropped.
	Blocked = 0x40000000
)

const pass = "meta mark set " + passed + " accept"

// profile is a list of groups that ports have, with the chains of their rules.
type profile struct {
	name      string // of its chains, after the prefix
	mark      string
	denied    string // the mark of what it does not permit
	groups    []string
	stateless bool
}

// Render returns the tables for a state. Equal states have equal tables, whatever was before.
func Render(s State) Ruleset {
	r := Ruleset{newTable(), newTable()}
	r.frame()
	all := profilesOf(s)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		r.addProfile(all[key])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
		r.addGroup(s, s.Groups[id])
	}
	ports := slices.SortedFunc(slices.Values(s.Ports), func(a, b Port) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range ports {
		if p.Secured {
			r.addPort(p, all[key(p.Groups)], s.sides(p.Bridge))
		}
	}
	for _, bridge := range slices.Sorted(maps.Keys(s.Zones)) {
		r.addZone(bridge, s.Zones[bridge])
	}
	return r
}

// addZone adds the rules that set the zone of the connections of a bridge.
func (r Ruleset) addZone(bridge string, z Zone) {
	add := func(format string, args ...any) {
		r.inet.chains["zone"] = append(r.inet.chains["zone"], fmt.Sprintf("iifname %q ", bridge)+fmt.Sprintf(format, args...))
	}
	if len(z.Host) == 0 {
		add("ct zone set %d", z.Number)
	}
	for _, a := range z.Host {
		add("%[1]s saddr %[2]s return", word(a), a)
		add("%[1]s daddr %[2]s return", word(a), a)
	}
	if z.Routed {
		add("meta mark %s notrack", passed)
	}
	for _, from := range z.Inside {
		for _, to := range z.Inside {
			if len(z.Host) > 0 && from.Addr().Is4() == to.Addr().Is4() {
				add("%[1]s saddr %[2]s %[1]s daddr %[3]s ct zone set %[4]d", word(to.Addr()), from, to, z.Number)
			}
		}
	}
}

// word returns nft's word for the family of an address.
func word(a netip.Addr) string {
	if a.Is6() {
		return "ip6"
	}
	return "ip"
}

// key returns a list of groups as a text, whatever its order.
func key(groups []string) string {
	return strings.Join(slices.Sorted(slices.Values(groups)), " ")
}

// profilesOf returns the profiles of the ports by their keys. The number of a profile comes from its groups alone, so
// that it stays the same in each state without a collision.
func profilesOf(s State) map[string]profile {
	all, used := map[string]profile{}, map[uint32]bool{}
	keys := map[string][]string{}
	for _, p := range s.Ports {
		if p.Secured {
			keys[key(p.Groups)] = slices.Sorted(slices.Values(p.Groups))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		sum := sha256.Sum256([]byte(k))
		id := binary.BigEndian.Uint32(sum[:4]) & profileID
		for used[id] || profiles|id == 0x42455254 {
			id = (id + 1) & profileID
		}
		used[id] = true
		stateless := len(keys[k]) > 0 && !slices.ContainsFunc(keys[k], func(g string) bool { return !s.Groups[g].Stateless })
		all[k] = profile{hex.EncodeToString(sum[:8]), fmt.Sprintf("0x%08x", profiles|id), fmt.Sprintf("0x%08x", denied|id),
			keys[k], stateless}
	}
	return all
}

// frame adds what does not depend on ports.
func (r Ruleset) frame() {
	for name, definition := range map[string]string{"ports": "type ifname;", "macs": "type ifname . ether_addr;",
		"sources4": "type ifname . ether_addr . ipv4_addr;", "sources6": "type ifname . ether_addr . ipv6_addr;",
		"clients": "typeof iifname . @th,288,48;",
	} {
		r.bridge.sets[name] = &set{definition: definition, elements: map[string]string{}}
	}
	r.bridge.sets["denied"] = &set{definition: "type ifname . mark;", elements: map[string]string{}}
	r.bridge.sets["neighbours"] = &set{definition: "type ifname : verdict;", isMap: true, elements: map[string]string{}}
	r.bridge.sets["marks"] = &set{definition: "type ifname : mark;", isMap: true, elements: map[string]string{}}
	for name, definition := range map[string]string{"from": "type mark : verdict;", "to": "type mark : verdict;",
		"local4": "type ifname . ipv4_addr : verdict;", "local6": "type ifname . ipv6_addr : verdict;"} {
		r.inet.sets[name] = &set{definition: definition, isMap: true, elements: map[string]string{}}
	}
	for _, c := range bridgeChains() {
		r.bridge.chains[c.name], r.bridge.hooks[c.name] = slices.Clone(c.rules), c.hook
	}
	for _, c := range inetChains() {
		r.inet.chains[c.name], r.inet.hooks[c.name] = slices.Clone(c.rules), c.hook
	}
}

// addProfile adds the chains of a profile.
func (r Ruleset) addProfile(p profile) {
	for _, d := range []struct{ prefix, basics, lookup, group string }{{"from-", "basics_from", "from", "out-"},
		{"to-", "basics_to", "to", "in-"}} {
		chain := d.prefix + p.name
		rules := []string{"jump " + d.basics}
		if !p.stateless {
			rules = append(rules, "jump connections")
		}
		for _, g := range p.groups {
			rules = append(rules, "jump "+d.group+g)
			if _, has := r.inet.chains[d.group+g]; !has {
				r.inet.chains[d.group+g] = nil // a group whose rules are not known permits nothing
			}
		}
		r.inet.chains[chain] = append(slices.Clone(rules), "drop")
		if d.lookup == "to" {
			r.inet.chains["try-"+p.name] = append(rules, "meta mark set "+p.denied)
		}
		r.inet.sets[d.lookup].elements[p.mark] = "goto " + chain
	}
}

// sides returns the interfaces by which the host sends to the guests in a bridge.
func (s State) sides(bridge string) []string {
	if own := s.Zones[bridge].Own; own != "" {
		return []string{bridge, own}
	}
	return []string{bridge}
}

// addPort adds the elements of a port. sides are the interfaces by which the host sends to it.
func (r Ruleset) addPort(p Port, of profile, sides []string) {
	tap := strconv.Quote(p.Tap)
	r.bridge.sets["ports"].elements[tap] = ""
	r.bridge.sets["marks"].elements[tap] = of.mark
	r.bridge.sets["denied"].elements[tap+" . "+of.denied] = ""
	for _, s := range p.Sources() {
		r.bridge.sets["macs"].elements[tap+" . "+s.MAC] = ""
		r.bridge.sets["clients"].elements[tap+" . 0x"+strings.ReplaceAll(s.MAC, ":", "")] = ""
		address := s.Address.Addr()
		if address.Is6() {
			r.addTarget(p, s.Address)
		}
		local, family := "local4", "4"
		if address.Is6() {
			local, family = "local6", "6"
		}
		if !s.Address.IsSingleIP() {
			r.addNetwork(p, s, of, family, sides)
			continue
		}
		r.bridge.sets["sources"+family].elements[fmt.Sprintf("%s . %s . %s", tap, s.MAC, address)] = ""
		for _, side := range sides {
			at := fmt.Sprintf("%q . %s", side, address)
			if _, has := r.inet.sets[local].elements[at]; !has || slices.Contains(p.Addresses, address) {
				r.inet.sets[local].elements[at] = "goto try-" + of.name
			}
		}
	}
}

// addNetwork adds the rules for an address pair that is a network: sets without intervals have no networks.
func (r Ruleset) addNetwork(p Port, s securitygroup.Pair, of profile, family string, sides []string) {
	from := fmt.Sprintf("iifname %q ether saddr %s", p.Tap, s.MAC)
	word := word(s.Address.Addr())
	if family == "4" {
		r.bridge.chains["arp_networks"] = append(r.bridge.chains["arp_networks"], fmt.Sprintf(
			"iifname %q arp saddr ether %s arp saddr ip %s accept", p.Tap, s.MAC, s.Address))
	}
	r.bridge.chains["networks"+family] = append(r.bridge.chains["networks"+family],
		fmt.Sprintf("%s %s saddr %s accept", from, word, s.Address))
	for _, side := range sides {
		r.inet.chains["local_networks"] = append(r.inet.chains["local_networks"],
			fmt.Sprintf("oifname %q %s daddr %s goto try-%s", side, word, s.Address, of.name))
	}
}

// addTarget adds the rule for the addresses of IPv6 that a port may advertise as its own: the target of a neighbour
// advertisement, which nft 1.0.6 knows only as bytes at an offset.
func (r Ruleset) addTarget(p Port, of netip.Prefix) {
	chain := "neighbour-" + p.Tap
	rules := slices.DeleteFunc(r.bridge.chains[chain], func(rule string) bool { return rule == "drop" })
	r.bridge.chains[chain] = append(rules, "@th,64,128 "+hexRange(of)+" return", "drop")
	r.bridge.sets["neighbours"].elements[strconv.Quote(p.Tap)] = "goto " + chain
}

// hexRange returns a network of IPv6 as a range of numbers.
func hexRange(p netip.Prefix) string {
	first := p.Masked().Addr().As16()
	last := first
	for bit := p.Bits(); bit < 128; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	if first == last {
		return fmt.Sprintf("0x%x", first)
	}
	return fmt.Sprintf("0x%x-0x%x", first, last)
}

// addGroup adds the chains of a group, and the sets of the members of its remote groups.
func (r Ruleset) addGroup(s State, g securitygroup.Group) {
	in, out := "in-"+g.ID, "out-"+g.ID
	_, from := r.inet.chains[in]
	if !from {
		return // no port has it
	}
	for _, rule := range g.Rules {
		chain := in
		if rule.Direction == securitygroup.Egress {
			chain = out
		}
		r.inet.chains[chain] = append(r.inet.chains[chain], r.rule(s, rule)+" "+pass)
	}
}

// rule returns the conditions of a rule in nft's syntax.
func (r Ruleset) rule(s State, rule securitygroup.Rule) string {
	word, family := "ip", "4"
	parts := []string{"meta nfproto ipv4"}
	if rule.EtherType == securitygroup.IPv6 {
		word, family, parts = "ip6", "6", []string{"meta nfproto ipv6"}
	}
	side := "saddr"
	if rule.Direction == securitygroup.Egress {
		side = "daddr"
	}
	switch {
	case rule.RemoteGroup != "":
		parts = append(parts, fmt.Sprintf("%s %s @%s", word, side, r.members(s, rule.RemoteGroup, family)))
	case rule.RemotePrefix != "":
		parts = append(parts, fmt.Sprintf("%s %s %s", word, side, rule.RemotePrefix))
	}
	n, _ := securitygroup.ProtocolNumber(rule.Protocol)
	if n != 0 {
		parts = append(parts, fmt.Sprintf("meta l4proto %d", n))
	}
	switch {
	case rule.Min == nil:
	case n == securitygroup.ICMP || n == securitygroup.ICMPv6:
		name := "icmp"
		if n == securitygroup.ICMPv6 {
			name = "icmpv6"
		}
		parts = append(parts, fmt.Sprintf("%s type %d", name, *rule.Min))
		if rule.Max != nil {
			parts = append(parts, fmt.Sprintf("%s code %d", name, *rule.Max))
		}
	default:
		parts = append(parts, fmt.Sprintf("th dport %d-%d", *rule.Min, *rule.Max))
	}
	return strings.Join(parts, " ")
}

// members adds the set of the members of a group for one family, and returns its name.
func (r Ruleset) members(s State, group, family string) string {
	name := "members" + family + "-" + group
	if r.inet.sets[name] != nil {
		return name
	}
	one := &set{definition: "type ipv" + family + "_addr; flags interval;", elements: map[string]string{}}
	for _, p := range outermost(s.Groups[group].Members) {
		if p.Addr().Is4() == (family == "4") {
			text := p.String()
			if p.IsSingleIP() {
				text = p.Addr().String()
			}
			one.elements[text] = ""
		}
	}
	r.inet.sets[name] = one
	return name
}

// outermost returns networks without those that another one contains, which a set with intervals refuses.
func outermost(all []netip.Prefix) (list []netip.Prefix) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b netip.Prefix) int {
		return cmp.Or(a.Masked().Addr().Compare(b.Masked().Addr()), a.Bits()-b.Bits())
	})
	for _, p := range sorted {
		p = p.Masked()
		if n := len(list); n == 0 || !list[n-1].Contains(p.Addr()) {
			list = append(list, p)
		}
	}
	return list
}
