package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
)

// NetworkCommands are the client commands on networks.
type NetworkCommands struct {
	Create createOfKind[networkKind, networkFlags] `cmd:"" help:"Create a network."`
	List   NetworkListCmd                          `cmd:"" help:"List networks."`
	Show   showOfKind[networkKind]                 `cmd:"" help:"Show a network."`
	Set    setOfKind[networkKind, networkChanges]  `cmd:"" help:"Change a network."`
	Delete deleteOfKind[networkKind]               `cmd:"" help:"Delete networks."`
}

// PortCmd groups the commands on ports.
type PortCmd struct {
	Create  createOfKind[portKind, portFlags] `cmd:"" help:"Create a port."`
	List    PortListCmd                       `cmd:"" help:"List ports with their servers, hosts and guarantees."`
	Show    showOfKind[portKind]              `cmd:"" help:"Show a port."`
	Explain PortExplainCmd                    `cmd:"" help:"Explain whether the security groups of a port let a packet pass."`
	Set     setOfKind[portKind, portChanges]  `cmd:"" help:"Change a port."`
	Delete  deleteOfKind[portKind]            `cmd:"" help:"Delete ports."`
}

// NetworkListCmd lists networks.
type NetworkListCmd struct{ LongOutput }

// Run prints the networks.
func (c *NetworkListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.networks()
	list, err := client.Networks(ctx, nil)
	if err != nil {
		return err
	}
	subnets, err := client.Subnets(ctx, nil)
	if err != nil {
		return err
	}
	policies, err := policyNames(ctx, client)
	if err != nil {
		return err
	}
	cidrs := map[string][]string{}
	for _, s := range subnets {
		cidrs[s.Network] = append(cidrs[s.Network], s.CIDR)
	}
	return printList(g, list, "Name", c.Long, []column[network.Network]{
		{name: "ID", long: true, text: func(n network.Network) string { return n.ID }},
		{name: "Name", text: func(n network.Network) string { return cmp.Or(n.Name, n.ID) }},
		{name: "Type", text: func(n network.Network) string { return dash(n.NetworkType) }},
		{name: "Physical network", text: func(n network.Network) string { return dash(n.PhysicalNetwork) }},
		{name: "Segment", text: func(n network.Network) string { return numberOrDash(n.SegmentationID) }},
		{name: "Subnets", text: func(n network.Network) string {
			return dash(strings.Join(slices.Sorted(slices.Values(cidrs[n.ID])), ", "))
		}},
		{name: "Policy", text: func(n network.Network) string { return dash(cmp.Or(policies[n.Policy], n.Policy)) }},
		{name: "MTU", long: true, text: func(n network.Network) string { return fmt.Sprint(n.MTU) }},
		{name: "Shared", long: true, text: func(n network.Network) string { return yes(n.Shared) }},
		{name: "Project", long: true, text: func(n network.Network) string { return n.Project }},
	})
}

func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// PortListCmd lists ports.
type PortListCmd struct {
	Host   string `help:"Only ports that are bound to this host." placeholder:"HOST"`
	Server string `help:"Only ports of the server with this name or id." placeholder:"SERVER"`
	LongOutput
}

// Run prints the ports.
func (c *PortListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client, query := g.networks(), url.Values{}
	if err := knownHost(ctx, g, c.Host); err != nil {
		return err
	}
	if c.Host != "" {
		query.Set("binding:host_id", c.Host)
	}
	if c.Server != "" {
		server, err := g.compute().Server(ctx, c.Server)
		if err != nil {
			return err
		}
		query.Set("device_id", server.ID)
	}
	list, err := client.Ports(ctx, query)
	if err != nil {
		return err
	}
	networks, err := client.Networks(ctx, nil)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, n := range networks {
		names[n.ID] = n.Name
	}
	policies, err := policyNames(ctx, client)
	if err != nil {
		return err
	}
	maps.Copy(names, policies)
	servers := map[string]string{}
	if !c.Long && g.Output != "json" {
		servers = g.serverNames(ctx, list)
	}
	return printList(g, list, "Name", c.Long, portColumns(names, servers))
}

