package store

import (
	"context"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/sqldb"
)

// recordRemovals records the guests that a change of a server leaves on hosts that an operator has declared dead. No
// agent has confirmed that they are gone, so they must be destroyed if the host returns. The record of the server does
// not contain them any more.
func recordRemovals(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server) error {
	ended := lifecycle.EndedResidences(before, after)
	if len(ended) == 0 {
		return nil
	}
	dead, err := sqldb.QueryTexts(ctx, tx, `SELECT host FROM compute_dead`)
	if err != nil {
		return err
	}
	for _, r := range ended {
		if !slices.Contains(dead, r.Host) {
			continue
		}
		if _, err := tx.InsertIgnore(ctx, `INSERT INTO compute_removals (host, consumer, server) VALUES (?, ?, ?)`,
			r.Host, r.Consumer, after.ID); err != nil {
			return err
		}
	}
	return nil
}

// RecordRemoval records that the guest of a consumer of a server must be destroyed on a host, until RemovalDone. A
// recorded guest is not named for removal while the record of a server has it on the host.
func (s *Store) RecordRemoval(ctx context.Context, host, consumer, server string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.InsertIgnore(ctx, `INSERT INTO compute_removals (host, consumer, server) VALUES (?, ?, ?)`, host,
			consumer, server)
		return err
	}))
}

// RemovalDone deletes a recorded removal after the agent has reported the guest gone.
func (s *Store) RemovalDone(ctx context.Context, host, consumer string) error {
	recorded, err := s.texts(ctx, `SELECT consumer FROM compute_removals WHERE host = ? AND consumer = ?`,
		host, consumer)
	if err != nil || len(recorded) == 0 {
		return wrap(err)
	}
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		const remove = `DELETE FROM compute_removals WHERE host = ? AND consumer = ?`
		if _, err := tx.Exec(ctx, remove, host, consumer); err != nil {
			return err
		}
		return raiseRevisions(ctx, tx, host)
	})
	if err == nil {
		s.notify(host)
	}
	return wrap(err)
}

// RemovalHosts lists the hosts with recorded removals of guests of a server.
func (s *Store) RemovalHosts(ctx context.Context, server string) ([]string, error) {
	hosts, err := s.texts(ctx, `SELECT DISTINCT host FROM compute_removals WHERE server = ? ORDER BY host`, server)
	return hosts, wrap(err)
}
