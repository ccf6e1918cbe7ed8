package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/sqldb"
)

// weighs is how much of what the scheduler counts a consumer has on its host; 0 is nothing.
func deviceCount(requests []pci.Request, cells []numa.Part) int {
	n := len(cells)
	for _, r := range requests {
		n += r.Count
	}
	return n
}

// follow writes what follows from a changed record: the rows of its stays, of its removals and of its migration.
func saveResidences(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server) error {
	if err := recordRemovals(ctx, tx, before, after); err != nil {
		return err
	}
	if old, now := residenceRows(before), residenceRows(after); !maps.Equal(old, now) {
		if _, err := tx.Exec(ctx, `DELETE FROM compute_stays WHERE server = ?`, after.ID); err != nil {
			return err
		}
		for _, consumer := range slices.Sorted(maps.Keys(now)) {
			if _, err := tx.Exec(ctx, `INSERT INTO compute_stays (consumer, server, host, weighs) VALUES (?, ?, ?, ?)`,
				consumer, after.ID, now[consumer].host, now[consumer].devices); err != nil {
				return err
			}
		}
	}
	if after.Migration == nil || reflect.DeepEqual(before.Migration, after.Migration) {
		return nil
	}
	return putMigration(ctx, tx, after.ID, *after.Migration)
}

type residenceRow struct {
	host   string
	devices int
}

func residenceRows(s lifecycle.Server) map[string]residenceRow {
	out := map[string]residenceRow{}
	for _, stay := range s.Residences() {
		out[stay.Consumer] = residenceRow{stay.Host, deviceCount(stay.Requests, stay.Topology)}
	}
	return out
}

func putMigration(ctx context.Context, tx *sqldb.Tx, server string, m lifecycle.Migration) error {
	done, err := tx.Exec(ctx, `UPDATE compute_migrations SET status = ?, destination = ?, updated = ? WHERE id = ?`,
		m.Status, m.To, micros(m.Updated), m.ID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var number int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(number), 0) + 1 FROM compute_migrations`).Scan(&number); err != nil {
		return err
	}
	// MySQL counts a row that stays the same as not affected.
	_, err = tx.InsertIgnore(ctx, `INSERT INTO compute_migrations (id, number, server, kind, status, source, destination, old_flavor, new_flavor,
		begun, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, m.ID, number, server, string(m.Kind), m.Status, m.From, m.To,
		m.OldFlavor, m.NewFlavor, micros(m.Begun), micros(m.Updated))
	return err
}

// assignmentsTouched lists the hosts whose assignments are not the same after the change.
func assignmentsTouched(before, after lifecycle.Server) []string {
	old, now := entriesByHost(before), entriesByHost(after)
	leaving, left := removalsByHost(before), removalsByHost(after)
	same := before.Name == after.Name && before.Image == after.Image && before.Builds == after.Builds
	hosts := map[string]bool{}
	for _, host := range slices.Concat(keys(old), keys(now), keys(leaving), keys(left)) {
		hosts[host] = true
	}
	maps.DeleteFunc(hosts, func(host string, _ bool) bool {
		return host == "" || same && reflect.DeepEqual(old[host], now[host]) && reflect.DeepEqual(leaving[host], left[host])
	})
	return slices.Sorted(maps.Keys(hosts)) // two transactions that lock the same rows do so in the same order
}

func removalsByHost(s lifecycle.Server) map[string][]lifecycle.Removal {
	out := map[string][]lifecycle.Removal{}
	for _, r := range s.Removals() {
		out[r.Host] = append(out[r.Host], r)
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

// entriesByHost leaves out what the agents themselves tell: they need not hear it.
func entriesByHost(s lifecycle.Server) map[string][]lifecycle.Entry {
	out := map[string][]lifecycle.Entry{}
	for _, e := range s.Entries() {
		e.Residence.Devices, e.Cells, e.Reported, e.Choice = nil, nil, false, nil
		out[e.Host] = append(out[e.Host], e)
	}
	return out
}

// Owner finds the server of a consumer: itself, or the one that a migration of this id moves or moved; fault.NotFound.
func (s *Store) ServerOfConsumer(ctx context.Context, consumer string) (string, error) {
	var server string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		server = ""
		return tx.QueryRow(ctx, `SELECT id FROM compute_servers WHERE id = ? UNION SELECT server FROM compute_migrations WHERE id = ?`,
			consumer, consumer).Scan(&server)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "", "no server and no migration is called %s", consumer)
	}
	return server, wrap("Owner", err)
}

