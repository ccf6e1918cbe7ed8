package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// HostCmd groups the commands on hosts.
type HostCmd struct {
	List HostListCmd `cmd:"" help:"List hosts with their state, the time of their last report and their conditions."`
	Show HostShowCmd `cmd:"" help:"Show a host with its conditions, devices and servers."`
	Down HostDownCmd `cmd:"" help:"Declare a host dead: resources that servers left there are released without its agent, and no server is scheduled to it. First make sure that the host does not run."`
	Up   HostUpCmd   `cmd:"" help:"Undo 'host down'. Servers are scheduled to the host again after its agent has reported."`

	Disable HostDisableCmd `cmd:"" help:"Schedule no servers to a host any more; its servers stay."`
	Enable  HostEnableCmd  `cmd:"" help:"Schedule servers to a host again."`
	Drain   HostDrainCmd   `cmd:"" help:"Disable a host and move all its servers away; with --plan, only show what would move where."`
	Bind    HostBindCmd    `cmd:"" help:"Bind a host to the account that its agent signs in with, in place of another account."`
	Unbind  HostUnbindCmd  `cmd:"" help:"Remove the binding of a host to an account: the next account that speaks for it is bound."`

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
		if h.Host == c.Host && ago < h.SilentTime() && !h.Dead && !c.Force {
			return fault.New(fault.Conflict, "the agent of host %s gave its last sign of life %s ago: while the host runs, "+
				"devices of its guests must not be allocated to others; "+
				"stop the host and wait until its agent has been silent for %s, or make sure that the host does not run and use "+
				"--force", c.Host, ago.Truncate(time.Second), h.SilentTime())
		}
	}
	if err := g.compute().HostDown(ctx, c.Host, true); err != nil {
		return err
	}
	return g.printHostResult(c.Host, "down", "what servers left there is released; evacuate its servers")
}

// HostForgetCmd removes a host.
type HostForgetCmd struct {
	Host string `arg:"" help:"Name of the host."`
	Wait bool   `help:"If its agent has just ended: wait until it counts as silent, a minute after its last sign of life."`
}

// Run removes the host from compute, and prints which providers were removed.
func (c *HostForgetCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	if c.Wait {
		if err := c.awaitSilence(g); err != nil {
			return err
		}
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

// awaitSilence waits until the agent of the host counts as silent. It returns fault.Conflict if the agent still
// reports.
func (c *HostForgetCmd) awaitSilence(g *Globals) error {
	for before := time.Duration(-1); ; {
		h, listed, err := c.listed(g)
		quiet := time.Duration(h.Quiet * float64(time.Second))
		switch left := h.SilentTime() - quiet; {
		case err != nil || !listed || h.Dead || left <= 0:
			return err
		case quiet < before:
			return fault.New(fault.Conflict, "the agent of host %s has just reported, so it runs; end it (on the host: `berth "+
				"init --undo`, or `systemctl disable --now berth-agent`), and repeat the command", c.Host)
		case before < 0:
			fmt.Fprintf(g.stderr(), "host %s counts as silent in %s\n", c.Host, left.Truncate(time.Second)+time.Second)
			fallthrough
		default:
			before = quiet
			if err := backoff.Sleep(g.untilInterrupted(), min(left, lastPoll)); err != nil {
				return err
			}
		}
	}
}

// listed returns what compute lists of the host.
func (c *HostForgetCmd) listed(g *Globals) (h host.Report, found bool, err error) {
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.hosts().Hosts(ctx)
	at := slices.IndexFunc(list, func(h host.Report) bool { return h.Host == c.Host })
	if err != nil || at < 0 {
		return h, false, err
	}
	return list[at], true, nil
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
	if err := g.compute().HostDown(ctx, c.Host, false); err != nil {
		return err
	}
	return g.printHostResult(c.Host, "up", "servers are scheduled to it after its agent has reported")
}

// HostListCmd lists the hosts whose agents have reported or cannot report; where compute is Nova, those of Placement.
type HostListCmd struct{}

// Run prints the hosts.
func (c *HostListCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	if besideNova(ctx, g) {
		return listNovaHosts(ctx, g)
	}
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return err
	}
	return printList(g, list, "Host", false, []column[host.Report]{
		{name: "Host", text: func(h host.Report) string { return h.Host }},
		{name: "State", text: host.Report.StateText},
		{name: "Last report", text: lastReport},
		{name: "Devices", text: func(h host.Report) string { return strconv.Itoa(len(h.Devices)) }},
		{name: "Held", text: func(h host.Report) string {
			held := 0
			for _, d := range h.Devices {
				if d.Holder != "" {
					held++
				}
			}
			return strconv.Itoa(held)
		}},
		{name: "Conditions", text: func(h host.Report) string { return conditionTexts(h.Conditions) }},
	})
}
