package main

import (
	"context"
	"errors"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type imageCmd struct {
	Run imageRunCmd `cmd:"" default:"withargs" help:"Run the image service (the default)."`
	cli.ImageCommands
}

type imageRunCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:9292" placeholder:"HOST:PORT"`
}

// Run runs the image service until it is interrupted. It locks the data directory, also for a directory of images
// elsewhere.
func (c *imageRunCmd) Run(ctx context.Context, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := app.CheckAuthentication(conf, settings.NoAuth2); err != nil {
		return err
	}
	at := &endpoint{name: "image", flag: "--listen", address: c.Listen,
		noauth: conf.Strategy(settings.NoAuth2) == settings.NoAuth2}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	lock, err := app.Lock(c.DataDir)
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := app.ProtectData(c.DataDir, log, app.LockFile, app.ImageDir); err != nil {
		return errors.Join(err, closeAll(at))
	}
	service, err := app.OpenImage(c.DataDir, conf, log)
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler = service.Handler
	return serve(ctx, s, conf.Connections, log, at)
}
