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
	"github.com/openberth/berth/internal/cloud"
)

// files are the flags of every command that reads a configuration.
type files struct {
	ConfigFile []string `help:"Configuration file in OpenStack's syntax; may be repeated, later ones win." type:"existingfile" placeholder:"FILE"`
	DataDir    string   `help:"Where durable state lies." default:"./berth-data" type:"path" placeholder:"DIR"`
}

// read reads the settings, and makes a log at the level that they ask for.
func (f files) read(s streams) (cloud.Settings, *slog.Logger, error) {
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: level}))
	settings, err := cloud.ReadSettings(log, f.ConfigFile...)
	if settings.Debug {
		level.Set(slog.LevelDebug)
	}
	return settings, log, err
}

// service is one API on one listener.
type service struct {
	name    string
	listen  string
	handler http.Handler
}

// serve answers until ctx ends. It says where, on standard output, once all listen.
func serve(ctx context.Context, s streams, log *slog.Logger, services ...service) error {
	on := map[net.Listener]http.Handler{}
	for _, one := range services {
		l, err := cloud.Listen(one.listen, true)
		if err != nil {
			for open := range on {
				err = errors.Join(err, open.Close())
			}
			return err
		}
		on[l] = one.handler
		fmt.Fprintf(s.out, "%s: http://%s\n", one.name, l.Addr())
	}
	return serveOn(ctx, log, on)
}

// serveOn answers on each listener with its handler until ctx ends or one fails.
func serveOn(ctx context.Context, log *slog.Logger, on map[net.Listener]http.Handler) error {
	group, ctx := errgroup.WithContext(ctx)
	for l, h := range on {
		group.Go(func() error { return cloud.Serve(ctx, l, h, log) })
	}
	return group.Wait()
}

type upCmd struct {
	files
	ListenPlacement string `help:"Address of the Placement API." default:"127.0.0.1:8778" env:"BERTH_LISTEN_PLACEMENT" placeholder:"HOST:PORT"`
	ListenCompute   string `help:"Address of the Compute API." default:"127.0.0.1:8774" env:"BERTH_LISTEN_COMPUTE" placeholder:"HOST:PORT"`
}

// Run runs the cloud until it is interrupted.
func (c *upCmd) Run(ctx context.Context, s streams) (err error) {
	settings, log, err := c.read(s)
	if err != nil {
		return err
	}
	all, err := cloud.Up(ctx, settings, c.DataDir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	return serve(ctx, s, log, service{"placement", c.ListenPlacement, all.Placement.Handler}, service{"compute", c.ListenCompute, all.Compute.Handler})
}

type placementCmd struct {
	Run placementRunCmd `cmd:"" default:"withargs" help:"Run placement (the default)."`
	DB  dbCmd           `cmd:"" name:"db" help:"See to placement's database."`
}

type placementRunCmd struct {
	files
	Listen string `help:"Address to listen on." default:"127.0.0.1:8778" placeholder:"HOST:PORT"`
}

// Run runs placement until it is interrupted.
func (c *placementRunCmd) Run(ctx context.Context, s streams) (err error) {
	settings, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := settings.NoAuth2("keystone"); err != nil {
		return err
	}
	url, err := settings.PlacementURL(c.DataDir)
	if err != nil {
		return err
	}
	house, err := cloud.OpenPlacement(ctx, url, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, house.Close()) }()
	return serve(ctx, s, log, service{"placement", c.Listen, house.Handler})
}

type dbCmd struct {
	Sync    dbSyncCmd    `cmd:"" help:"Create the schema of OpenStack's Placement on an empty database."`
	Version dbVersionCmd `cmd:"" help:"Print the revision of the database."`
}

type dbSyncCmd struct{ files }

// Run creates the schema; on a database that has it, nothing is done.
func (c *dbSyncCmd) Run(ctx context.Context, s streams) error {
	settings, _, err := c.read(s)
	if err != nil {
		return err
	}
	url, err := settings.PlacementURL(c.DataDir)
	if err != nil {
		return err
	}
	created, version, err := cloud.SyncPlacement(ctx, url)
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

type dbVersionCmd struct{ files }

// Run prints the revision.
func (c *dbVersionCmd) Run(ctx context.Context, s streams) error {
	settings, _, err := c.read(s)
	if err != nil {
		return err
	}
	url, err := settings.PlacementURL(c.DataDir)
	if err != nil {
		return err
	}
	version, err := cloud.PlacementVersion(ctx, url)
	if err == nil {
		_, err = fmt.Fprintln(s.out, cmp.Or(version, "the database is empty"))
	}
	return err
}

type computeCmd struct {
	files
	Listen string `help:"Address to listen on." default:"127.0.0.1:8774" placeholder:"HOST:PORT"`
}

// Run runs compute until it is interrupted. Placement is where --placement-url says.
func (c *computeCmd) Run(ctx context.Context, g *cli.Globals, s streams) (err error) {
	settings, log, err := c.read(s)
	if err != nil {
		return err
	}
	if err := settings.NoAuth2("noauth2"); err != nil {
		return err
	}
	url, err := settings.ComputeURL(c.DataDir)
	if err != nil {
		return err
	}
	house, err := cloud.OpenCompute(ctx, url, g.PlacementURL, nil, settings, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, house.Close()) }()
	return serve(ctx, s, log, service{"compute", c.Listen, house.Handler})
}

type agentCmd struct {
	Run  agentRunCmd  `cmd:"" default:"withargs" help:"Run the agent (the default)."`
	Plan agentPlanCmd `cmd:"" help:"Say what the agent would change in Placement now, and change nothing."`
}

type agentRunCmd struct{ files }

// Run runs the agent until it is interrupted. It listens on nothing: it asks at --placement-url and --compute-url.
func (c *agentRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	settings, log, err := c.read(s)
	if err != nil {
		return err
	}
	agent, err := cloud.NewAgent(settings, filepath.Join(c.DataDir, "agent"), cloud.OverTCP(g.PlacementURL, g.ComputeURL), log)
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

type agentPlanCmd struct{ files }

// Run prints the plan. A plan that may not be carried out is a failure.
func (c *agentPlanCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	settings, log, err := c.read(s)
	if err != nil {
		return err
	}
	return cloud.PrintPlan(ctx, settings, filepath.Join(c.DataDir, "agent"), cloud.OverTCP(g.PlacementURL, g.ComputeURL), log, s.out, g.Output == "json")
}
