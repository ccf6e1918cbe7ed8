package nftables

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/fault"
)

// bridgeSettings is where the kernel has the settings of br_netfilter.
const bridgeSettings = "/proc/sys/net/bridge/"

// bridge is a bridge of the host.
type bridge struct {
	Name      string `json:"ifname"`
	Addresses []struct {
		Local netip.Addr `json:"local"`
	} `json:"addr_info"`
	Info struct {
		Data struct {
			Four int `json:"nf_call_iptables"`
			Six  int `json:"nf_call_ip6tables"`
		} `json:"info_data"`
	} `json:"linkinfo"`
}

// bridges returns the bridges of the host.
func bridges(ctx context.Context) (all []bridge, err error) {
	out, err := runProgram(ctx, "ip", "", "-json", "-details", "address", "show", "type", "bridge")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fault.New(fault.Internal, "bridges are not read: the output of ip is not JSON: %w; install iproute2", err)
	}
	return all, nil
}

// serveBridges makes br_netfilter pass the frames of the bridges of ports to the chains of family inet: only of these
// bridges, by an option of each. It loads the module if that is missing, and then disables it for other bridges, which
// it would serve by default. It adds the addresses that the host has in the bridges to the zones of the state.
func (f *Filter) serveBridges(ctx context.Context, s *groupfilter.State) error {
	wanted := map[string]bool{}
	for _, p := range s.Ports {
		if p.Secured {
			wanted[p.Bridge] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	if err := f.loadModule(ctx); err != nil {
		return err
	}
	all, err := bridges(ctx)
	if err != nil {
		return err
	}
	s.Zones = maps.Clone(s.Zones)
	for _, b := range all {
		if zone, has := s.Zones[b.Name]; has {
			s.Zones[b.Name] = withHost(zone, b)
		}
		if !wanted[b.Name] || b.Info.Data.Four == 1 && b.Info.Data.Six == 1 {
			continue
		}
		if _, err := runProgram(ctx, "ip", "", "link", "set", "dev", b.Name, "type", "bridge", "nf_call_iptables", "1",
			"nf_call_ip6tables", "1"); err != nil {
			return err
		}
		f.Log.Info("bridge filtered by security groups", "bridge", b.Name, "nf_call_iptables", 1, "nf_call_ip6tables", 1)
	}
	return nil
}

// withHost returns a zone with the addresses that the host has in the bridge: an operator may have given it some.
func withHost(zone groupfilter.Zone, b bridge) groupfilter.Zone {
	zone.Host = slices.Clone(zone.Host)
	for _, a := range b.Addresses {
		if a.Local.IsValid() && !a.Local.IsLinkLocalUnicast() && !slices.Contains(zone.Host, a.Local) {
			zone.Host = append(zone.Host, a.Local)
		}
	}
	slices.SortFunc(zone.Host, netip.Addr.Compare)
	return zone
}

// loadModule loads the module br_netfilter if the kernel does not have it yet.
func (f *Filter) loadModule(ctx context.Context) error {
	if _, err := os.Stat(bridgeSettings); err == nil {
		return nil
	}
	if _, err := runProgram(ctx, "modprobe", "", "br_netfilter"); err != nil {
		return err
	}
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"} {
		if err := os.WriteFile(bridgeSettings+name, []byte("0\n"), 0o600); err != nil {
			return fault.New(fault.Unavailable, "br_netfilter serves all bridges: %w; set net.bridge.%s to 0", err, name)
		}
	}
	f.Log.Info("module br_netfilter loaded, for bridges of ports only")
	return nil
}
