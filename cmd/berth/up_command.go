package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/openberth/berth/console"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type upCmd struct {
	files
	Listen          string `help:"Address that serves all APIs, below /placement, /compute, /network and /image. Default: ${default}; none: it is not served." default:"127.0.0.1:8770" env:"BERTH_LISTEN" placeholder:"HOST:PORT"`
	ListenPlacement string `help:"Address of the Placement API. Default: ${default}." default:"127.0.0.1:8778" env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
	ListenCompute   string `help:"Address of the Compute API. Default: ${default}." default:"127.0.0.1:8774" env:"BERTH_LISTEN_COMPUTE" placeholder:"HOST:PORT"`
	ListenImage     string `help:"Address of the Image API; it is not served with [glance]. Default: ${default}." default:"127.0.0.1:9292" env:"BERTH_LISTEN_IMAGE" placeholder:"HOST:PORT"`
	ListenConsole   string `help:"Address of the console's web pages. Default: ${default}; none: they are not served." default:"127.0.0.1:8780" env:"BERTH_LISTEN_CONSOLE" placeholder:"HOST:PORT"`
	ListenAudit     string `help:"Address of the metrics of the audits, with [audit] interval. Default: ${default}; none: they are not served." default:"127.0.0.1:8781" env:"BERTH_LISTEN_AUDIT" placeholder:"HOST:PORT"`
	NoAgent         bool   `help:"Run the services only: this machine is not a host. Also without [DEFAULT] compute_driver."`
	ListenNetwork   string `help:"Address of the Networking API. Default: ${default}." default:"127.0.0.1:9696" env:"BERTH_LISTEN_NETWORK" placeholder:"HOST:PORT"`
}

// agentLine returns which agent the process runs, for its start output.
func agentLine(conf settings.Settings) string {
	switch driver := conf.HostSettings.Driver; {
	case conf.HostSettings.NoAgent:
		return "agent: none (--no-agent)"
	case driver == "":
		return "agent: none: " + settings.NoDriver
	case driver == settings.FakeDriver:
		return "agent: " + conf.Host + ", FAKE: guests are files, no virtual machine runs"
	default:
		return "agent: " + conf.Host + ", " + driver
	}
}

// upEndpoints are the endpoints of a cloud, and in all those that are served.
type upEndpoints struct {
	placement, compute, network, image, one, pages, audits *endpoint
	all                                                    []*endpoint
}

// endpoints returns the endpoints, without their handlers.
func (c *upCmd) endpoints(conf settings.Settings) upEndpoints {
	open := conf.Strategy(settings.NoAuth2) == settings.NoAuth2
	at := upEndpoints{
		placement: &endpoint{name: "placement", flag: "--listen-placement", address: c.ListenPlacement, noauth: open},
		compute:   &endpoint{name: "compute", flag: "--listen-compute", address: c.ListenCompute, noauth: open},
		network:   &endpoint{name: "network", flag: "--listen-network", address: c.ListenNetwork, noauth: open},
		image:     &endpoint{name: "image", flag: "--listen-image", address: c.ListenImage, noauth: open},
		one:       &endpoint{name: "berth", flag: "--listen", address: c.Listen, noauth: open},
		pages:     &endpoint{name: "console", flag: "--listen-console", address: c.ListenConsole, noauth: open},
		audits:    &endpoint{name: "audit", flag: "--listen-audit", address: c.ListenAudit}}
	at.all = []*endpoint{at.placement, at.compute, at.network}
	if conf.Images.At == "" {
		at.all = append(at.all, at.image)
	}
	for _, p := range []*endpoint{at.one, at.pages} {
		if p.address != "none" {
			at.all = append(at.all, p)
		}
	}
	if conf.AuditInterval > 0 && c.ListenAudit != "none" {
		at.all = append(at.all, at.audits)
	}
	return at
}

// Run runs the cloud until it is interrupted.
func (c *upCmd) Run(ctx context.Context, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := app.CheckAuthentication(conf, settings.NoAuth2); err != nil {
		return err
	}
	conf.HostSettings.NoAgent = c.NoAgent
	at := c.endpoints(conf)
	if err := listen(conf, log, at.all...); err != nil {
		return err
	}
	names := []string{app.ComputeLock}
	if conf.NetworkDB == "" {
		names = append(names, app.NetworkLock)
	}
	lock, err := app.Lock(c.DataDir, names...)
	if err != nil {
		return errors.Join(err, closeAll(at.all...))
	}
	if err := app.ProtectData(c.DataDir, log, append(names, app.AgentDir, app.ImageDir)...); err != nil {
		return errors.Join(err, lock.Close(), closeAll(at.all...))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := app.OpenCloud(ctx, conf, c.DataDir, log)
	if err != nil {
		return errors.Join(err, closeAll(at.all...))
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	at.placement.of(all.Placement)
	at.compute.of(all.Compute)
	at.network.of(all.Network)
	if all.Image != nil {
		at.image.handler = all.Image.Handler
	}
	at.one.handler = all.Handler()
	shown, err := showCloud(all, at.pages, at.compute, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shown.Close()) }()
	stop, err := auditCloud(ctx, all, at.audits)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(s.out, agentLine(conf))
	if !conf.RunsAgent() {
		return serve(ctx, s, conf.Connections, log, at.all...)
	}
	return serveWithAgent(ctx, s, conf, all, log, at.all...)
}

// showCloud makes the console of a cloud the handler of its endpoint. compute is the endpoint of compute.
func showCloud(all *app.Cloud, at, compute *endpoint, log *slog.Logger) (*console.Console, error) {
	cloud, err := all.ConsoleCloud()
	if err != nil {
		return nil, err
	}
	cloud.Compute = compute.url()
	pages := console.New(console.Options{Cloud: cloud, Version: version(), TLS: at.cert != nil, Log: log})
	at.handler = pages
	return pages, nil
}

// auditCloud audits a cloud, if that is configured, until the function is called that it returns, and makes the metrics
// the handler of their endpoint.
func auditCloud(ctx context.Context, all *app.Cloud, at *endpoint) (stop func(), err error) {
	a, err := all.Auditor()
	if err != nil || a == nil {
		return func() {}, err
	}
	at.handler = a.Handler()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// patience is how long the output of the addresses waits for the agent, so that who reads them finds a host.
const patience = 30 * time.Second

// serveWithAgent serves the APIs at once, whatever the agent does, until ctx ends or a service or the agent fails. It
// prints the addresses when the agent has reported, or after a while.
func serveWithAgent(ctx context.Context, s streams, conf settings.Settings, all *app.Cloud, log *slog.Logger,
	apis ...*endpoint) error {
	ctx, stop := context.WithCancel(ctx)
	reported := make(chan struct{})
	done := sync.OnceFunc(func() { close(reported) })
	late := time.AfterFunc(patience, func() {
		log.Warn("agent has not reported yet; the services answer", "service", "agent")
		done()
	})
	defer late.Stop()
	var failed error
	var agent sync.WaitGroup
	agent.Go(func() {
		failed = all.KeepAgent(ctx, func() { late.Stop(); done() })
		late.Stop()
		stop()
	})
	for _, p := range apis {
		p.ready = reported
	}
	err := serve(ctx, s, conf.Connections, log, apis...)
	stop()
	agent.Wait()
	return errors.Join(err, failed)
}
