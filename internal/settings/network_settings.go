package settings

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/policy"
)

// tunnelRanges are the options with the ranges of tunnel IDs, by network type.
var tunnelRanges = map[string]config.Name{
	"vxlan":  {Group: "ml2_type_vxlan", Option: "vni_ranges"},
	"geneve": {Group: "ml2_type_geneve", Option: "vni_ranges"},
	"gre":    {Group: "ml2_type_gre", Option: "tunnel_id_ranges"},
}

// quotaOptions are the default limits of a project, by resource.
var quotaOptions = map[string]int{"network": 100, "subnet": 100, "port": 500}

// knownNetwork lists the options of NetworkSettings.
func knownNetwork() []config.Name {
	names := []config.Name{{Group: "network_database", Option: "connection"},
		{Group: "ml2", Option: "tenant_network_types"},
		{Group: "ml2_type_flat", Option: "flat_networks"},
		{Group: "ml2_type_vlan", Option: "network_vlan_ranges"}, {Group: "DEFAULT", Option: "global_physnet_mtu"}}
	for _, name := range tunnelRanges {
		names = append(names, name)
	}
	for resource := range quotaOptions {
		names = append(names, config.Name{Group: "quotas", Option: "quota_" + resource})
	}
	return names
}

// readNetwork reads the options of the network service, after readCompute. The policy files of a Neutron on this
// machine apply only to callers that are authenticated.
func (s *Settings) readNetwork(cfg *config.Config, log *slog.Logger) (err error) {
	n := &s.Network
	if n.TenantTypes, err = cfg.Strings("ml2", "tenant_network_types", []string{"local"}); err != nil {
		return err
	}
	for _, kind := range n.TenantTypes {
		if e, _ := cfg.Get("ml2", "tenant_network_types"); !slices.Contains([]string{"local", "vlan", "vxlan", "geneve",
			"gre"}, kind) {
			return e.Fault("%q is not a type of tenant networks; write local, vlan, vxlan, geneve or gre, "+
				"separated by commas", kind)
		}
	}
	if n.Flat, err = cfg.Strings("ml2_type_flat", "flat_networks", []string{"*"}); err != nil {
		return err
	}
	if n.VLANs, err = readVLANs(cfg); err != nil {
		return err
	}
	n.Tunnels = map[string][][2]int{}
	for kind, name := range tunnelRanges {
		if n.Tunnels[kind], err = readRanges(cfg, name); err != nil {
			return err
		}
	}
	if n.MTU, err = cfg.Int("DEFAULT", "global_physnet_mtu", 1500, 68, 65535); err != nil {
		return err
	}
	n.Quotas = map[string]int{}
	for resource, usual := range quotaOptions {
		if n.Quotas[resource], err = cfg.Int("quotas", "quota_"+resource, usual, -1, 1<<30); err != nil {
			return err
		}
	}
	return s.readNetworkPolicy(cfg, log)
}

// readNetworkPolicy reads the policy files. What was reported about them for the other services is not reported again.
func (s *Settings) readNetworkPolicy(cfg *config.Config, log *slog.Logger) (err error) {
	if s.Placement.Policy == nil || s.Compute.Policy == nil { // their readers failed
		return nil
	}
	dirs := []string{}
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	if s.Network.Policy, s.Network.policyErr, err = s.loadPolicy(cfg, policies.Rules(), dirs, "/etc/neutron"); err != nil {
		return err
	}
	reported := slices.Concat(s.Placement.Policy.Warnings(), s.Compute.Policy.Warnings())
	for _, warning := range s.Network.Policy.Warnings() {
		if !slices.Contains(reported, warning) {
			log.Warn(warning)
		}
	}
	return nil
}

// loadPolicy reads the policy files in dirs, and for authenticated callers also those in the directory of OpenStack's
// service. If Berth's user may not read that directory, denied is the reason, and p lacks those files: only the service
// that uses the policy refuses to start then.
func (s *Settings) loadPolicy(cfg *config.Config, rules []policy.Rule, dirs []string, openstack string) (
	p *policy.Enforcer, denied, err error) {
	if s.Auth == "" || s.Auth == NoAuth2 {
		p, err = policy.Load(cfg, rules, policyNames(), dirs...)
		return p, nil, err
	}
	p, err = policy.Load(cfg, rules, policyNames(), append(slices.Clone(dirs), openstack)...)
	if errors.Is(err, fs.ErrPermission) {
		denied = err
		p, err = policy.Load(cfg, rules, policyNames(), dirs...)
	}
	return p, denied, err
}

// CheckPolicy returns why the policy for authenticated callers could not be read.
func (n NetworkSettings) CheckPolicy() error { return n.policyErr }

// readVLANs reads elements PHYSICAL_NETWORK or PHYSICAL_NETWORK:FIRST:LAST.
func readVLANs(cfg *config.Config) (list []VLANRange, err error) {
	elements, err := cfg.Strings("ml2_type_vlan", "network_vlan_ranges", nil)
	if err != nil {
		return nil, err
	}
	e, _ := cfg.Get("ml2_type_vlan", "network_vlan_ranges")
	for _, element := range elements {
		name, ids, hasIDs := strings.Cut(element, ":")
		v := VLANRange{PhysicalNetwork: name}
		var ok bool
		if hasIDs {
			v.First, v.Last, ok = parseRange(ids, 4094)
		}
		if name == "" || hasIDs && !ok {
			return nil, e.Fault("%q is not a range of VLANs; write NETWORK or NETWORK:FIRST:LAST, with VLANs "+
				"from 1 to 4094", element)
		}
		list = append(list, v)
	}
	return list, nil
}

// readRanges reads elements FIRST:LAST.
func readRanges(cfg *config.Config, name config.Name) (list [][2]int, err error) {
	elements, err := cfg.Strings(name.Group, name.Option, nil)
	e, _ := cfg.Get(name.Group, name.Option)
	for _, element := range elements {
		first, last, ok := parseRange(element, 1<<24-1)
		if !ok {
			return nil, e.Fault("%q is not a range of tunnel IDs; write FIRST:LAST, from 1 to %d", element,
				1<<24-1)
		}
		list = append(list, [2]int{first, last})
	}
	return list, err
}

// parseRange parses FIRST:LAST with numbers from 1 to most.
func parseRange(text string, most int) (first, last int, ok bool) {
	from, to, _ := strings.Cut(text, ":")
	first, err1 := strconv.Atoi(strings.TrimSpace(from))
	last, err2 := strconv.Atoi(strings.TrimSpace(to))
	return first, last, err1 == nil && err2 == nil && first >= 1 && last >= first && last <= most
}