// Staying lists the servers whose consumers may have something on a host, by id.
func (s *Store) IDsOnHost(ctx context.Context, host string) ([]string, error) {
	ids, err := s.texts(ctx, `SELECT DISTINCT server FROM compute_stays WHERE host = ? ORDER BY server`, host)
	return ids, wrap("Staying", err)
}

// OnHost reads the servers whose consumers may have something on a host, by id.
func (s *Store) OnHost(ctx context.Context, host string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		const onHost = ` WHERE id IN (SELECT server FROM compute_stays WHERE host = ?) ORDER BY id`
		list, err = readServers(ctx, tx, onHost, host)
		return err
	})
	return list, wrap("OnHost", err)
}

// Kin lists the servers of one request, whose ids begin alike, the deleted ones too.
func (s *Store) ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readServers(ctx, tx, ` WHERE id LIKE ? ESCAPE '!' ORDER BY id`, like(beginning)[1:])
		return err
	})
	return list, wrap("Kin", err)
}

// SetDead records that an operator declares a host dead, or takes that back. fault.NotFound when no agent has reported
// for the host; but a declaration for an unknown host, which earlier releases recorded, can be taken back.
func (s *Store) SetDead(ctx context.Context, host string, dead bool, now time.Time) error {
	const op = "SetDead"
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		unknown := fault.New(fault.NotFound, op, "no agent has reported for host %s", host)
		// The host's row is written so that Forget cannot remove the host meanwhile.
		done, err := tx.Exec(ctx, `UPDATE compute_hosts SET revision = revision WHERE name = ? AND report <> ''`, host)
		known := requireRow(done, err, unknown)
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
		return requireRow(done, err, known)
	}))
}

// Forget removes what is known of a host: its report, what an operator said of it, and what he wants there. Its row
// stays with a higher revision, so that an agent that returns does not take the assignments of the new host for older
// ones than it has followed. fault.Conflict while a server stands there or has left something there.
func (s *Store) Forget(ctx context.Context, host string) error {
	const op = "Forget"
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// First its row, which all who put a server there write too: they wait, or we do.
		if _, err := tx.Exec(ctx, `UPDATE compute_hosts SET provider = '', seen = 0, report = '', revision = revision + 1 WHERE name = ?`, host); err != nil {
			return err
		}
		for _, table := range []string{`compute_dead`, `compute_wishes`, `compute_removals`} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE host = ?`, host); err != nil {
				return err
			}
		}
		var stays int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM compute_stays WHERE host = ?`, host).Scan(&stays); err != nil {
			return err
		}
		if stays > 0 {
			return fault.New(fault.Conflict, op, "%d servers stand on host %s, or have left something there", stays, host)
		}
		return nil
	}))
}

// Dead lists the hosts that an operator says are dead.
func (s *Store) Dead(ctx context.Context) ([]string, error) {
	hosts, err := s.texts(ctx, `SELECT host FROM compute_dead ORDER BY host`)
	return hosts, wrap("Dead", err)
}

func (s *Store) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	var list []string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readTexts(ctx, tx, query, args...)
		return err
	})
	return list, err
}

// Migration is a move as operators are told of it.
type Migration struct {
	lifecycle.Migration
	Number int64 // from 1
	Server string
}

// MigrationFilter says which migrations to list, newest first. Empty fields choose all.
type MigrationFilter struct {
	Server, Status, Kind string
	Host                 string // from or to it
	Limit                int    // 0 or more than MaxPage: MaxPage
}

// Migrations lists moves.
func (s *Store) Migrations(ctx context.Context, f MigrationFilter) ([]Migration, error) {
	w := &where{}
	for _, c := range []struct{ column, value string }{{"server", f.Server}, {"status", f.Status}, {"kind", f.Kind}} {
		if c.value != "" {
			w.and(c.column+" = ?", c.value)
		}
	}
	if f.Host != "" {
		w.and("(source = ? OR destination = ?)", f.Host, f.Host)
	}
	var list []Migration
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT id, number, server, kind, status, source, destination, old_flavor, new_flavor, begun, updated
			FROM compute_migrations`+w.sql()+` ORDER BY number DESC, id LIMIT ?`, append(w.args, page(f.Limit))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Migration
			var begun, updated int64
			if err := rows.Scan(&m.ID, &m.Number, &m.Server, &m.Kind, &m.Status, &m.From, &m.To, &m.OldFlavor, &m.NewFlavor, &begun, &updated); err != nil {
				return err
			}
			m.Begun, m.Updated = time.UnixMicro(begun).UTC(), time.UnixMicro(updated).UTC()
			list = append(list, m)
		}
		return rows.Err()
	})
	return list, wrap("Migrations", err)
}
