package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type placementCmd struct {
	Run    placementRunCmd `cmd:"" default:"withargs" help:"Run Placement (the default)."`
	DB     dbCmd           `cmd:"" name:"db" help:"Manage the Placement database."`
	Shadow shadowCmd       `cmd:"" help:"Compare Berth's Placement with a running one, without risk."`
}

type placementRunCmd struct {
	placementFiles
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8778" env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
}

// Run runs Placement until it is interrupted.
func (c *placementRunCmd) Run(ctx context.Context, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := conf.CheckOrigins(settings.Keystone); err != nil {
		return err
	}
	at := &endpoint{name: "placement", flag: "--listen", address: c.Listen,
		noauth: conf.Strategy(settings.Keystone) == settings.NoAuth2}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	service, err := c.open(ctx, conf, log)
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler, at.lost = service.Handler, service.Lost
	return serve(ctx, s, conf.Connections, log, at)
}

func (c *placementRunCmd) open(ctx context.Context, conf settings.Settings, log *slog.Logger) (*app.Service, error) {
	url, err := app.PlacementURL(conf, c.DataDir)
	if err != nil {
		return nil, err
	}
	if conf.PlacementDB == "" {
		if err := app.ProtectData(c.DataDir, log); err != nil {
			return nil, err
		}
	}
	return app.OpenPlacement(ctx, url, conf, settings.Keystone, log)
}
