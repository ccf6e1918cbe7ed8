package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// DeviceDisableCmd takes a device out of service.
type DeviceDisableCmd struct {
	Host    string        `arg:"" help:"Host that has the device."`
	Address string        `arg:"" help:"Address of the device, such as 0000:17:00.0. A PF is disabled with all its VFs."`
	Reason  string        `required:"" help:"Why. It is shown to operators."`
	Until   string        `help:"When the device is enabled again: a time such as 2026-03-01T08:00:00Z, or a duration such as 48h. Default: never."`
	Wait    time.Duration `help:"How long to wait until the agent of the host has disabled it." default:"1m"`

	quiet bool             // print nothing
	pause time.Duration    // between two polls; 0: one second
	now   func() time.Time // nil: time.Now
}

// Validate names the host as the missing argument if the only argument is an address.
func (c *DeviceDisableCmd) Validate() error { return needsHost("disable", c.Host, c.Address) }

// Run requests it, and waits until the agent of the host reports it. Compute schedules nothing to the device from the
// request on.
func (c *DeviceDisableCmd) Run(g *Globals) error {
	c.Address = canonical(c.Address)
	until, err := c.until()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.untilInterrupted(), c.Wait)
	defer cancel()
	if _, err := g.report(ctx, c.Host); err != nil { // the error names similar hosts
		return err
	}
	made, err := g.hosts().DisableDevice(ctx, c.Host, c.Address, host.DisableDevice{Reason: c.Reason, Until: until})
	if err != nil {
		return err
	}
	holders := []string{}
	err = g.untilDevice(ctx, c.Host, c.Address, c.pause, func(list []host.Device) bool {
		done := true
		holders = holders[:0]
		for _, d := range list {
			if d.Holder != "" {
				holders = append(holders, d.Holder)
			}
			for _, x := range d.Disablements {
				done = done && (x.ID != made.ID || !x.Requested)
			}
		}
		return done
	})
	if err != nil {
		return c.notYet(g, ctx, err)
	}
	if c.quiet {
		return nil
	}
	text := "no further server gets it"
	if len(holders) > 0 {
		known := g.consumerNames(ctx, holders)
		names := make([]string, 0, len(holders))
		for _, id := range holders {
			names = append(names, cmp.Or(known.of(id), id))
		}
		text += "; held by " + strings.Join(names, ", ") + ": `berth host drain " + c.Host + " --device " + c.Address +
			"` moves them"
	}
	return g.printDevice(made, c.Host, c.Address, "disabled", text)
}

// until reads the option.
func (c *DeviceDisableCmd) until() (time.Time, error) {
	now := time.Now
	if c.now != nil {
		now = c.now
	}
	if c.Until == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(c.Until); err == nil {
		return now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, c.Until)
	if err != nil {
		return at, fault.New(fault.Invalid, "--until is %q, which is neither a time such as 2026-03-01T08:00:00Z nor a "+
			"duration such as 48h", c.Until)
	}
	return at, nil
}

// notYet returns the error of a request whose effect was not seen in time.
func (c *DeviceDisableCmd) notYet(g *Globals, ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := g.untilInterrupted().Err(); cause != nil {
		return &StoppedWaiting{Cause: cause, Look: "berth device show " + c.Host + " " + c.Address}
	}
	return fault.New(fault.Unavailable, "the agent of host %s has not disabled %s after %s: nothing is scheduled to it, "+
		"but a server that was scheduled before may still get it; the request remains until the agent answers", c.Host,
		c.Address, c.Wait)
}

// DeviceEnableCmd puts a device back into service.
type DeviceEnableCmd struct {
	Host    string        `arg:"" help:"Host that has the device."`
	Address string        `arg:"" help:"Address of the device, such as 0000:17:00.0."`
	Wait    time.Duration `help:"How long to wait until the agent of the host has checked and enabled it." default:"2m"`

	pause time.Duration // between two polls; 0: one second
}

// Validate names the host as the missing argument if the only argument is an address.
func (c *DeviceEnableCmd) Validate() error { return needsHost("enable", c.Host, c.Address) }

