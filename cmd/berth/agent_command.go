package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

type agentCmd struct {
	Run  agentRunCmd  `cmd:"" default:"withargs" help:"Run the agent (the default with flags)."`
	Plan agentPlanCmd `cmd:"" help:"Show what the agent would change in Placement now. Changes nothing."`

	Preflight agentPreflightCmd `cmd:"" help:"Show what prevents this host from reporting its devices to Placement, or what would change."`

	Check    agentCheckCmd    `cmd:"" help:"Show how a configuration applies to each device of this machine, or of a captured one. Needs no service."`
	Snapshot agentSnapshotCmd `cmd:"" help:"Write this machine's PCI devices, network interfaces and NUMA nodes as text, for berth agent check and [berth] sysfs."`

	Networks agentNetworksCmd `cmd:"" help:"List the networks that the agent connects by Linux bridges, as the kernel has them, with their leases. Needs no service."`

	IOSlots agentIOSlotsCmd `cmd:"" name:"ioslots" help:"List the physical I/O slots of a PowerVM system as paragraphs of an inventory file. Needs no service."`
	Explain agentExplainCmd `cmd:"" help:"Show whether guests may have an I/O slot, and what each paragraph of the inventory files says about it."`

	Images agentImagesCmd `cmd:"" help:"List the copies of images on this host with what they take on its disk. Needs no service."`

	Adopt   agentAdoptCmd   `cmd:"" help:"Show the effect of following compute's assignments although they are older or of another cloud; with --yes, follow them."`
	Destroy agentDestroyCmd `cmd:"" help:"Destroy a guest of this host that compute does not assign to it. Stop the agent first."`
}

type agentRunCmd struct{ files }

// Run runs the agent until it is interrupted. It listens on no port; it connects to --placement-url and
// --compute-url, or to the addresses of [placement] and [compute].
func (c *agentRunCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, services, log, err := c.readAgent(g, s)
	if err != nil {
		return err
	}
	agent, err := app.NewAgent(conf, filepath.Join(c.DataDir, "agent"), services, log)
	if err != nil {
		return err
	}
	if err := app.ProtectData(c.DataDir, log, app.AgentDir); err != nil {
		return err
	}
	return runWithManager(ctx, s, agent, log)
}

// runWithManager runs the agent, and reports to the service manager that it is ready when it has its journal and its
// locks: it needs no service for that. It works while its state machine takes events.
func runWithManager(ctx context.Context, s streams, agent *loop.Agent, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer cancel()
		return agent.Run(ctx)
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-agent.Started:
		}
		return s.manager.Run(ctx, func(context.Context) { agent.Report() }, log)
	})
	return group.Wait()
}

type agentPlanCmd struct{ files }

// Run prints the plan. It fails if the plan cannot be executed.
func (c *agentPlanCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	conf, services, log, err := c.readAgent(g, s)
	if err != nil {
		return err
	}
	return app.PrintPlan(ctx, conf, filepath.Join(c.DataDir, "agent"), services, log, s.out, g.Output == "json")
}

// readAgent reads the configuration of an agent. It returns the configuration, and the clients of the services that it
// and the flags name.
func (f files) readAgent(g *cli.Globals, s streams) (conf settings.Settings, services app.Endpoints, log *slog.Logger,
	err error) {
	if conf, log, err = f.read(s); err == nil {
		services, err = app.TCPEndpoints(conf, g.PlacementURL, g.ComputeURL, g.TLSFiles())
	}
	return conf, services, log, err
}

// agent creates the agent of the data directory. The agent's directory must exist, so that a mistyped path is an error
// instead of a new, empty agent.
func (f files) agent(g *cli.Globals, s streams) (*loop.Agent, error) {
	conf, services, log, err := f.readAgent(g, s)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(f.DataDir, "agent")
	if _, err := os.Stat(dir); err != nil {
		return nil, fault.New(fault.NotFound, "no agent has run in this directory: %w; set its directory with --data-dir",
			err)
	}
	return app.NewAgent(conf, dir, services, log)
}
