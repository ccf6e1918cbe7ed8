package main

import "github.com/openberth/berth/internal/settings"

type agentSnapshotCmd struct {
	Sysfs string `help:"Machine to capture, a directory with the layout of /sys. Default: ${default}." default:"/sys" type:"path" placeholder:"DIR"`
}

// Run writes the machine as text, without MAC addresses and serial numbers.
func (c *agentSnapshotCmd) Run(s streams) error {
	text, err := settings.Snapshot(c.Sysfs)
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}
