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
	List NetworkListCmd `cmd:"" help:"List networks."`
}

// PortCmd groups the commands on ports.
type PortCmd struct {
	List PortListCmd `cmd:"" help:"List ports with their servers, hosts and guarantees."`
}

// PolicyCmd groups the commands on QoS policies.
type PolicyCmd struct {
	List PolicyListCmd `cmd:"" help:"List QoS policies with their rules."`
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
	header := []string{"Name", "Type", "Physical network", "Segment", "Subnets", "Policy"}
	if c.Long {
		header = append([]string{"ID"}, append(header, "MTU", "Shared", "Project")...)
	}
	rows := [][]string{}
	for _, n := range list {
		slices.Sort(cidrs[n.ID])
		row := []string{cmp.Or(n.Name, n.ID), dash(n.NetworkType), dash(n.PhysicalNetwork), numberOrDash(n.SegmentationID),
			dash(strings.Join(cidrs[n.ID], ", ")), dash(cmp.Or(policies[n.Policy], n.Policy))}
		if c.Long {
			row = append([]string{n.ID}, append(row, fmt.Sprint(n.MTU), fmt.Sprint(n.Shared), n.Project)...)
		}
		rows = append(rows, row)
	}
	return g.print(list, header, rows)
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
	rows := [][]string{}
	for _, p := range list {
		rows = append(rows, c.row(p, names, servers))
	}
	header := []string{"Name", "Network", "Addresses", "Status", "Server", "Host", "Policy", "Guarantee"}
	if c.Long {
		header = append([]string{"ID"}, append(header, "MAC", "VNIC type", "VIF type", "Provider")...)
	}
	return g.print(list, header, rows)
}

// row returns the cells of a port. names are those of networks and policies.
func (c *PortListCmd) row(p network.Port, names, servers map[string]string) []string {
	var addresses []string
	for _, ip := range p.FixedIPs {
		addresses = append(addresses, ip.Address)
	}
	policy := cmp.Or(p.Policy, p.NetworkPolicy)
	row := []string{cmp.Or(p.Name, p.ID), cmp.Or(names[p.Network], p.Network), dash(strings.Join(addresses, ", ")),
		p.Status, dash(cmp.Or(servers[p.Device], p.Device)), dash(p.Host), dash(cmp.Or(names[policy], policy)),
		dash(guarantee(p))}
	if c.Long {
		providers := slices.Sorted(maps.Values(p.Allocation()))
		row = append([]string{p.ID}, append(row, p.MAC, p.VNIC, dash(p.VIF), dash(strings.Join(providers, ", ")))...)
	}
	return row
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
	header := []string{"Name", "Shared", "Rules"}
	if c.Long {
		header = append([]string{"ID"}, append(header, "Project")...)
	}
	rows := [][]string{}
	for _, p := range list {
		var rules []string
		for _, r := range p.Rules {
			rules = append(rules, ruleText(r))
		}
		row := []string{cmp.Or(p.Name, p.ID), fmt.Sprint(p.Shared), dash(strings.Join(rules, ", "))}
		if c.Long {
			row = append([]string{p.ID}, append(row, p.Project)...)
		}
		rows = append(rows, row)
	}
	return g.print(list, header, rows)
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
