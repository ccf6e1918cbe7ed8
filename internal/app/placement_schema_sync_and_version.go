package app

import (
	"context"
	"errors"
	"os"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// withPlacementStore opens Placement's store, calls work and closes the store.
func withPlacementStore(ctx context.Context, url string, work func(*store.Store) error) error {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, db)
	if err == nil {
		err = work(s)
	}
	return errors.Join(err, db.Close())
}

// SyncPlacement creates Placement's schema on an empty database and returns its revision. created is false if the
// schema existed.
func SyncPlacement(ctx context.Context, url string) (created bool, version string, err error) {
	err = withPlacementStore(ctx, url, func(s *store.Store) (err error) {
		if created, err = s.Create(ctx); err == nil {
			version, err = s.Version(ctx)
		}
		return err
	})
	return created, version, err
}

// ExistingPlacement returns the URL of Placement's database and its description without credentials. It returns
// fault.NotFound for an SQLite file that does not exist, instead of creating it.
func ExistingPlacement(s settings.Settings, dir string) (url, description string, err error) {
	url = s.PlacementDB
	if url == "" {
		url = sqliteURL(dir, placementFile)
	}
	description, file, err := sqldb.Describe(url)
	if err != nil || file == "" {
		return url, description, err
	}
	if _, err := os.Stat(file); err != nil {
		return "", "", fault.New(fault.NotFound, "cannot open the %s: %w; choose another one with --config-file or "+
			"--data-dir, or create it with `berth placement db sync`", description, err)
	}
	return url, description, nil
}

// PlacementVersion returns the Alembic revision of Placement's database, or "" for an empty database.
func PlacementVersion(ctx context.Context, url string) (version string, err error) {
	err = withPlacementStore(ctx, url, func(s *store.Store) (err error) {
		version, err = s.Version(ctx)
		return err
	})
	return version, err
}
