package main

import (
	"context"

	"github.com/openberth/berth/internal/settings"
)

type agentSnapshotCmd struct {
	ConfigFile []string `help:"Configuration file. If it selects PowerVM's I/O slots, the managed system is captured." type:"existingfile" placeholder:"FILE"`
	Sysfs      string   `help:"Machine to capture, a directory with the layout of /sys. Default: ${default}." default:"/sys" type:"path" placeholder:"DIR"`
}

// Run writes the machine as text, without MAC addresses and serial numbers, or the server's answer about a PowerVM
// system, with its location codes.
func (c *agentSnapshotCmd) Run(ctx context.Context, s streams) error {
	text, err := c.capture(ctx)
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}

func (c *agentSnapshotCmd) capture(ctx context.Context) ([]byte, error) {
	if len(c.ConfigFile) > 0 && settings.SlotsConfigured(c.ConfigFile...) {
		return settings.SystemSnapshot(ctx, c.ConfigFile...)
	}
	return settings.Snapshot(c.Sysfs)
}
