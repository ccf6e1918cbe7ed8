package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// HostCmd groups the commands on hosts.
type HostCmd struct {
	List HostListCmd `cmd:"" help:"List hosts: when their agents last reported, and what is wrong on them."`
	Down HostDownCmd `cmd:"" help:"Say that a host is dead for good: what servers have left there is given back without its agent, and nothing is put there. Make sure that it does not run."`
	Up   HostUpCmd   `cmd:"" help:"Take that back: servers are put there again once its agent reports."`

	Heal   HostHealCmd   `cmd:"" help:"Show what Placement lacks of the servers on a host; with --apply, write it."`
	Forget HostForgetCmd `cmd:"" help:"Remove a host that will never return, and its providers from Placement. Refused while anything stands on it."`
}

// HostDownCmd says that a host is dead.
type HostDownCmd struct {
	Host  string `arg:"" help:"Name of the host."`
	Force bool   `help:"Also if its agent was heard a moment ago: you have made sure that the host does not run."`
}

// Run tells compute. It refuses a host that may well be alive: its guests would go on with devices that others are given.
func (c *HostDownCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return err
	}
	for _, h := range list {
		ago := time.Duration(h.Quiet * float64(time.Second))
		if h.Host == c.Host && (h.Connected || ago < hostSilence) && !h.Dead && !c.Force {
			return fault.New(fault.Conflict, "", "the agent of host %s is connected, or was heard %s ago: while the host runs, what its guests hold must not be given to others; "+
				"end it and wait until it has been silent for %s, or make sure that it does not run and say so with --force", c.Host, ago.Round(time.Second), hostSilence)
		}
	}
	return g.compute().HostDown(ctx, c.Host, true)
}

// HostForgetCmd removes a host.
type HostForgetCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run tells compute, and prints what became of the providers.
func (c *HostForgetCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	out, err := g.hosts().Forget(ctx, c.Host)
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, name := range out.Removed {
		rows = append(rows, []string{name, "removed"})
	}
	for _, name := range out.Kept {
		rows = append(rows, []string{name, "kept: it is somebody else's, or has such below it"})
	}
	return g.print(out, []string{"Provider", "What became of it"}, rows)
}

// HostUpCmd takes it back.
type HostUpCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run tells compute.
func (c *HostUpCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	return g.compute().HostDown(ctx, c.Host, false)
}

// report reads the last report of a host. fault.Invalid if the name cannot be a host's; fault.NotFound, with similar
// names, if no agent has reported for it.
func (g *Globals) report(ctx context.Context, name string) (host.Report, error) {
	if err := provider.CheckHostName(name); err != nil {
		return host.Report{}, err
	}
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return host.Report{}, err
	}
	names := make([]string, 0, len(list))
	for _, h := range list {
		if h.Host == name {
			return h, nil
		}
		names = append(names, h.Host)
	}
	return host.Report{}, provider.UnknownHost(name, names)
}

// HostListCmd lists the hosts whose agents have reported.
type HostListCmd struct{}

// Run prints the hosts.
func (c *HostListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, h := range list {
		held := 0
		for _, d := range h.Devices {
			if d.Holder != "" {
				held++
			}
		}
		rows = append(rows, []string{h.Host, h.Seen.UTC().Format(time.RFC3339), strconv.Itoa(len(h.Devices)), strconv.Itoa(held),
			dash(strings.Join(h.Conditions, "; "))})
	}
	if list == nil {
		list = []host.Report{}
	}
	return g.print(list, []string{"Host", "Last report", "Devices", "Held", "Conditions"}, rows)
}
