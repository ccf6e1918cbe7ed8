package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
)

// HostShowCmd shows one host.
type HostShowCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// shownHost is a host with the servers on it.
type shownHost struct {
	host.Report
	Servers []compute.Server `json:"servers"`
}

// Run prints the host with its NUMA nodes, devices, servers and conditions.
func (c *HostShowCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	if besideNova(ctx, g) {
		return showNovaHost(ctx, g, c.Host)
	}
	h, err := g.report(ctx, c.Host)
	if err != nil {
		return err
	}
	servers, err := g.compute().Servers(ctx, compute.ListServers{Host: c.Host, AllProjects: true})
	if err != nil {
		return err
	}
	if g.Output == "json" {
		return g.print(shownHost{h, append([]compute.Server{}, servers...)}, nil, nil)
	}
	providers := g.providerNames(ctx, url.Values{"in_tree": {h.Provider}})
	var holding []string
	for _, d := range h.Devices {
		holding = append(holding, d.Holder)
	}
	holders := g.consumerNames(ctx, holding)
	rows := pairs("host", h.Host, "state", h.StateText(), "hypervisor", hypervisorText(h),
		"last report", lastReport(h), "provider",
		providers.both(h.Provider), "account", dash(h.Account), "devices in Placement", yes(h.InPlace))
	if h.NoDiskMoves != "" {
		rows = append(rows, []string{"disks", "cannot be moved from or to this host: " + h.NoDiskMoves})
	}
	rows = append(rows, conditionRows(h.Conditions)...)
	for _, cell := range h.Cells {
		rows = append(rows, []string{fmt.Sprintf("NUMA node %d", cell.ID),
			fmt.Sprintf("%d shared CPUs, %d dedicated, %d MiB", len(cell.CPUs), len(cell.Dedicated), cell.MemoryMB)})
	}
	for _, d := range h.Devices {
		rows = append(rows, []string{"device " + d.Address, strings.Join([]string{d.VendorID + ":" + d.ProductID, d.Type,
			dash(d.ResourceClass), stateText(d), dash(holders.of(d.Holder))}, "  ")})
	}
	slices.SortFunc(servers, func(a, b compute.Server) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range servers {
		rows = append(rows, []string{"server " + s.Name, strings.Join([]string{statusOf(s), dash(flavorOf(s)), s.ID}, "  ")})
	}
	return g.print(h, []string{"Field", "Value"}, rows)
}

// hypervisorText returns the type of a host's hypervisor. One that runs no virtual machines is in capitals.
func hypervisorText(h host.Report) string {
	if h.Hypervisor == "fake" {
		return "FAKE: guests are files, no virtual machine runs"
	}
	return dash(h.Hypervisor)
}

// lastReport returns when compute received the last report of a host.
func lastReport(h host.Report) string { return localTime(h.Seen) }
