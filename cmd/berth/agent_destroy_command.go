package main

import (
	"context"
	"fmt"

	"github.com/openberth/berth/cli"
)

type agentDestroyCmd struct {
	files
	Guest string `arg:"" help:"Id of the guest, from a condition of the host or from berth agent adopt."`
	Force bool   `help:"Also if compute assigns the guest to this host, or does not answer."`
}

// Run destroys the guest.
func (c *agentDestroyCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	agent, err := c.agent(g, s)
	if err != nil {
		return err
	}
	if err := agent.DestroyGuest(ctx, c.Guest, c.Force); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "destroyed guest %s; its devices are free when the agent runs again\n", c.Guest)
	return err
}
