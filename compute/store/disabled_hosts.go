package store

import (
	"context"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// DisableHost records that an operator has disabled a host, and why; the reason may be empty. It replaces an earlier
// record. It returns fault.NotFound if no agent has reported for the host.
func (s *Store) DisableHost(ctx context.Context, host, reason string, now time.Time) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := lockReportedHost(ctx, tx, host); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM compute_disabled WHERE host = ?`, host); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO compute_disabled (host, reason, since) VALUES (?, ?, ?)`, host, reason,
			micros(now))
		return err
	}))
}

// EnableHost reverses DisableHost. A host that is not disabled is not an error. It returns fault.NotFound if no agent
// has reported for the host.
func (s *Store) EnableHost(ctx context.Context, host string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := lockReportedHost(ctx, tx, host); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM compute_disabled WHERE host = ?`, host)
		return err
	}))
}

// DisabledHosts returns the reason of each host that an operator has disabled, by host.
func (s *Store) DisabledHosts(ctx context.Context) (map[string]string, error) {
	var hosts map[string]string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		hosts, err = sqldb.QueryMap[string, string](ctx, tx, `SELECT host, reason FROM compute_disabled`)
		return err
	})
	return hosts, wrap(err)
}

// lockReportedHost writes the row of a host, so that Forget cannot remove the host meanwhile. It returns fault.NotFound
// if no agent has reported for the host.
func lockReportedHost(ctx context.Context, tx *sqldb.Tx, host string) error {
	done, err := tx.Exec(ctx, `UPDATE compute_hosts SET revision = revision WHERE name = ? AND report <> ''`, host)
	return requireRow(done, err, fault.New(fault.NotFound, "no agent has reported for host %s", host))
}
