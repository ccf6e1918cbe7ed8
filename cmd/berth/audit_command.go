package main

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/auditor"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type auditCmd struct {
	Now cli.AuditCmd `cmd:"" default:"withargs" help:"Compare the services now (the default); with --heal, correct Placement."`
	Run auditRunCmd  `cmd:"" help:"Compare the services periodically, with metrics and a log. It never heals."`
}

type auditRunCmd struct {
	ConfigFile   []string      `help:"Configuration file with [audit] interval, [ssl], [DEFAULT] debug and log_file; may be repeated, later ones have priority." type:"existingfile" placeholder:"FILE"`
	Listen       string        `help:"Address of /metrics and /healthz, which need no token. Default: ${default}." default:"127.0.0.1:8781" env:"BERTH_LISTEN_AUDIT" placeholder:"HOST:PORT"`
	Interval     time.Duration `help:"Time from the end of an audit to the next one, such as 10m. Default: [audit] interval, else ten minutes." env:"BERTH_AUDIT_INTERVAL"`
	BetweenLooks time.Duration `help:"Time between the two looks of an audit: only what is the same in both counts. Default: ${default}." default:"1m"`
	AliasFile    []string      `help:"nova.conf with the aliases of PCI devices ([pci] alias), read at the start; may be repeated." placeholder:"FILE" sep:"none"`
}

// Validate checks the times.
func (c *auditRunCmd) Validate() error {
	if c.Interval != 0 && c.Interval < time.Second || c.BetweenLooks < time.Second {
		return fault.New(fault.Invalid, "--interval and --between-looks are at least 1s; use times such as 10m and 1m")
	}
	return nil
}

// auditEvery is the time from the end of an audit to the next one, if it is not configured.
const auditEvery = 10 * time.Minute

// Run audits with the account of the command line until it is interrupted.
func (c *auditRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := files{ConfigFile: c.ConfigFile}.read(s)
	if err != nil {
		return err
	}
	look, err := cli.AuditLook(g, c.AliasFile)
	if err != nil {
		return err
	}
	return c.serve(ctx, s, conf, log, auditor.New(auditor.Options{Look: look, Report: cli.AuditReport(g),
		Every: cmp.Or(c.Interval, conf.AuditInterval, auditEvery), Wait: c.BetweenLooks, Limit: app.AuditLimit,
		Log: log.With("service", "audit")}))
}

// serve audits, and serves the metrics.
func (c *auditRunCmd) serve(ctx context.Context, s streams, conf settings.Settings, log *slog.Logger,
	a *auditor.Auditor) error {
	at := &endpoint{name: "audit", flag: "--listen", address: c.Listen, handler: a.Handler()}
	if err := listen(conf, log, at); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, s, conf.Connections, log, at) })
	group.Go(func() error { a.Run(ctx); return nil })
	return group.Wait()
}
