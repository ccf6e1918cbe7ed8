package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/shadow"
)

type shadowCmd struct {
	Run    shadowRunCmd    `cmd:"" default:"withargs" help:"Forward requests to another Placement, and compare its answers with Berth's on the same database (the default)."`
	Report shadowReportCmd `cmd:"" help:"Print which answers differ."`
}

type shadowRunCmd struct {
	placementFiles
	Of     string `help:"Base URL of the Placement that answers." required:"" placeholder:"URL"`
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8778" env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
	Report string `help:"File of the report. Default: ${default}." default:"placement-shadow.json" type:"path" placeholder:"FILE"`
}

// Run forwards requests until it is interrupted.
func (c *shadowRunCmd) Run(ctx context.Context, s streams) (err error) {
	of, err := url.Parse(c.Of)
	if err != nil {
		return fault.New(fault.Invalid, "--of: %w; write it as http://HOST:8778", err)
	}
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	at := &endpoint{name: "placement", flag: "--listen", address: c.Listen,
		noauth: conf.Strategy(settings.Keystone) == settings.NoAuth2}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	service, err := app.OpenShadow(ctx, conf, shadow.Options{Original: of, Report: c.Report, Log: log,
		Times: shadow.DefaultTimes()})
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler = service.Handler
	return serve(ctx, s, conf.Connections, log, at)
}

type shadowReportCmd struct {
	File string `arg:"" optional:"" help:"File of the report. Default: ${default}." default:"placement-shadow.json" type:"path"`
}

// Run prints the report.
func (c *shadowReportCmd) Run(s streams) error {
	report, err := shadow.ReadReport(c.File)
	if err != nil {
		return err
	}
	return report.Print(s.out)
}
