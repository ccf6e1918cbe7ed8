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
	List HostListCmd `cmd:"" help:"List hosts with the time of their last report and their conditions."`
	Down HostDownCmd `cmd:"" help:"Declare a host dead: resources that servers left there are released without its agent, and no server is scheduled to it. First make sure that the host does not run."`
	Up   HostUpCmd   `cmd:"" help:"Undo 'host down'. Servers are scheduled to the host again after its agent has reported."`

	Bind   HostBindCmd   `cmd:"" help:"Bind a host to the account that its agent signs in with, in place of another account."`
	Unbind HostUnbindCmd `cmd:"" help:"Remove the binding of a host to an account: the next account that speaks for it is bound."`

	Heal   HostHealCmd   `cmd:"" help:"Show allocations of servers on a host that Placement lacks; with --apply, write them."`
	Forget HostForgetCmd `cmd:"" help:"Remove a host that will not return, and its providers from Placement. Fails while a server is on it."`
}

// HostDownCmd declares a host dead.
type HostDownCmd struct {
	Host  string `arg:"" help:"Name of the host."`
	Force bool   `help:"Also if its agent reported recently. First make sure that the host does not run."`
}

// Run sends the declaration to compute. It fails for a host that may be running, because its guests would keep using
// devices that are then allocated to others.
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
			return fault.New(fault.Conflict, "", "the agent of host %s is connected, or reported %s ago: while the host runs, "+
				"devices of its guests must not be allocated to others; "+
				"stop the host and wait until its agent has not reported for %s, or make sure that the host does not run and use "+
				"--force", c.Host, ago.Round(time.Second), hostSilence)
		}
	}
	return g.compute().HostDown(ctx, c.Host, true)
}

// HostForgetCmd removes a host.
type HostForgetCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run removes the host from compute, and prints which providers were removed.
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
		rows = append(rows, []string{name, "kept: another program owns it, or a provider below it"})
	}
	return g.print(out, []string{"Provider", "Result"}, rows)
}

// HostUpCmd reverts HostDownCmd.
type HostUpCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run sends the change to compute.
func (c *HostUpCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	return g.compute().HostDown(ctx, c.Host, false)
}

// report returns the last report of a host. It returns fault.Invalid if name cannot be the name of a host, and
// fault.NotFound, with similar names, if no agent has reported for it.
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
		rows = append(rows, []string{h.Host, h.Seen.UTC().Format(time.RFC3339), strconv.Itoa(len(h.Devices)),
			strconv.Itoa(held),
			dash(strings.Join(h.Conditions, "; "))})
	}
	if list == nil {
		list = []host.Report{}
	}
	return g.print(list, []string{"Host", "Last report", "Devices", "Held", "Conditions"}, rows)
}
