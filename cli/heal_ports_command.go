package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// HealCmd groups the commands that make Placement and the network service agree with compute.
type HealCmd struct {
	Ports HealPortsCmd `cmd:"" help:"Show bound ports whose allocation is missing or wrong; with --apply, write it."`
}

// HealPortsCmd heals bound ports: their allocation, and that of their servers in Placement.
type HealPortsCmd struct {
	Servers []string `arg:"" optional:"" name:"server" help:"Names or ids of servers; without any, all servers."`
	Host    string   `help:"Only servers on this host." placeholder:"HOST"`
	Apply   bool     `help:"Write the changes. Without it, only show them."`
}

// StatusError is an error with the exit status of the command.
type StatusError struct {
	Status int
	error
}

// Unwrap returns the error without its exit status.
func (e *StatusError) Unwrap() error { return e.error }

// healStatuses are the exit statuses of states, those of `nova-manage placement heal_allocations`. The largest one
// counts.
var healStatuses = map[string]int{host.PortsNeedHealing: 0, host.PortsHealed: 0, host.PortsBusy: 1,
	host.PortsNotAllocated: 3, host.PortsNotRead: 5, host.PortsNotWritten: 6, host.PortsNotRestored: 7}

// nothingToHeal is the exit status if no port needs healing.
const nothingToHeal = 4

// Run prints the changes of each server. It returns a StatusError if nothing needs healing or some port is not healed.
func (c *HealPortsCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	if err := knownHost(ctx, g, c.Host); err != nil {
		return err
	}
	request := host.HealPorts{Host: c.Host, Apply: c.Apply}
	for _, name := range c.Servers {
		s, err := g.compute().Server(ctx, name)
		if err != nil {
			return err
		}
		request.Servers = append(request.Servers, s.ID)
	}
	got, err := g.hosts().HealPorts(ctx, request)
	if err != nil {
		return err
	}
	rows := healPortsRows(got, c.names(ctx, g, got))
	if err := g.print(got, []string{"Server", "Host", "Change", "Outcome"}, rows); err != nil {
		return err
	}
	return healResult(got, c.Apply)
}

// names returns the names of providers.
func (c *HealPortsCmd) names(ctx context.Context, g *Globals, got host.HealedPorts) names {
	if g.Output == "json" || len(got.Servers) == 0 {
		return nil
	}
	return g.providerNames(ctx, nil)
}

// healPortsRows returns a row for each port, and for the allocation of each server.
func healPortsRows(got host.HealedPorts, known names) (rows [][]string) {
	for _, s := range got.Servers {
		outcome := s.State
		if s.Reason != "" {
			outcome += ": " + s.Reason
		}
		row := func(change string) {
			rows = append(rows, []string{cmp.Or(s.Name, s.Server), s.Host, change, outcome})
			outcome = ""
		}
		for _, p := range s.Ports {
			row(healedPortText(p, s.Host, known))
		}
		if len(s.Adds) > 0 {
			row("Placement gets " + holdingText(s.Adds, known))
		}
		if len(s.Removes) > 0 {
			row("Placement loses " + holdingText(s.Removes, known))
		}
		if outcome != "" {
			row("none")
		}
	}
	return rows
}

// healedPortText describes the changes of a port.
func healedPortText(p host.HealedPort, at string, known names) string {
	var parts []string
	if p.Bind {
		parts = append(parts, "is bound to host "+at+" again")
	}
	for _, group := range slices.Sorted(maps.Keys(p.Groups)) {
		parts = append(parts, "group "+group+" of provider "+known.of(p.Groups[group]))
	}
	if p.Groups != nil && len(p.Groups) == 0 {
		parts = append(parts, "no allocation")
	}
	if p.Device != "" {
		parts = append(parts, "device "+p.Device+" is counted")
	}
	if p.Reason != "" {
		parts = append(parts, "no change")
	}
	return "port " + p.Port + ": " + strings.Join(parts, ", ")
}

// healResult returns the error of the command, with the exit status.
func healResult(got host.HealedPorts, applied bool) error {
	if len(got.Servers) == 0 {
		return &StatusError{nothingToHeal, fault.New(fault.Conflict, "no port needs healing")}
	}
	status, left := 0, 0
	for _, s := range got.Servers {
		code, known := healStatuses[s.State]
		if !known {
			code = 1
		}
		if status = max(status, code); code > 0 {
			left++
		}
	}
	switch {
	case left > 0 && applied:
		return &StatusError{status, fault.New(fault.Conflict, "the ports of %d servers are not healed", left)}
	case left > 0:
		return &StatusError{status, fault.New(fault.Conflict, "the ports of %d servers cannot be healed", left)}
	}
	return nil
}

// Help explains the exit statuses.
func (c *HealPortsCmd) Help() string {
	return fmt.Sprintf("Exit status: 0 healed, or (without --apply) all can be healed; 1 a server is busy; 3 no provider "+
		"or several ones for a port, or Placement refuses; %d no port needs healing; 5 the network service does not return "+
		"the ports; 6 it refuses a change, which was undone; 7 the change could not be undone.", nothingToHeal)
}
