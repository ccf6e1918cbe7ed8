package app

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/openberth/berth/agent/bridgelink"
	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/agent/bridges"
	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/dnsmasq"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/metadata"
	"github.com/openberth/berth/agent/nftables"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/securitygroup"
)

// NetworksFile is the file of the agent's directory that has the networks which the host connects by Linux bridges.
const NetworksFile = "networks.json"

// ServersDir is the directory of the DHCP servers of a machine, with one directory for each host of it. It is gone
// after the machine has booted again, as the servers are.
const ServersDir = "/run/berth-networks"

// bridgeParts are what the networks of a host need beside the settings.
type bridgeParts struct {
	dir     string // of the agent
	network *api.Client
	guests  hypervisor.Hypervisor
	boot    libvirt.FirstBoot
	log     *slog.Logger
}

// openBridges completes the networking of an agent with the networks that its host connects by Linux bridges. Without
// their options, or without a network service, there are none; neither on a captured machine.
func openBridges(o *loop.Networking, s settings.Settings, parts bridgeParts) {
	b := s.LinuxBridges
	if !b.Configured() || parts.network == nil || s.Sysfs != "/sys" {
		return
	}
	host := bridgeplan.Host{TunnelIP: b.TunnelIP, TunnelPort: b.TunnelPort, Bridges: byNetwork(b.Bridges),
		Interfaces: byNetwork(b.Interfaces)}
	var made *bridges.Bridges
	guests := &recentGuests{from: parts.guests}
	served := metadata.New(func(ctx context.Context, network string, at netip.Addr) (configdrive.Server, error) {
		all, err := made.State()
		if err != nil {
			return configdrive.Server{}, err
		}
		return metadataOf(ctx, all.Ports, guests, parts.boot, network, at)
	}, parts.log)
	made = bridges.New(bridges.Options{Name: s.Host, File: filepath.Join(parts.dir, NetworksFile), Host: host,
		Source: parts.network, Kernel: bridgelink.Kernel{}, Metadata: served, Filter: &nftables.Filter{Log: parts.log},
		DHCP: dnsmasq.Servers{Dir: filepath.Join(ServersDir, s.Host)}, Log: parts.log})
	o.Bridges, o.BridgeAgent = made, bridgeHeartbeat(s)
}

// byNetwork returns the devices of mappings by physical network.
func byNetwork(mappings []bandwidth.Mapping) map[string]string {
	out := map[string]string{}
	for _, m := range mappings {
		out[m.Physnet] = m.Device
	}
	return out
}

// bridgeHeartbeat returns what the network service must receive about the Linux bridge agent of a host.
func bridgeHeartbeat(s settings.Settings) bandwidth.Heartbeat {
	b := s.LinuxBridges
	h := bandwidth.Heartbeat{Agent: bandwidth.LinuxBridge, Host: s.Host, Configurations: map[string]any{
		"bridge_mappings": byNetwork(b.Bridges), "interface_mappings": byNetwork(b.Interfaces), "tunnel_types": []string{}}}
	if b.TunnelIP != "" {
		h.Configurations["tunnel_types"], h.Configurations["tunneling_ip"] = []string{"vxlan"}, b.TunnelIP
	}
	for _, m := range slices.Concat(b.Bridges, b.Interfaces) {
		h.Devices = append(h.Devices, bandwidth.HeartbeatDevice{Name: m.Device, PhysicalNetworks: []string{m.Physnet}})
	}
	return h
}

// metadataOf returns what the documents of a guest say, which is known by its network and its address: the same as on
// its config drive. The owner of a port may have written the id of another server into it, so the port must also be one
// that compute has for the server.
func metadataOf(ctx context.Context, ports []api.HostPort, recent *recentGuests, boot libvirt.FirstBoot,
	network string, at netip.Addr) (out configdrive.Server, err error) {
	i := slices.IndexFunc(ports, func(p api.HostPort) bool { return p.Network == network && hasAddress(p, at) })
	if i < 0 || ports[i].Device == "" {
		return out, fault.New(fault.NotFound, "no guest of this host has the address %s in network %s", at, network)
	}
	server := ports[i].Device
	guests, err := recent.list(ctx)
	if err != nil {
		return out, err
	}
	g := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == server || g.Server == server })
	if g < 0 {
		return out, fault.New(fault.NotFound, "this host has no guest of server %s", server)
	}
	if out, err = boot(ctx, server); err != nil {
		return out, err
	}
	if !slices.ContainsFunc(out.Interfaces, func(one configdrive.Interface) bool { return one.Port == ports[i].ID }) {
		return configdrive.Server{}, fault.New(fault.NotFound, "port %s names server %s, which does not have it",
			ports[i].ID, server)
	}
	out.ID, out.Name = server, guests[g].Name
	for i, one := range out.Interfaces {
		for _, of := range guests[g].Interfaces {
			if of.Port == one.Port {
				out.Interfaces[i].MAC = of.MAC
			}
		}
	}
	return out, nil
}

// hasAddress reports whether an address is one of a port: a fixed one, or the link-local one of its MAC address.
func hasAddress(p api.HostPort, at netip.Addr) bool {
	if own, valid := securitygroup.LinkLocal(p.MAC); valid && own == at {
		return true
	}
	return slices.ContainsFunc(p.FixedIPs, func(ip api.FixedIP) bool {
		fixed, err := netip.ParseAddr(ip.Address)
		return err == nil && fixed == at
	})
}

// DescribeNetworks describes the networks that the agent with a directory connects by Linux bridges.
func DescribeNetworks(s settings.Settings, dir string) ([]bridges.Description, error) {
	present, err := bridgelink.Kernel{}.Links(nil)
	if err != nil {
		return nil, err
	}
	running, err := dnsmasq.Servers{Dir: filepath.Join(ServersDir, s.Host)}.List()
	if err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for _, one := range running {
		pids[one.Network] = one.PID
	}
	return bridges.Describe(filepath.Join(dir, NetworksFile), present, pids)
}

// NetworkRules returns the rules of nftables that an agent of this machine has made for its networks.
func NetworkRules(ctx context.Context) (string, error) { return bridgelink.Kernel{}.Rules(ctx) }
