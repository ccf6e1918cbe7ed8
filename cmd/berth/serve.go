package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/internal/settings"
)

// files are the flags of every command that reads configuration files.
type files struct {
	ConfigFile []string `help:"Configuration file in OpenStack's syntax; may be repeated, later ones have priority." type:"existingfile" placeholder:"FILE"`
	DataDir    string   `help:"Directory of durable state. Default: ${default}." default:"./berth-data" type:"path" placeholder:"DIR"`
}

// read reads the settings and creates a log with their level.
func (f files) read(s streams) (settings.Settings, *slog.Logger, error) {
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: level}))
	conf, err := settings.Read(log, f.ConfigFile...)
	if err != nil {
		return conf, log, err
	}
	if conf.Debug {
		level.Set(slog.LevelDebug)
	}
	if conf.LogFile != "" {
		file, err := openLog(conf.LogFile)
		if err != nil {
			return conf, log, err
		}
		log = slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: level}))
	}
	return conf, log, nil
}

// placementFiles are the flags of the Placement commands. Without --config-file they read the same files as OpenStack's
// Placement.
type placementFiles struct{ files }

// read reads the settings, and logs which files it found.
func (f placementFiles) read(s streams) (settings.Settings, *slog.Logger, error) {
	found := len(f.ConfigFile) == 0
	if found {
		var err error
		if f.ConfigFile, err = settings.PlacementFiles(); err != nil {
			return settings.Settings{}, nil, err
		}
	}
	conf, log, err := f.files.read(s)
	if err == nil && found {
		log.Info("no --config-file given; using the default files", "files", f.ConfigFile)
	}
	return conf, log, err
}

// databaseURL reads the settings and returns the URL of Placement's database.
func (f placementFiles) databaseURL(s streams) (string, error) {
	conf, _, err := f.read(s)
	if err != nil {
		return "", err
	}
	return app.PlacementURL(conf, f.DataDir)
}

// endpoint is one API to serve.
type endpoint struct {
	name    string
	flag    string // the flag that sets the address
	address string
	noauth  bool // every client that reaches it is admin

	listener net.Listener
	handler  http.Handler
	lost     <-chan struct{} // closed when the service must stop; nil: never
}

// listen opens all addresses or none, so that no service starts whose API cannot be served.
func listen(endpoints ...*endpoint) error {
	for i, p := range endpoints {
		l, err := httpserver.Listen(p.flag, p.address, p.noauth)
		if err != nil {
			return errors.Join(err, closeAll(endpoints[:i]...))
		}
		p.listener = l
	}
	return nil
}

func closeAll(endpoints ...*endpoint) (err error) {
	for _, p := range endpoints {
		err = errors.Join(err, p.listener.Close())
	}
	return err
}

// serve prints the addresses and serves until ctx ends, one endpoint fails, or one service is lost.
func serve(ctx context.Context, s streams, connections httpserver.ConnLimits, log *slog.Logger,
	endpoints ...*endpoint) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range endpoints {
		group.Go(func() error {
			select {
			case <-ctx.Done():
			case <-p.lost: // Close of the service returns the reason
				cancel()
			}
			return nil
		})
		fmt.Fprintf(s.out, "%s: http://%s\n", p.name, p.listener.Addr())
		h := p.handler
		if p.noauth {
			h = httpserver.LoopbackOnly(h)
		}
		group.Go(func() error { return httpserver.Serve(ctx, p.listener, h, connections, log) })
	}
	return group.Wait()
}

type upCmd struct {
	files
	ListenPlacement string `help:"Address of the Placement API. Default: ${default}." default:"127.0.0.1:8778" env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
	ListenCompute   string `help:"Address of the Compute API. Default: ${default}." default:"127.0.0.1:8774" env:"BERTH_LISTEN_COMPUTE" placeholder:"HOST:PORT"`
}

// Run runs the cloud until it is interrupted.
func (c *upCmd) Run(ctx context.Context, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := conf.NoAuth2("noauth2"); err != nil {
		return err
	}
	if err := conf.CheckOrigins("noauth2"); err != nil {
		return err
	}
	placement := &endpoint{name: "placement", flag: "--listen-placement", address: c.ListenPlacement, noauth: true}
	compute := &endpoint{name: "compute", flag: "--listen-compute", address: c.ListenCompute, noauth: true}
	if err := listen(placement, compute); err != nil {
		return err
	}
	lock, err := app.Lock(c.DataDir)
	if err != nil {
		return errors.Join(err, closeAll(placement, compute))
	}
	if err := app.ProtectData(c.DataDir, log, app.LockFile, app.AgentDir); err != nil {
		return errors.Join(err, lock.Close(), closeAll(placement, compute))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := app.Up(ctx, conf, c.DataDir, log)
	if err != nil {
		return errors.Join(err, closeAll(placement, compute))
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	placement.handler, placement.lost = all.Placement.Handler, all.Placement.Lost
	compute.handler, compute.lost = all.Compute.Handler, all.Compute.Lost
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-all.AgentEnded(): // Close returns why
			stop()
		case <-ctx.Done():
		}
	}()
	return serve(ctx, s, conf.Connections, log, placement, compute)
}

type placementCmd struct {
	Run placementRunCmd `cmd:"" default:"withargs" help:"Run Placement (the default)."`
	DB  dbCmd           `cmd:"" name:"db" help:"Manage the Placement database."`
}

type placementRunCmd struct {
	placementFiles
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8778" placeholder:"HOST:PORT"`
}

