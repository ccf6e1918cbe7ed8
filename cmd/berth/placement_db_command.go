package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openberth/berth/internal/app"
)

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

// Run prints the revision to standard output, and the database to standard error. It creates nothing: a database file
// that does not exist is an error.
func (c *dbVersionCmd) Run(ctx context.Context, s streams) error {
	conf, _, err := c.read(s)
	if err != nil {
		return err
	}
	url, database, err := app.ExistingPlacement(conf, c.DataDir)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.log, "database:", database)
	version, err := app.PlacementVersion(ctx, url)
	if err == nil {
		_, err = fmt.Fprintln(s.out, cmp.Or(version, "the database is empty"))
	}
	return err
}
