package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// openDatabase opens the database of a service, and logs which of its files other users could use until now.
func openDatabase(ctx context.Context, url string, log *slog.Logger) (*sqldb.DB, error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	for _, file := range db.Narrowed {
		logRestricted(log, file)
	}
	return db, nil
}

func logRestricted(log *slog.Logger, path string) {
	log.Warn("rights of other users removed", "path", path)
}

// closeDatabase closes the database of a service. The error says what to do when its file was lost.
func closeDatabase(db *sqldb.DB, log *slog.Logger) error {
	loss := db.Loss()
	if loss != nil {
		log.Error("database file lost", "error", loss)
	}
	return errors.Join(loss, db.Close())
}

// either returns a channel that is closed when one of two channels is closed. It waits for them until done is closed.
func firstClosed(a, b, done <-chan struct{}) <-chan struct{} {
	one := make(chan struct{})
	go func() {
		select {
		case <-a:
			close(one)
		case <-b:
			close(one)
		case <-done:
		}
	}()
	return one
}

// withPlacement opens placement's store for one piece of work.
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

// SyncPlacement creates placement's schema on an empty database and gives its revision. created is false when it was there.
func SyncPlacement(ctx context.Context, url string) (created bool, version string, err error) {
	err = withPlacementStore(ctx, url, func(s *store.Store) (err error) {
		if created, err = s.Create(ctx); err == nil {
			version, err = s.Version(ctx)
		}
		return err
	})
	return created, version, err
}

// PlacementVersion is the Alembic revision of placement's database; empty for an empty one.
func PlacementVersion(ctx context.Context, url string) (version string, err error) {
	err = withPlacementStore(ctx, url, func(s *store.Store) (err error) {
		version, err = s.Version(ctx)
		return err
	})
	return version, err
}
