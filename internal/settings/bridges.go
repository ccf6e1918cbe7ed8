package settings

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// BridgeSettings are the networks that a host connects by Linux bridges.
type BridgeSettings struct {
	VXLAN      bool                // [vxlan] enable_vxlan
	TunnelIP   string              // [vxlan] local_ip; empty: no tunnels
	TunnelPort int                 // [vxlan] udp_dstport
	Bridges    []bandwidth.Mapping // [linux_bridge] bridge_mappings
	Interfaces []bandwidth.Mapping // [linux_bridge] physical_interface_mappings
}

// Configured reports whether the host connects networks by Linux bridges.
func (b BridgeSettings) Configured() bool {
	return b.TunnelIP != "" || len(b.Bridges)+len(b.Interfaces) > 0
}

// bridgeOptions are the rows of BridgeSettings, with the names of Neutron's Linux bridge agent.
func (s *Settings) bridgeOptions() config.Options {
	b := &s.LinuxBridges
	return config.Options{
		config.ParsedList("linux_bridge", "bridge_mappings", &b.Bridges, parseMappings),
		config.ParsedList("linux_bridge", "physical_interface_mappings", &b.Interfaces, parseMappings),
		config.Flag("vxlan", "enable_vxlan", &b.VXLAN, true),
		config.Text("vxlan", "local_ip", &b.TunnelIP, ""),
		config.Number("vxlan", "udp_dstport", &b.TunnelPort, 4789, 1, 65535),
	}
}

// parseMappings parses elements PHYSICAL_NETWORK:DEVICE, with one device for a network.
func parseMappings(list []string) ([]bandwidth.Mapping, error) {
	mappings, wrong := bandwidth.ParseMappings(list, true)
	return mappings, errors.Join(wrong...)
}

// checkBridges checks the options of Linux bridges together.
func (s *Settings) checkBridges(cfg *config.Config, _ *slog.Logger) error {
	b := &s.LinuxBridges
	if !b.VXLAN {
		b.TunnelIP = ""
	}
	if b.TunnelIP != "" {
		at, err := netip.ParseAddr(b.TunnelIP)
		wrong := err != nil || !at.Is4() || at.IsUnspecified() || at.IsMulticast()
		if e, set := cfg.Get("vxlan", "local_ip"); set && wrong {
			defer func() { b.TunnelIP = "" }()
			return e.Fault("%q is not an address of IPv4; write the address of this host that the other hosts reach",
				b.TunnelIP)
		}
		b.TunnelIP = at.String()
	}
	for _, i := range b.Interfaces {
		for _, o := range b.Bridges {
			if i.Physnet == o.Physnet {
				return fault.New(fault.Invalid, "[linux_bridge] physical_interface_mappings and bridge_mappings both have the "+
					"physical network %s; remove it from one of them", i.Physnet)
			}
		}
	}
	return nil
}
