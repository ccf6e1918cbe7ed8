package settings

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// tunnelRanges are the options with the ranges of tunnel IDs, by network type.
var tunnelRanges = map[string]config.Name{
	"vxlan":  {Group: "ml2_type_vxlan", Option: "vni_ranges"},
	"geneve": {Group: "ml2_type_geneve", Option: "vni_ranges"},
	"gre":    {Group: "ml2_type_gre", Option: "tunnel_id_ranges"},
}

// quotaOptions are the default limits of a project, by resource.
var quotaOptions = map[string]int{"network": 100, "subnet": 100, "port": 500, "security_group": 10,
	"security_group_rule": 100, "rbac_policy": 10, "subnetpool": -1}

// networkOptions are the rows of the options of the network service.
func (s *Settings) networkOptions() config.Options {
	n := &s.Network
	s.raw.tunnels, s.raw.quotas = map[string]*[][2]int{}, map[string]*int{}
	table := config.Options{
		config.List("ml2", "tenant_network_types", &n.TenantTypes, "local"),
		config.List("ml2_type_flat", "flat_networks", &n.Flat, "*"),
		config.ParsedList("ml2_type_vlan", "network_vlan_ranges", &n.VLANs, parseVLANs),
		config.Number("DEFAULT", "global_physnet_mtu", &n.MTU, 1500, 68, 65535),
		config.Text("DEFAULT", "dns_domain", &n.DNSDomain, "openstacklocal"),
	}
	for kind, name := range tunnelRanges {
		ranges := new([][2]int)
		s.raw.tunnels[kind] = ranges
		table = append(table, config.ParsedList(name.Group, name.Option, ranges, parseRanges))
	}
	for resource, usual := range quotaOptions {
		limit := new(int)
		s.raw.quotas[resource] = limit
		table = append(table, config.Number("quotas", "quota_"+resource, limit, usual, -1, 1<<30))
	}
	return table
}

// checkNetwork completes the options of the network service.
func (s *Settings) checkNetwork(cfg *config.Config, _ *slog.Logger) error {
	n := &s.Network
	if why := network.WhyNotDNS(strings.ToLower(strings.TrimSuffix(n.DNSDomain, "."))); why != "" {
		e, _ := cfg.Get("DEFAULT", "dns_domain")
		return e.Fault("%q is not a domain: %s; write for example cloud.example.org", n.DNSDomain, why)
	}
	if len(n.DNSDomain) > network.MaxDNSDomain {
		e, _ := cfg.Get("DEFAULT", "dns_domain")
		return e.Fault("the domain has more than %d characters, so that names of servers in it would be too long; write a "+
			"shorter one", network.MaxDNSDomain)
	}
	n.Tunnels, n.Quotas = map[string][][2]int{}, map[string]int{}
	for kind, ranges := range s.raw.tunnels {
		n.Tunnels[kind] = *ranges
	}
	for resource, limit := range s.raw.quotas {
		n.Quotas[resource] = *limit
	}
	for _, kind := range n.TenantTypes {
		if e, _ := cfg.Get("ml2", "tenant_network_types"); !slices.Contains([]string{"local", "vlan", "vxlan", "geneve",
			"gre"}, kind) {
			return e.Fault("%q is not a type of tenant networks; write local, vlan, vxlan, geneve or gre, "+
				"separated by commas", kind)
		}
	}
	return nil
}

// parseVLANs parses elements PHYSICAL_NETWORK or PHYSICAL_NETWORK:FIRST:LAST.
func parseVLANs(elements []string) (list []VLANRange, err error) {
	for _, element := range elements {
		name, ids, hasIDs := strings.Cut(element, ":")
		v := VLANRange{PhysicalNetwork: name}
		var ok bool
		if hasIDs {
			v.First, v.Last, ok = parseRange(ids, 4094)
		}
		if name == "" || hasIDs && !ok {
			return nil, fault.New(fault.Invalid, "%q is not a range of VLANs; write NETWORK or NETWORK:FIRST:LAST, with VLANs "+
				"from 1 to 4094", element)
		}
		list = append(list, v)
	}
	return list, nil
}

// parseRanges parses elements FIRST:LAST.
func parseRanges(elements []string) (list [][2]int, err error) {
	for _, element := range elements {
		first, last, ok := parseRange(element, 1<<24-1)
		if !ok {
			return nil, fault.New(fault.Invalid, "%q is not a range of tunnel IDs; write FIRST:LAST, from 1 to %d", element,
				1<<24-1)
		}
		list = append(list, [2]int{first, last})
	}
	return list, nil
}

// parseRange parses FIRST:LAST with numbers from 1 to most.
func parseRange(text string, most int) (first, last int, ok bool) {
	from, to, _ := strings.Cut(text, ":")
	first, err1 := strconv.Atoi(strings.TrimSpace(from))
	last, err2 := strconv.Atoi(strings.TrimSpace(to))
	return first, last, err1 == nil && err2 == nil && first >= 1 && last >= first && last <= most
}
