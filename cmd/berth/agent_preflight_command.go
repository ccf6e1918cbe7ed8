package main

import (
	"context"
	"path/filepath"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
)

type agentPreflightCmd struct{ files }

// Run prints what the agent would change in Placement if it reported devices there. It fails if anything prevents that.
func (c *agentPreflightCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, services, log, err := c.readAgent(g, s)
	if err != nil {
		return err
	}
	return app.PreflightAgent(ctx, conf, filepath.Join(c.DataDir, "agent"), services, log, s.out, g.Output == "json")
}
