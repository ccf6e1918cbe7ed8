package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/bridges"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
)

type agentNetworksCmd struct {
	files
	Rules bool `help:"Print the rules of nftables that the agent has made for them."`
}

// Run prints the networks that the agent of this machine connects by Linux bridges, as they are in the kernel. It needs
// no service, and the agent need not run.
func (c *agentNetworksCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, _, err := c.read(s)
	if err != nil {
		return err
	}
	if c.Rules {
		rules, err := app.NetworkRules(ctx)
		if err == nil {
			_, err = fmt.Fprint(s.out, rules)
		}
		return err
	}
	list, err := app.DescribeNetworks(conf, filepath.Join(c.DataDir, app.AgentDir))
	if err != nil {
		return err
	}
	if g.Output == "json" {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	return printNetworks(s, list)
}

// printNetworks prints a table of networks and one of their leases.
func printNetworks(s streams, list []bridges.Description) error {
	var rows, leases [][]string
	for _, d := range list {
		bridge, dhcp := d.Bridge, "-"
		if !d.Exists {
			bridge += " (missing)"
		}
		if d.DHCP != 0 {
			dhcp = strconv.Itoa(d.DHCP)
		}
		kind := d.Type
		if d.Segment != 0 {
			kind += " " + strconv.Itoa(d.Segment)
		}
		rows = append(rows, []string{d.Network, d.Name, kind, bridge, strings.Join(d.Gateways, " "),
			strings.Join(d.Own, " "), strings.Join(d.Peers, " "), strings.Join(d.Members, " "), dhcp})
		for _, l := range d.Leases {
			leases = append(leases, []string{d.Name, l.Port, l.MAC, strings.Join(l.Addresses, " "), l.Name})
		}
	}
	err := cli.PrintTable(s.out, s.wide, []string{"Network", "Name", "Type", "Bridge", "Gateways",
		"Own addresses", "Peers", "Guests", "DHCP process"}, rows)
	if err != nil || len(leases) == 0 {
		return err
	}
	return cli.PrintTable(s.out, s.wide, []string{"Network", "Port", "MAC address", "Addresses", "Host name"}, leases)
}
