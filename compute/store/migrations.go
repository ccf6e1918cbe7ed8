package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Migration is a move as shown to operators.
type Migration struct {
	lifecycle.Migration
	Number int64 // from 1
	Server string
}

// MigrationFilter selects the migrations to list, the newest first. Empty fields select all.
type MigrationFilter struct {
	Server, Status, Kind string
	Host                 string // source or destination
	Source               string
	User, Project        string    // of the caller that requested the move
	Since, Before        time.Time // changed at or after, and at or before
	Marker               string    // id of the last migration of the previous page; fault.Invalid if it does not exist
	Limit                int       // 0 or more than MaxPage: MaxPage
}

// Migrations lists the migrations that the filter selects.
func (s *Store) Migrations(ctx context.Context, f MigrationFilter) ([]Migration, error) {
	w := &where{}
	for _, c := range []struct{ column, value string }{{"server", f.Server}, {"status", f.Status}, {"kind", f.Kind},
		{"source", f.Source}, {"user_id", f.User}, {"project", f.Project}} {
		if c.value != "" {
			w.and(c.column+" = ?", c.value)
		}
	}
	if f.Host != "" {
		w.and("(source = ? OR destination = ?)", f.Host, f.Host)
	}
	if !f.Since.IsZero() {
		w.and("updated >= ?", micros(f.Since))
	}
	if !f.Before.IsZero() {
		w.and("updated <= ?", micros(f.Before))
	}
	var list []Migration
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		if f.Marker != "" {
			var number int64
			err := tx.QueryRow(ctx, `SELECT number FROM compute_migrations WHERE id = ?`, f.Marker).Scan(&number)
			if errors.Is(err, sql.ErrNoRows) {
				return fault.New(fault.Invalid, "Marker %s could not be found.", f.Marker)
			}
			if err != nil {
				return err
			}
			w.and("number < ?", number)
		}
		list, err = sqldb.QueryList(ctx, tx, migrationColumns+w.sql()+` ORDER BY number DESC, id LIMIT ?`,
			append(w.args, page(f.Limit)), scanMigration)
		return err
	})
	return list, wrap(err)
}

const migrationColumns = `SELECT id, number, server, kind, status, source, destination, old_flavor, new_flavor, user_id,
	project, begun, updated FROM compute_migrations`

func scanMigration(rows *sql.Rows) (m Migration, err error) {
	var begun, updated int64
	err = rows.Scan(&m.ID, &m.Number, &m.Server, &m.Kind, &m.Status, &m.From, &m.To, &m.OldFlavor, &m.NewFlavor, &m.User,
		&m.Project, &begun, &updated)
	m.Begun, m.Updated = time.UnixMicro(begun).UTC(), time.UnixMicro(updated).UTC()
	return m, err
}

// putMigration inserts or updates the row of a migration.
func (s *Store) putMigration(ctx context.Context, tx *sqldb.Tx, server string, m lifecycle.Migration) error {
	done, err := tx.Exec(ctx, `UPDATE compute_migrations SET status = ?, destination = ?, updated = ? WHERE id = ?`,
		m.Status, m.To, micros(m.Updated), m.ID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var stored int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(number), 0) FROM compute_migrations`).Scan(&stored); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO compute_migrations (id, number, server, kind, status, source, destination,
		old_flavor, new_flavor, user_id, project, begun, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.ID, s.migrations.next(stored), server, string(m.Kind), m.Status, m.From, m.To, m.OldFlavor, m.NewFlavor,
		m.User, m.Project,
		micros(m.Begun), micros(m.Updated))
	return err
}
