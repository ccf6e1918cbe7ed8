package main

import (
	"context"
	"log/slog"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type computeCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8774" env:"BERTH_LISTEN_COMPUTE" placeholder:"HOST:PORT"`
}

// Run runs compute until it is interrupted. It uses the Placement API at --placement-url, or that of [placement].
func (c *computeCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	return singleService{name: "compute", address: c.Listen, dataDir: unlessElsewhere(conf.ComputeDB, c.DataDir),
		lock: app.ComputeLock,
		open: func() (*app.Service, error) { return c.open(ctx, g, conf, log) }}.run(ctx, s, conf, log)
}

func (c *computeCmd) open(ctx context.Context, g *cli.Globals, conf settings.Settings,
	log *slog.Logger) (*app.Service, error) {
	url, err := app.ComputeURL(conf, c.DataDir)
	if err != nil {
		return nil, err
	}
	placement, err := app.PlacementOverTCP(conf, g.PlacementURL, g.TLSFiles())
	if err != nil {
		return nil, err
	}
	return app.OpenCompute(ctx, url, placement, conf, log)
}
