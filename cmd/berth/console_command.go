package main

import (
	"context"
	"errors"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/console"
)

type consoleCmd struct {
	ConfigFile []string `help:"Configuration file with [ssl] and [DEFAULT] options; may be repeated, later ones have priority." type:"existingfile" placeholder:"FILE"`
	Listen     string   `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8780" env:"BERTH_LISTEN_CONSOLE" placeholder:"HOST:PORT"`
}

// Run serves the console of the cloud that the global flags name until it is interrupted.
func (c *consoleCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := files{ConfigFile: c.ConfigFile}.read(s)
	if err != nil {
		return err
	}
	cloud, err := cli.ConsoleCloud(g)
	if err != nil {
		return err
	}
	at := &endpoint{name: "console", flag: "--listen", address: c.Listen, noauth: cloud.Kind == console.WithToken}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	pages := console.New(console.Options{Cloud: cloud, Version: version(), TLS: at.cert != nil, Log: log})
	at.handler = pages
	return errors.Join(serve(ctx, s, conf.Connections, log, at), pages.Close())
}
