package main

import (
	"context"
	"time"

	"github.com/openberth/berth/cli"
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
