package main

import (
	"context"
	"log/slog"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type networkCmd struct {
	Run networkRunCmd `cmd:"" default:"withargs" help:"Run the network service (the default with flags)."`
	cli.NetworkCommands
}

type networkRunCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:9696" env:"BERTH_LISTEN_NETWORK" placeholder:"HOST:PORT"`
}

// Run runs the network service until it is interrupted. It uses the Placement API at --placement-url, or that of
// [placement].
func (c *networkRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	return singleService{name: "network", address: c.Listen, dataDir: unlessElsewhere(conf.NetworkDB, c.DataDir),
		lock: app.NetworkLock,
		open: func() (*app.Service, error) { return c.open(ctx, g, conf, log) }}.run(ctx, s, conf, log)
}

func (c *networkRunCmd) open(ctx context.Context, g *cli.Globals, conf settings.Settings,
	log *slog.Logger) (*app.Service, error) {
	url, err := app.NetworkURL(conf, c.DataDir)
	if err != nil {
		return nil, err
	}
	placement, err := app.PlacementOverTCP(conf, g.PlacementURL, g.TLSFiles())
	if err != nil {
		return nil, err
	}
	return app.OpenNetwork(ctx, url, placement, conf, log)
}
