package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// openDatabase opens the database of a service. It logs each file whose permissions for other users it removed.
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

// closeDatabase closes the database of a service. The error says what to do if its file was lost.
func closeDatabase(db *sqldb.DB, log *slog.Logger) error {
	loss := db.Loss()
	if loss != nil {
		log.Error("database file lost", "error", loss)
	}
	return errors.Join(loss, db.Close())
}

// firstClosed returns a channel that is closed when a or b is closed. It stops waiting when done is closed.
func firstClosed(a, b, done <-chan struct{}) <-chan struct{} {
	first := make(chan struct{})
	go func() {
		select {
		case <-a:
			close(first)
		case <-b:
			close(first)
		case <-done:
		}
	}()
	return first
}

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

// PlacementVersion returns the Alembic revision of Placement's database, or "" for an empty database.
func PlacementVersion(ctx context.Context, url string) (version string, err error) {
	err = withPlacementStore(ctx, url, func(s *store.Store) (err error) {
		version, err = s.Version(ctx)
		return err
	})
	return version, err
}
