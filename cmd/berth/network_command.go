package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type networkCmd struct {
	Run networkRunCmd `cmd:"" default:"withargs" help:"Run the network service (the default)."`
	cli.NetworkCommands
}

type networkRunCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:9696" placeholder:"HOST:PORT"`
}

// Run runs the network service until it is interrupted. It uses the Placement API at --placement-url, or that of
// [placement].
func (c *networkRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := app.CheckAuthentication(conf, settings.NoAuth2); err != nil {
		return err
	}
	at := &endpoint{name: "network", flag: "--listen", address: c.Listen,
		noauth: conf.Strategy(settings.NoAuth2) == settings.NoAuth2}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	if conf.NetworkDB == "" { // the database is in the data directory
		lock, err := app.Lock(c.DataDir)
		if err != nil {
			return errors.Join(err, closeAll(at))
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
		if err := app.ProtectData(c.DataDir, log, app.LockFile); err != nil {
			return errors.Join(err, closeAll(at))
		}
	}
	service, err := c.open(ctx, g, conf, log)
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler, at.lost = service.Handler, service.Lost
	return serve(ctx, s, conf.Connections, log, at)
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
