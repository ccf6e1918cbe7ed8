package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// HostDisableCmd disables a host.
type HostDisableCmd struct {
	Host   string `arg:"" help:"Name of the host."`
	Reason string `help:"Why. It is shown to operators, and to users whose servers find no host."`
}

// Run disables the host; its servers stay.
func (c *HostDisableCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	if err := g.setHostEnabled(ctx, c.Host, false, c.Reason); err != nil {
		return err
	}
	return g.printHostResult(c.Host, "disabled", "no server is scheduled to it; its servers stay")
}

// HostEnableCmd reverses HostDisableCmd.
type HostEnableCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run enables the host.
func (c *HostEnableCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	if err := g.setHostEnabled(ctx, c.Host, true, ""); err != nil {
		return err
	}
	return g.printHostResult(c.Host, "enabled", "servers are scheduled to it again")
}

// setHostEnabled enables or disables the service of a host.
func (g *Globals) setHostEnabled(ctx context.Context, name string, enabled bool, reason string) error {
	if _, err := g.report(ctx, name); err != nil { // the error names similar hosts
		return err
	}
	services, err := g.compute().Services(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(services, func(s compute.ServiceDoc) bool { return s.Host == name })
	if i < 0 {
		return fault.New(fault.NotFound, "host %s was removed while it was changed", name)
	}
	return g.compute().SetServiceStatus(ctx, services[i], enabled, reason)
}

// printHostResult prints the result of a change of a host.
func (g *Globals) printHostResult(name, result, meaning string) error {
	doc := struct {
		Host   string `json:"host"`
		Result string `json:"result"`
	}{name, result}
	return g.print(doc, []string{"Host", "Result", "Meaning"}, [][]string{{name, result, meaning}})
}

// HostDrainCmd moves all servers away from a host.
type HostDrainCmd struct {
	Host   string        `arg:"" help:"Name of the host."`
	Device string        `help:"Disable only this device, or the VFs of this PF, and move only the servers that have it. The host is not disabled."`
	Plan   bool          `help:"Only show which server would move where, and which cannot. Changes nothing."`
	Cold   bool          `help:"Do not migrate live."`
	Reason string        `help:"Reason of the disabling. Default: ${default}." default:"draining"`
	Each   time.Duration `help:"How long to wait for the move of one server. Default: ${default}." default:"10m"`
}

// drainedServer is the result for one server.
type drainedServer struct {
	host.PlannedMove
	Result string `json:"result"` // planned, moved, failed, not moved
}

// Run disables the host or the device and moves the servers one after the other: live where possible, else cold, which
// stops the server for the move. It prints progress to standard error. It fails if a server remains.
func (c *HostDrainCmd) Run(g *Globals) error {
	ctx := g.untilInterrupted()
	c.Device = canonical(c.Device)
	if _, err := g.report(ctx, c.Host); err != nil {
		return err
	}
	if !c.Plan {
		if err := c.disable(ctx, g); err != nil {
			return err
		}
	}
	plan, err := g.hosts().PlanDrain(ctx, c.Host, c.Device)
	if err != nil {
		return err
	}
	list, left := []drainedServer{}, 0
	for _, p := range plan {
		one := drainedServer{PlannedMove: p, Result: "planned"}
		if c.Cold && one.Action == host.MoveLive {
			one.Action, one.Reason = host.MoveCold, "--cold"
		}
		if one.Action == "" {
			one.Result = "not moved"
		} else if !c.Plan {
			if err := c.move(ctx, g, &one); err != nil {
				return err
			}
		}
		if one.Result == "not moved" || one.Result == "failed" {
			left++
		}
		list = append(list, one)
	}
	if err := c.print(g, list); err != nil {
		return err
	}
	switch {
	case left > 0 && c.Plan:
		return fault.New(fault.Conflict, "%d of %d servers of host %s cannot be moved now", left, len(list), c.Host)
	case left > 0 && c.Device != "":
		return fault.New(fault.Conflict, "%d of %d servers keep %s of host %s, which is disabled; after the cause is "+
			"removed, run the command again, or enable the device with `berth device enable %s %s`", left, len(list),
			c.Device, c.Host, c.Host, c.Device)
	case left > 0:
		return fault.New(fault.Conflict, "%d of %d servers remain on host %s, which is disabled; after the cause is "+
			"removed, run the command again, or enable the host with `berth host enable %s`", left, len(list), c.Host, c.Host)
	}
	return nil
}

// disable disables the host or the device. A device that is disabled keeps its reason.
func (c *HostDrainCmd) disable(ctx context.Context, g *Globals) error {
	if c.Device == "" {
		return g.setHostEnabled(ctx, c.Host, false, c.Reason)
	}
	list, err := g.devicesAt(ctx, c.Host, c.Device)
	if err != nil || len(list) > 0 && !slices.ContainsFunc(list, func(d host.Device) bool { return !d.Disabled }) {
		return err
	}
	return (&DeviceDisableCmd{Host: c.Host, Address: c.Device, Reason: c.Reason, Wait: time.Minute, quiet: true}).Run(g)
}

// print prints the results.
func (c *HostDrainCmd) print(g *Globals, list []drainedServer) error {
	rows := [][]string{}
	for _, one := range list {
		rows = append(rows, []string{one.Name, dash(one.Action), dash(one.To), one.Result,
			dash(strings.Trim(one.Reason+"; "+one.Note, "; "))})
	}
	if err := g.print(list, []string{"Server", "Move", "To", "Result", "Reason"}, rows); err != nil || g.Output == "json" {
		return err
	}
	text := fmt.Sprintf("host %s is drained and disabled; `berth host enable %s` reverses that\n", c.Host, c.Host)
	switch {
	case c.Plan && c.Device != "":
		text = fmt.Sprintf("nothing was changed; `berth host drain %s --device %s` disables the device and moves the "+
			"servers\n", c.Host, c.Device)
	case c.Device != "":
		text = fmt.Sprintf("no server has %s of %s, and it is disabled; `berth device enable %s %s` reverses that\n",
			c.Device, c.Host, c.Host, c.Device)
	case c.Plan:
		text = fmt.Sprintf("nothing was changed; `berth host drain %s` disables the host and moves the servers\n", c.Host)
	}
	for _, one := range list {
		if !c.Plan && one.Result != "moved" {
			return nil // the error says what remains
		}
	}
	_, err := fmt.Fprint(g.stdout(), text)
	return err
}

// move moves one server and sets its result. A live migration that fails is followed by a cold one. It returns an error
// only if the user has interrupted the command.
func (c *HostDrainCmd) move(ctx context.Context, g *Globals, one *drainedServer) error {
	limited, cancel := context.WithTimeout(ctx, c.Each)
	defer cancel()
	s, err := c.moveBy(limited, g, one)
	if one.Action == host.MoveLive && limited.Err() == nil && (err != nil || hostOf(s) == c.Host) {
		live := faultOf(s)
		if err != nil {
			live = fault.TextOf(err)
		}
		one.Action, one.Reason = host.MoveCold, "the live migration failed: "+live
		s, err = c.moveBy(limited, g, one)
	}
	switch {
	case ctx.Err() != nil:
		return &StoppedWaiting{Cause: ctx.Err(), Look: "berth server show " + one.Name}
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		one.Result, one.Reason = "failed", fmt.Sprintf("not finished after %s; the move continues", c.Each)
	case err != nil:
		one.Result, one.Reason = "failed", fault.TextOf(err)
	case hostOf(s) == c.Host:
		one.Result, one.Reason = "failed", faultOf(s)
		if one.Reason == "" {
			one.Reason = "the server is still on the host; `berth server why " + one.Name + "` has the cause"
		}
	default:
		one.Result, one.To = "moved", hostOf(s)
	}
	return nil
}

// moveBy requests the move, waits until it has ended, and confirms it if it was cold.
func (c *HostDrainCmd) moveBy(ctx context.Context, g *Globals, one *drainedServer) (compute.Server, error) {
	client, watch := g.compute(), g.watch()
	watch.print(one.Server, one.Name, one.Action+" migration from "+c.Host)
	action, args := "migrate", map[string]any{"host": nil}
	if one.Action == host.MoveLive {
		action, args = "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}
	}
	watch.mark(ctx, one.Server)
	if err := client.Act(ctx, one.Server, action, args); err != nil {
		return compute.Server{}, err
	}
	s, err := watch.settled(ctx, one.Server)
	if err != nil || s.Status != "VERIFY_RESIZE" {
		return s, err
	}
	if err := client.Act(ctx, one.Server, "confirmResize", nil); err != nil {
		return s, err
	}
	return watch.confirmed(ctx, one.Server)
}
