package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/openberth/berth/sqldb"
)

// BeginEpoch starts a new epoch and records the last revision of each host's assignments in the previous one. It must
// be called once, after Hold and before any change.
func (s *Store) BeginEpoch(ctx context.Context) error {
	next := Epoch{ID: newUUID()}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(number), 0) FROM compute_epochs`).Scan(&next.Number); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO compute_epoch_ends (host, epoch, revision)
			SELECT name, ?, revision FROM compute_hosts h
			WHERE revision > COALESCE((SELECT MAX(e.revision) FROM compute_epoch_ends e WHERE e.host = h.name), -1)`,
			next.Number); err != nil {
			return err
		}
		next.Number++
		_, err := tx.Exec(ctx, `INSERT INTO compute_epochs (number, id) VALUES (?, ?)`, next.Number, next.ID)
		return err
	})
	if err == nil {
		s.epoch = next
	}
	return wrap(err)
}

// Position is a point in the history of a host's assignments.
type Position struct {
	Epoch    Epoch
	Revision int64
}

// Position returns the current position of a host's assignments.
func (s *Store) Position(ctx context.Context, host string) (Position, error) {
	p := Position{Epoch: s.epoch}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		const query = `SELECT COALESCE(MAX(revision), 0) FROM compute_hosts WHERE name = ?`
		return tx.QueryRow(ctx, query, host).Scan(&p.Revision)
	})
	return p, wrap(err)
}

// Revisions returns the id of the present epoch, and the revision of the assignments of each host that has ever had
// some.
func (s *Store) Revisions(ctx context.Context) (epoch string, revisions map[string]int64, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		revisions, err = sqldb.QueryMap[string, int64](ctx, tx, `SELECT name, revision FROM compute_hosts WHERE revision > 0`)
		return err
	})
	return s.epoch.ID, revisions, wrap(err)
}

// EpochEnd returns the last revision of a host's assignments in a past epoch. known is false if the database does not
// contain that epoch.
func (s *Store) EpochEnd(ctx context.Context, host string, e Epoch) (revision int64, known bool, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var id string
		known = false
		switch err := tx.QueryRow(ctx, `SELECT id FROM compute_epochs WHERE number = ?`, e.Number).Scan(&id); {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		if known = id == e.ID; !known {
			return nil
		}
		const query = `SELECT COALESCE(MAX(revision), 0) FROM compute_epoch_ends WHERE host = ? AND epoch <= ?`
		return tx.QueryRow(ctx, query, host, e.Number).Scan(&revision)
	})
	return revision, known, wrap(err)
}
