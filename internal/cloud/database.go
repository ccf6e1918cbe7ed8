package cloud

import (
	"context"
	"errors"

	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// withPlacement opens placement's store for one piece of work.
func withPlacement(ctx context.Context, url string, work func(*store.Store) error) error {
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

// SyncPlacement creates placement's schema on an empty database and gives its revision. created is false when it was there.
func SyncPlacement(ctx context.Context, url string) (created bool, version string, err error) {
	err = withPlacement(ctx, url, func(s *store.Store) (err error) {
		if created, err = s.Create(ctx); err == nil {
			version, err = s.Version(ctx)
		}
		return err
	})
	return created, version, err
}

// PlacementVersion is the Alembic revision of placement's database; empty for an empty one.
func PlacementVersion(ctx context.Context, url string) (version string, err error) {
	err = withPlacement(ctx, url, func(s *store.Store) (err error) {
		version, err = s.Version(ctx)
		return err
	})
	return version, err
}