// portColumns returns the columns of ports. names are those of networks and policies.
func portColumns(names, servers map[string]string) []column[network.Port] {
	policyOf := func(p network.Port) string { return cmp.Or(p.Policy, p.NetworkPolicy) }
	return []column[network.Port]{
		{name: "ID", long: true, text: func(p network.Port) string { return p.ID }},
		{name: "Name", text: func(p network.Port) string { return cmp.Or(p.Name, p.ID) }},
		{name: "Network", text: func(p network.Port) string { return cmp.Or(names[p.Network], p.Network) }},
		{name: "Addresses", text: func(p network.Port) string {
			var addresses []string
			for _, ip := range p.FixedIPs {
				addresses = append(addresses, ip.Address)
			}
			return dash(strings.Join(addresses, ", "))
		}},
		{name: "Status", text: func(p network.Port) string { return p.Status }},
		{name: "Server", text: func(p network.Port) string { return dash(cmp.Or(servers[p.Device], p.Device)) }},
		{name: "Host", text: func(p network.Port) string { return dash(p.Host) }},
		{name: "Policy", text: func(p network.Port) string { return dash(cmp.Or(names[policyOf(p)], policyOf(p))) }},
		{name: "Guarantee", text: func(p network.Port) string { return dash(guarantee(p)) }},
		{name: "MAC", long: true, text: func(p network.Port) string { return p.MAC }},
		{name: "VNIC type", long: true, text: func(p network.Port) string { return p.VNIC }},
		{name: "VIF type", long: true, text: func(p network.Port) string { return dash(p.VIF) }},
		{name: "Provider", long: true, text: func(p network.Port) string {
			return dash(strings.Join(slices.Sorted(maps.Values(p.Allocation())), ", "))
		}},
	}
}

// guarantee returns what a port requests from Placement, as text.
func guarantee(p network.Port) string {
	if p.Request == nil {
		return ""
	}
	var all []string
	for _, g := range p.Request.Groups {
		for _, class := range sortedKeys(g.Resources) {
			all = append(all, fmt.Sprintf("%s=%d", class, g.Resources[class]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// serverNames returns the names of the servers of ports by id. Without an answer of compute it has none.
func (g *Globals) serverNames(ctx context.Context, ports []network.Port) map[string]string {
	names := map[string]string{}
	if !slices.ContainsFunc(ports, func(p network.Port) bool { return strings.HasPrefix(p.DeviceOwner, "compute:") }) {
		return names
	}
	list, err := g.compute().Servers(ctx, compute.ListServers{})
	if err != nil {
		return names
	}
	for _, s := range list {
		names[s.ID] = s.Name
	}
	return names
}

// PolicyListCmd lists QoS policies.
type PolicyListCmd struct{ LongOutput }

// Run prints the policies.
func (c *PolicyListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.networks().Policies(ctx, nil)
	if err != nil {
		return err
	}
	return printList(g, list, "Name", c.Long, []column[network.Policy]{
		{name: "ID", long: true, text: func(p network.Policy) string { return p.ID }},
		{name: "Name", text: func(p network.Policy) string { return cmp.Or(p.Name, p.ID) }},
		{name: "Shared", text: func(p network.Policy) string { return yes(p.Shared) }},
		{name: "Rules", text: func(p network.Policy) string {
			var rules []string
			for _, r := range p.Rules {
				rules = append(rules, ruleText(r))
			}
			return dash(strings.Join(rules, ", "))
		}},
		{name: "Project", long: true, text: func(p network.Policy) string { return p.Project }},
	})
}

// ruleText returns a rule as text, such as "at least 1000 kbit/s egress".
func ruleText(r network.Rule) string {
	switch {
	case r.MinKbps > 0:
		return fmt.Sprintf("at least %d kbit/s %s", r.MinKbps, r.Direction)
	case r.MinKpps > 0:
		return fmt.Sprintf("at least %d kpackets/s %s", r.MinKpps, r.Direction)
	case r.MaxKbps > 0:
		return fmt.Sprintf("at most %d kbit/s %s", r.MaxKbps, r.Direction)
	}
	return r.Type
}

// policyNames returns the names of QoS policies by id.
func policyNames(ctx context.Context, client *network.Client) (map[string]string, error) {
	list, err := client.Policies(ctx, nil)
	names := map[string]string{}
	for _, p := range list {
		names[p.ID] = p.Name
	}
	return names, err
}