// Run requests it, and waits for its result. A device that fails its health check again stays disabled; then the error
// has the reason.
func (c *DeviceEnableCmd) Run(g *Globals) error {
	c.Address = canonical(c.Address)
	ctx, cancel := context.WithTimeout(g.untilInterrupted(), c.Wait)
	defer cancel()
	before, err := g.devicesAt(ctx, c.Host, c.Address)
	if err != nil {
		return err
	}
	if err := g.hosts().EnableDevice(ctx, c.Host, c.Address); err != nil {
		return err
	}
	lifted := ownDisablements(before, c.Address)
	var failed string
	err = g.untilDevice(ctx, c.Host, c.Address, c.pause, func(list []host.Device) bool {
		now := ownDisablements(list, c.Address)
		for id, x := range now {
			if _, old := lifted[id]; old {
				return false
			}
			failed = x.Reason
		}
		return true
	})
	switch {
	case err == nil && failed != "":
		return fault.New(fault.Conflict, "%s of %s stays disabled: %s", c.Address, c.Host, failed)
	case err == nil:
		return g.printDevice(struct {
			Host    string `json:"host"`
			Address string `json:"address"`
		}{c.Host, c.Address}, c.Host, c.Address, "enabled", "servers can get it again")
	case ctx.Err() == nil:
		return err
	}
	if cause := g.untilInterrupted().Err(); cause != nil {
		return &StoppedWaiting{Cause: cause, Look: "berth device show " + c.Host + " " + c.Address}
	}
	return fault.New(fault.Unavailable, "the agent of host %s has not enabled %s after %s: the request remains until it "+
		"has answered; see `berth device show` and `berth host show`", c.Host, c.Address, c.Wait)
}

// canonical returns an address in the form of reports. One that is not valid stays: compute refuses it.
func canonical(address string) string {
	at, err := pci.ParseAddress(address)
	if err != nil {
		return address
	}
	return at.String()
}

// ownDisablements returns the disablements of an address itself, by id.
func ownDisablements(list []host.Device, address string) map[string]host.DisabledDevice {
	out := map[string]host.DisabledDevice{}
	for _, d := range list {
		for _, x := range d.Disablements {
			if x.Address == address {
				out[x.ID] = x
			}
		}
	}
	return out
}

// devicesAt returns the devices of a host at an address and the VFs of a PF there.
func (g *Globals) devicesAt(ctx context.Context, hostName, address string) ([]host.Device, error) {
	h, err := g.report(ctx, hostName)
	return slices.DeleteFunc(h.Devices, func(d host.Device) bool {
		return d.Address != address && d.Parent != address
	}), err
}

// untilDevice polls the devices at an address until done returns true, or ctx ends.
func (g *Globals) untilDevice(ctx context.Context, hostName, address string, pause time.Duration,
	done func([]host.Device) bool) error {
	for {
		list, err := g.devicesAt(ctx, hostName, address)
		if err != nil {
			return err
		}
		if done(list) {
			return nil
		}
		if err := backoff.Sleep(ctx, cmp.Or(pause, time.Second)); err != nil {
			return err
		}
	}
}

// printDevice prints the result of a change of a device.
func (g *Globals) printDevice(doc any, hostName, address, result, meaning string) error {
	if g.Output == "json" {
		return g.print(doc, nil, nil)
	}
	_, err := fmt.Fprintf(g.stdout(), "%s of %s is %s: %s\n", address, hostName, result, meaning)
	return err
}

// disabledText returns why a device is disabled, and until when.
func disabledText(d host.Device) string {
	var out []string
	for _, x := range d.Disablements {
		text := x.Reason
		switch {
		case x.Check:
			text = "health check: " + text
		case x.Address != d.Address:
			text = x.Address + ": " + text
		}
		if !x.Until.IsZero() {
			text += ", until " + localTime(x.Until)
		}
		switch {
		case x.Requested:
			text += " (not confirmed by the agent yet)"
		case x.Lifted:
			text += " (to be enabled)"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
