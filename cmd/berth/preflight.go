package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/pci"
)

type preflightCmd struct {
	ConfigFile []string `help:"Compute's configuration, whose aliases are checked too; may be repeated." type:"existingfile" placeholder:"FILE"`
}

// Run prints what prevents pci_in_placement in the cloud. It fails if anything does.
func (c *preflightCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	var found []string
	var aliases pci.Aliases
	if len(c.ConfigFile) > 0 {
		conf, _, err := files{ConfigFile: c.ConfigFile}.read(s)
		if err != nil {
			return err
		}
		found, aliases = conf.CheckAliases(), conf.Aliases
	}
	p, err := cli.AskPreflight(ctx, g, time.Now(), aliases, found)
	if err != nil {
		return err
	}
	return cli.PrintPreflight(g, p)
}

type agentPreflightCmd struct{ files }

// Run prints what the agent would change in Placement if it reported devices there. It fails if anything prevents that.
func (c *agentPreflightCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return settings.AllErrors(err, c.ConfigFile...)
	}
	return app.PreflightAgent(ctx, conf, filepath.Join(c.DataDir, "agent"), app.TCPEndpoints(g.PlacementURL, g.ComputeURL),
		log, s.out, g.Output == "json")
}
