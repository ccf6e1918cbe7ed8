package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
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

// Names of the databases in a data directory.
const (
	placementFile = "placement.db"
	computeFile   = "compute.db"
	networkFile   = "network.db"
)

// PlacementURL returns the URL of Placement's database: the configured one, or an SQLite file under dir, which is
// created.
func PlacementURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.PlacementDB, dir, placementFile)
}

// ComputeURL returns the URL of compute's database: the configured one, or an SQLite file under dir, which is created.
func ComputeURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.ComputeDB, dir, computeFile)
}

func databaseURL(configured, dir, name string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fault.New(fault.Unavailable, "cannot create the data directory: %w", err)
	}
	return sqliteURL(dir, name), nil
}

// sqliteURL returns the URL of an SQLite file, as in SQLAlchemy: three slashes and the path.
func sqliteURL(dir, name string) string { return "sqlite:///" + filepath.Join(dir, name) }
