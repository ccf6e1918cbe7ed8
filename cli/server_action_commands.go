package cli

import (
	"context"
	"errors"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// Waiting is the flag of commands that start an operation.
type Waiting struct {
	Wait bool `help:"Wait until it has ended; fail if it was not done."`
}

// act requests an action for each server, and prints for each that it was requested. With w.Wait it waits for the
// operations, prints the servers, and fails if one of them is not as the action should have left it.
func (g *Globals) act(w Waiting, servers []string, action string, args map[string]any) error {
	ctx, cancel := g.context()
	defer cancel()
	watch := g.watch()
	results, good, failed := g.eachServer(ctx, servers, "requested", func(ctx context.Context, s compute.Server) error {
		if w.Wait {
			watch.mark(ctx, s.ID)
		}
		return g.compute().Act(ctx, s.ID, action, args)
	})
	if !w.Wait {
		return errors.Join(g.printResults(results), failed)
	}
	var list []compute.Server
	for _, before := range good {
		s, err := watch.settled(ctx, before.ID)
		if err == nil {
			list = append(list, s)
			err = outcomes[action].failure(before, s)
		} else {
			err = of(before.Name, len(servers), err)
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			return failed
		}
	}
	if err := g.printWaited(ctx, list); err != nil {
		return err
	}
	return errors.Join(failed, failures(list))
}

// ServerActionCmd requests one action, without arguments, for each server.
type ServerActionCmd struct {
	Servers []string `arg:"" name:"server" help:"Names or ids."`
	Waiting

	action string // the key of the Compute API
}

// Run requests the action.
func (c *ServerActionCmd) Run(g *Globals) error { return g.act(c.Waiting, c.Servers, c.action, nil) }

// ServerRebootCmd reboots servers.
type ServerRebootCmd struct {
	Servers []string `arg:"" name:"server" help:"Names or ids."`
	Hard    bool     `help:"Also servers that do not run or are in ERROR."`
	Waiting
}

// Run requests the action.
func (c *ServerRebootCmd) Run(g *Globals) error {
	kind := "SOFT"
	if c.Hard {
		kind = "HARD"
	}
	return g.act(c.Waiting, c.Servers, "reboot", map[string]any{"type": kind})
}

// ServerRebuildCmd rebuilds a server.
type ServerRebuildCmd struct {
	Server string `arg:"" help:"Name or id."`
	Image  string `help:"Name or id of the image; without it the server has no image." placeholder:"IMAGE"`
	Waiting
}

// Run requests the action.
func (c *ServerRebuildCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	image, err := imageID(ctx, g, c.Image)
	if err != nil {
		return err
	}
	return g.act(c.Waiting, []string{c.Server}, "rebuild", map[string]any{"imageRef": image})
}

// ServerResizeCmd resizes a server.
type ServerResizeCmd struct {
	Server string `arg:"" help:"Name or id."`
	Flavor string `required:"" help:"Name or id of the new flavor."`
	Waiting
}

// Run requests the action.
func (c *ServerResizeCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	f, err := g.compute().Flavor(ctx, c.Flavor)
	if err != nil {
		return err
	}
	return g.act(c.Waiting, []string{c.Server}, "resize", map[string]any{"flavorRef": f.ID})
}

// ServerMigrateCmd moves a server.
type ServerMigrateCmd struct {
	Server string `arg:"" help:"Name or id."`
	Live   bool   `help:"Live-migrate. Every device must be requested as live-migratable."`
	Host   string `help:"To this host and no other."`
	Waiting
}

// Run requests the action.
func (c *ServerMigrateCmd) Run(g *Globals) error {
	if c.Live {
		return g.act(c.Waiting, []string{c.Server}, "os-migrateLive", map[string]any{"host": orNull(c.Host),
			"block_migration": "auto"})
	}
	return g.act(c.Waiting, []string{c.Server}, "migrate", map[string]any{"host": orNull(c.Host)})
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// ServerEvacuateCmd evacuates servers.
type ServerEvacuateCmd struct {
	Servers []string `arg:"" optional:"" name:"server" help:"Names or ids."`
	From    string   `help:"All servers of this host." placeholder:"HOST"`
	Host    string   `help:"To this host and no other."`
	// without it a server is refused whose disk is on the host that is down
	LoseDisk bool `help:"Build guests with new disks from their images. What is on their disks is lost."`
	Waiting
}

// Validate checks that servers are given.
func (c *ServerEvacuateCmd) Validate() error {
	if len(c.Servers) == 0 && c.From == "" {
		return fault.New(fault.Invalid, "no servers given: name servers, or a host with --from")
	}
	return nil
}

// Run requests the action.
func (c *ServerEvacuateCmd) Run(g *Globals) error {
	servers := c.Servers
	if c.From != "" {
		ctx, cancel := g.context()
		defer cancel()
		if _, err := g.report(ctx, c.From); err != nil {
			return err
		}
		list, err := g.compute().Servers(ctx, compute.ListServers{Host: c.From, AllProjects: true})
		if err != nil {
			return err
		}
		for _, s := range list {
			servers = append(servers, s.ID)
		}
	}
	if !c.LoseDisk {
		ctx, cancel := g.context()
		defer cancel()
		if err := g.refuseLostDisks(ctx, servers); err != nil {
			return err
		}
	}
	args := map[string]any{}
	if c.Host != "" {
		args["host"] = c.Host
	}
	return g.act(c.Waiting, servers, "evacuate", args)
}