// Run runs Placement until it is interrupted.
func (c *placementRunCmd) Run(ctx context.Context, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := conf.CheckOrigins("keystone"); err != nil {
		return err
	}
	at := &endpoint{name: "placement", flag: "--listen", address: c.Listen, noauth: conf.NoAuth2("keystone") == nil}
	if err := listen(at); err != nil {
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
	return app.OpenPlacement(ctx, url, conf, "keystone", log)
}

type dbCmd struct {
	Sync    dbSyncCmd    `cmd:"" help:"Create the schema of OpenStack's Placement on an empty database."`
	Version dbVersionCmd `cmd:"" help:"Print the revision of the database."`
}

type dbSyncCmd struct{ placementFiles }

// Run creates the schema; it does nothing if the database has it.
func (c *dbSyncCmd) Run(ctx context.Context, s streams) error {
	url, err := c.databaseURL(s)
	if err != nil {
		return err
	}
	created, version, err := app.SyncPlacement(ctx, url)
	if err != nil {
		return err
	}
	if !created {
		_, err = fmt.Fprintf(s.out, "nothing to do: the database is at revision %s\n", version)
		return err
	}
	_, err = fmt.Fprintf(s.out, "created the schema at revision %s\n", version)
	return err
}

type dbVersionCmd struct{ placementFiles }

// Run prints the revision.
func (c *dbVersionCmd) Run(ctx context.Context, s streams) error {
	url, err := c.databaseURL(s)
	if err != nil {
		return err
	}
	version, err := app.PlacementVersion(ctx, url)
	if err == nil {
		_, err = fmt.Fprintln(s.out, cmp.Or(version, "the database is empty"))
	}
	return err
}

type computeCmd struct {
	files
	Listen string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8774" placeholder:"HOST:PORT"`
}

// Run runs compute until it is interrupted. It uses the Placement API at --placement-url.
func (c *computeCmd) Run(ctx context.Context, g *cli.Globals, s streams) (err error) {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := conf.NoAuth2("noauth2"); err != nil {
		return err
	}
	at := &endpoint{name: "compute", flag: "--listen", address: c.Listen, noauth: true}
	if err := listen(at); err != nil {
		return err
	}
	if conf.ComputeDB == "" { // the database is in the data directory
		lock, err := app.Lock(c.DataDir)
		if err != nil {
			return errors.Join(err, closeAll(at))
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
		if err := app.ProtectData(c.DataDir, log, app.LockFile); err != nil {
			return errors.Join(err, closeAll(at))
		}
	}
	service, err := c.open(ctx, g.PlacementURL, conf, log)
	if err != nil {
		return errors.Join(err, closeAll(at))
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	at.handler, at.lost = service.Handler, service.Lost
	return serve(ctx, s, conf.Connections, log, at)
}

func (c *computeCmd) open(ctx context.Context, placementURL string, conf settings.Settings,
	log *slog.Logger) (*app.Service, error) {
	url, err := app.ComputeURL(conf, c.DataDir)
	if err != nil {
		return nil, err
	}
	return app.OpenCompute(ctx, url, placementURL, nil, conf, log)
}

type agentCmd struct {
	Run  agentRunCmd  `cmd:"" default:"withargs" help:"Run the agent (the default)."`
	Plan agentPlanCmd `cmd:"" help:"Show what the agent would change in Placement now. Changes nothing."`

	Preflight agentPreflightCmd `cmd:"" help:"Show what prevents this host from reporting its devices to Placement, or what would change."`

	Check    agentCheckCmd    `cmd:"" help:"Show how a configuration applies to each device of this machine, or of a captured one. Needs no service."`
	Snapshot agentSnapshotCmd `cmd:"" help:"Write this machine's PCI devices and NUMA nodes as text, for berth agent check and [berth] sysfs."`

	Adopt   agentAdoptCmd   `cmd:"" help:"Show the effect of following compute's assignments although they are older or of another cloud; with --yes, follow them."`
	Destroy agentDestroyCmd `cmd:"" help:"Destroy a guest of this host that compute does not assign to it. Stop the agent first."`
}

type agentRunCmd struct{ files }

// Run runs the agent until it is interrupted. It listens on no port; it connects to --placement-url and --compute-url.
func (c *agentRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	agent, err := app.NewAgent(conf, filepath.Join(c.DataDir, "agent"), app.TCPEndpoints(g.PlacementURL, g.ComputeURL),
		log)
	if err != nil {
		return err
	}
	if err := app.ProtectData(c.DataDir, log, app.AgentDir); err != nil {
		return err
	}
	return agent.Run(ctx)
}

type agentPlanCmd struct{ files }

// Run prints the plan. It fails if the plan cannot be executed.
func (c *agentPlanCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, log, err := c.read(s)
	if err != nil {
		return err
	}
	return app.PrintPlan(ctx, conf, filepath.Join(c.DataDir, "agent"), app.TCPEndpoints(g.PlacementURL, g.ComputeURL), log,
		s.out, g.Output == "json")
}
