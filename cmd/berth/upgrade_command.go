package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/upgrade"
)

type upgradeCmd struct {
	Check upgradeCheckCmd `cmd:"" help:"Try this program on copies of the databases of this machine, read every record, and report what prevents an upgrade. It changes nothing, and services may run."`
}

type upgradeCheckCmd struct {
	files
	WorkDir   string `help:"Directory for copies of databases, which are removed at the end. Default: that for temporary files." type:"existingdir" placeholder:"DIR"`
	BackupDir string `help:"Directory of backups, whose free space is compared with the size of one. Default: the data directory, or the present one." type:"existingdir" placeholder:"DIR"`
}

// Help explains the exit statuses.
func (c *upgradeCheckCmd) Help() string {
	return "Run it with the new program and the present configuration, before the new one is installed. Exit status: 0 " +
		"ready; 1 not ready, or the check failed; 2 the command line is not valid."
}

// Run prints the report. It returns fault.Conflict if an upgrade would fail.
func (c *upgradeCheckCmd) Run(ctx context.Context, g *cli.Globals, s streams) error {
	report, err := c.check(ctx)
	if err != nil {
		return err
	}
	if g.Output == "json" {
		encoder := json.NewEncoder(s.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.Print(s.out)
	}
	if err == nil && !report.Ready {
		err = fault.New(fault.Conflict, "not ready for an upgrade: %d problems; solve them, or keep the present program",
			len(report.Problems))
	}
	return err
}

// check reads the configuration and checks the state. A wrong configuration is a problem of the report.
func (c *upgradeCheckCmd) check(ctx context.Context) (upgrade.Report, error) {
	conf, err := settings.Read(slog.New(slog.DiscardHandler), c.ConfigFile...)
	if err != nil {
		report := upgrade.NewReport(version())
		report.Problems = append(report.Problems, "this program does not start with the configuration: "+
			fault.TextOf(settings.AllErrors(err, c.ConfigFile...)))
		report.Notes = append(report.Notes, "the state was not checked, because its places are not known")
		return report, nil
	}
	parts, err := app.SavedStateOf(conf, c.DataDir)
	if err != nil {
		return upgrade.Report{}, err
	}
	o := upgrade.Options{Program: version(), Parts: parts, Warnings: conf.Warnings(), WorkDir: c.WorkDir,
		BackupDir: c.BackupDir}
	if o.WorkDir == "" {
		o.WorkDir = os.TempDir()
	}
	if o.BackupDir == "" {
		if o.BackupDir = c.DataDir; !isDir(o.BackupDir) {
			o.BackupDir = "."
		}
	}
	if o.BackupDir, err = filepath.Abs(o.BackupDir); err != nil {
		return upgrade.Report{}, fault.Wrap(fault.Invalid, err)
	}
	return upgrade.Check(ctx, o)
}

// isDir reports whether a directory exists.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
