package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/backup"
)

type backupCmd struct {
	Dir string `arg:"" help:"Directory to be made, such as one with today's date." type:"path"`
	files
}

// Run saves the state of the services and the agent of this machine.
func (c *backupCmd) Run(ctx context.Context, s streams) error {
	conf, _, err := c.read(s)
	if err != nil {
		return err
	}
	parts, err := app.SavedStateOf(conf, c.DataDir)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	m := backup.Manifest{Made: time.Now().UTC(), Berth: version(), Host: host}
	if err := backup.Make(ctx, c.Dir, parts, m, s.out); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is complete\n", c.Dir)
	return nil
}

type restoreCmd struct {
	Dir   string        `arg:"" help:"Directory that berth backup has made." type:"path"`
	Only  []backup.Name `help:"Restore only this part: journal, placement, compute, network or images; may be repeated." placeholder:"PART"`
	Plan  bool          `help:"Check the backup and print what --apply would do, and change nothing (the default)."`
	Apply bool          `help:"Restore."`
	files
}

// Validate checks the flags.
func (c *restoreCmd) Validate() error {
	if c.Plan && c.Apply {
		return fault.New(fault.Invalid, "--plan and --apply exclude each other: --plan changes nothing; use one of them")
	}
	return nil
}

// Run checks a backup, and puts it back.
func (c *restoreCmd) Run(ctx context.Context, s streams) error {
	conf, _, err := c.read(s)
	if err != nil {
		return err
	}
	here, err := app.StateOf(conf, c.DataDir)
	if err != nil {
		return err
	}
	m, err := backup.Read(c.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "backup of %s, made at %s by %s\n", m.Host, m.Made.Format(time.RFC3339), m.Berth)
	actions, err := backup.Plan(c.Dir, here, c.Only)
	if err != nil {
		return err
	}
	for _, a := range actions {
		fmt.Fprintln(s.out, a)
	}
	if !c.Apply {
		fmt.Fprintln(s.out, "all files are as they were saved; nothing has been changed. Stop the services, and add --apply")
		return nil
	}
	if err := backup.Apply(ctx, actions, s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "start the services again, and look at `berth host list`: hosts have conditions for everything "+
		"that contradicts the backup")
	return nil
}
