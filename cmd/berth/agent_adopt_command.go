package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
)

type agentAdoptCmd struct {
	files
	Yes bool `help:"Adopt. Without it, nothing is changed."`
}

// Run prints how the hypervisor, the agent's journal, Placement and compute record each guest of the host, and what
// adopting does to it. With --yes the agent, from its next start on, uses the hypervisor that it finds and follows the
// next assignments that it reads.
func (c *agentAdoptCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	agent, err := c.agent(g, s)
	if err != nil {
		return err
	}
	plan, shown := agent.AdoptionPlan(ctx)
	switch {
	case shown != nil && !c.Yes:
		return fault.New(fault.KindOf(shown), "cannot show what adopting would change: %w; --yes adopts without "+
			"showing it", shown)
	case shown != nil:
		fmt.Fprintln(s.log, "berth: cannot show what adopting changes:", fault.TextOf(shown))
	default:
		if err := printAdoption(s.out, plan, g.Output == "json"); err != nil {
			return err
		}
	}
	if !c.Yes {
		if g.Output != "json" {
			fmt.Fprintln(s.out, "nothing was changed; to adopt, stop the agent and run this command with --yes")
		}
		return nil
	}
	if err := agent.Adopt(ctx); err != nil {
		return err
	}
	if g.Output != "json" {
		fmt.Fprintln(s.out, "adopted: the agent will use this hypervisor and follow the next assignments that it reads")
	}
	return nil
}

func printAdoption(out io.Writer, plan loop.AdoptionPlan, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(adoptionDoc(plan))
	}
	if plan.Followed != "" {
		fmt.Fprintf(out, "followed until now: %s\n", plan.Followed)
	}
	fmt.Fprintf(out, "compute has now:    %s\n", plan.Next)
	if plan.Hypervisor != "" {
		fmt.Fprintf(out, "hypervisor:         %s\n", plan.Hypervisor)
	}
	if len(plan.Guests) == 0 {
		_, err := fmt.Fprintln(out, "no guests")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GUEST\tNAME\tHYPERVISOR\tJOURNAL\tPLACEMENT\tCOMPUTE\tEFFECT")
	for _, g := range plan.Guests {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Name, g.Guest, g.Journal, g.Placement, g.Compute, g.Then)
	}
	return table.Flush()
}

// adoptionDoc returns the plan as JSON. Lists are never null.
func adoptionDoc(plan loop.AdoptionPlan) any {
	guests := []map[string]string{}
	for _, g := range plan.Guests {
		guests = append(guests, map[string]string{"id": g.ID, "name": g.Name, "hypervisor": g.Guest, "journal": g.Journal,
			"placement": g.Placement, "compute": g.Compute, "then": g.Then})
	}
	return map[string]any{"followed": plan.Followed, "next": plan.Next, "hypervisor": plan.Hypervisor,
		"guests": guests}
}
