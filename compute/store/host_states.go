package store

import (
	"context"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// SetDead records that an operator declares a host dead, or withdraws the declaration. It returns fault.NotFound if no
// agent has reported for the host. A declaration for an unknown host, as recorded by earlier releases, can be
// withdrawn.
func (s *Store) SetDead(ctx context.Context, host string, dead bool, now time.Time) error {
	defer s.dead.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		unknown := fault.New(fault.NotFound, "no agent has reported for host %s", host)
		// The host's row is written so that Forget cannot remove the host meanwhile.
		done, err := tx.Exec(ctx, `UPDATE compute_hosts SET revision = revision WHERE name = ? AND report <> ''`, host)
		known := sqldb.RequireRow(done, err, unknown)
		if known != nil && known != unknown {
			return known
		}
		if dead {
			if known != nil {
				return known
			}
			_, err := tx.InsertIgnore(ctx, `INSERT INTO compute_dead (host, since) VALUES (?, ?)`, host, micros(now))
			return err
		}
		done, err = tx.Exec(ctx, `DELETE FROM compute_dead WHERE host = ?`, host)
		if known == nil {
			return err
		}
		return sqldb.RequireRow(done, err, known)
	}))
}

// Dead lists the hosts that an operator has declared dead. The list is shared: no caller changes it.
func (s *Store) Dead(ctx context.Context) ([]string, error) {
	return s.dead.get(&s.db, none{}, func() ([]string, error) {
		hosts, err := s.texts(ctx, `SELECT host FROM compute_dead ORDER BY host`)
		return hosts, wrap(err)
	})
}

// Forget removes the report of a host, the declarations that it is dead or disabled, its clean requests, its disabled
// devices, its removals, its places in aggregates and the binding to its account. Its row remains with a higher
// revision, so that a returning agent does not consider the assignments of the new host older than those it has
// followed. It returns fault.Conflict if a server has a residence there.
func (s *Store) Forget(ctx context.Context, host string) error {
	defer s.dead.forget()
	defer s.disabled.forget()
	defer s.lockAggregates()()
	defer s.reports.lock(host)()
	defer s.hosts.drop("", host)
	defer s.reports.written(host, nil)
	return wrap(s.changeHostAccount(ctx, host, func(tx *sqldb.Tx, _ HostAccount) (none HostAccount, err error) {
		if err := forget(ctx, tx, host); err != nil {
			return none, err
		}
		return none, leaveAggregates(ctx, tx, host, time.Now())
	}))
}

// forget removes what Forget removes in a transaction.
func forget(ctx context.Context, tx *sqldb.Tx, host string) error {
	// The row is written first. A transaction that places a server there writes it too, so the two are serialized.
	const clear = `UPDATE compute_hosts SET provider = '', seen = 0, report = '', reports = reports + 1,
		revision = revision + 1 WHERE name = ?`
	if _, err := tx.Exec(ctx, clear, host); err != nil {
		return err
	}
	for _, table := range []string{`compute_dead`, `compute_disabled`, `compute_clean_requests`, `compute_removals`,
		`compute_disabled_devices`, `compute_host_accounts`} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE host = ?`, host); err != nil {
			return err
		}
	}
	var residences int
	row := tx.QueryRow(ctx, `SELECT COUNT(*) FROM compute_residences WHERE host = ?`, host)
	if err := row.Scan(&residences); err != nil {
		return err
	}
	if residences > 0 {
		return fault.New(fault.Conflict, "%d guests of servers are on host %s or have been left there; "+
			"delete or evacuate the servers first", residences, host)
	}
	return nil
}

// DisableHost records that an operator has disabled a host, and why; the reason may be empty. It replaces an earlier
// record. It returns fault.NotFound if no agent has reported for the host.
func (s *Store) DisableHost(ctx context.Context, host, reason string, now time.Time) error {
	defer s.disabled.forget()
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
	defer s.disabled.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := lockReportedHost(ctx, tx, host); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM compute_disabled WHERE host = ?`, host)
		return err
	}))
}

// DisabledHosts returns the reason of each host that an operator has disabled, by host. The map is shared: no caller
// changes it.
func (s *Store) DisabledHosts(ctx context.Context) (map[string]string, error) {
	return s.disabled.get(&s.db, none{}, func() (hosts map[string]string, err error) {
		err = s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
			hosts, err = sqldb.QueryMap[string, string](ctx, tx, `SELECT host, reason FROM compute_disabled`)
			return err
		})
		return hosts, wrap(err)
	})
}

// DeclaredSince returns since when operators have declared hosts dead and disabled, by host.
func (s *Store) DeclaredSince(ctx context.Context) (dead, disabled map[string]time.Time, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		if dead, err = sinceByHost(ctx, tx, `compute_dead`); err != nil {
			return err
		}
		disabled, err = sinceByHost(ctx, tx, `compute_disabled`)
		return err
	})
	return dead, disabled, wrap(err)
}

// sinceByHost returns the times in a table, by host.
func sinceByHost(ctx context.Context, tx *sqldb.Tx, table string) (map[string]time.Time, error) {
	rows, err := sqldb.QueryMap[string, int64](ctx, tx, `SELECT host, since FROM `+table)
	times := make(map[string]time.Time, len(rows))
	for host, since := range rows {
		times[host] = time.UnixMicro(since).UTC()
	}
	return times, err
}

// lockReportedHost writes the row of a host, so that Forget cannot remove the host meanwhile. It returns fault.NotFound
// if no agent has reported for the host.
func lockReportedHost(ctx context.Context, tx *sqldb.Tx, host string) error {
	done, err := tx.Exec(ctx, `UPDATE compute_hosts SET revision = revision WHERE name = ? AND report <> ''`, host)
	return sqldb.RequireRow(done, err, fault.New(fault.NotFound, "no agent has reported for host %s", host))
}
