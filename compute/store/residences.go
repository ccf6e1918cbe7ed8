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

// deviceCount returns the number of PCI devices and NUMA cells of a consumer. 0 means that the scheduler can ignore it.
func deviceCount(requests []pci.Request, cells []numa.GuestCell) int {
	n := len(cells)
	for _, r := range requests {
		n += r.Count
	}
	return n
}

// saveResidences writes the rows that follow from a changed record: its residences, removals and migration.
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

// residenceRow is a row of compute_stays, without its consumer.
type residenceRow struct {
	host    string
	devices int
}

// residenceRows returns the rows of a server's residences by consumer.
func residenceRows(s lifecycle.Server) map[string]residenceRow {
	out := map[string]residenceRow{}
	for _, stay := range s.Residences() {
		out[stay.Consumer] = residenceRow{stay.Host, deviceCount(stay.Requests, stay.Topology)}
	}
	return out
}

// putMigration inserts or updates the row of a migration.
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
	// On MySQL an update that changes nothing affects no row, so the row may exist.
	_, err = tx.InsertIgnore(ctx, `INSERT INTO compute_migrations (id, number, server, kind, status, source, destination,
		old_flavor, new_flavor, begun, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.ID, number, server, string(m.Kind), m.Status, m.From, m.To, m.OldFlavor, m.NewFlavor, micros(m.Begun),
		micros(m.Updated))
	return err
}

// assignmentsTouched lists the hosts whose assignments the change affects, sorted.
func assignmentsTouched(before, after lifecycle.Server) []string {
	old, now := entriesByHost(before), entriesByHost(after)
	leaving, left := removalsByHost(before), removalsByHost(after)
	same := before.Name == after.Name && before.Image == after.Image && before.Builds == after.Builds
	hosts := map[string]bool{}
	for _, host := range slices.Concat(keys(old), keys(now), keys(leaving), keys(left)) {
		hosts[host] = true
	}
	maps.DeleteFunc(hosts, func(host string, _ bool) bool {
		return host == "" || same && reflect.DeepEqual(old[host], now[host]) &&
			reflect.DeepEqual(leaving[host], left[host])
	})
	return slices.Sorted(maps.Keys(hosts)) // sorted, so that concurrent transactions lock the rows in the same order
}

// removalsByHost returns the removals of a server by host.
func removalsByHost(s lifecycle.Server) map[string][]lifecycle.Removal {
	out := map[string][]lifecycle.Removal{}
	for _, r := range s.Removals() {
		out[r.Host] = append(out[r.Host], r)
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

// entriesByHost returns the entries of a server by host, without the fields that agents report.
func entriesByHost(s lifecycle.Server) map[string][]lifecycle.Entry {
	out := map[string][]lifecycle.Entry{}
	for _, e := range s.Entries() {
		e.Residence.Devices, e.Cells, e.Reported, e.Choice = nil, nil, false, nil
		out[e.Host] = append(out[e.Host], e)
	}
	return out
}

// ServerOfConsumer returns the id of the server of a consumer: the consumer itself, or the server of the migration with
// this id; fault.NotFound if there is neither.
func (s *Store) ServerOfConsumer(ctx context.Context, consumer string) (string, error) {
	var server string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		server = ""
		const query = `SELECT id FROM compute_servers WHERE id = ?
			UNION SELECT server FROM compute_migrations WHERE id = ?`
		return tx.QueryRow(ctx, query, consumer, consumer).Scan(&server)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "", "there is no server or migration %s", consumer)
	}
	return server, wrap("ServerOfConsumer", err)
}

// IDsOnHost lists the ids of the servers with residences on a host, sorted.
func (s *Store) IDsOnHost(ctx context.Context, host string) ([]string, error) {
	ids, err := s.texts(ctx, `SELECT DISTINCT server FROM compute_stays WHERE host = ? ORDER BY server`, host)
	return ids, wrap("IDsOnHost", err)
}

// OnHost lists the servers with residences on a host, sorted by id.
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

// ByReservation lists the servers of one request, including deleted ones. Their ids have a common beginning.
func (s *Store) ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readServers(ctx, tx, ` WHERE id LIKE ? ESCAPE '!' ORDER BY id`, like(beginning)[1:])
		return err
	})
	return list, wrap("ByReservation", err)
}

// SetDead records that an operator declares a host dead, or withdraws the declaration. It returns fault.NotFound if no
// agent has reported for the host. A declaration for an unknown host, as recorded by earlier releases, can be
// withdrawn.
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

// Forget removes the report of a host, the declaration that it is dead, its clean requests and its removals. Its row
// remains with a higher revision, so that a returning agent does not consider the assignments of the new host older
// than those it has followed. It returns fault.Conflict if a server has a residence there.
func (s *Store) Forget(ctx context.Context, host string) error {
	const op = "Forget"
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The row is written first. A transaction that places a server there writes it too, so the two are serialized.
		const clear = `UPDATE compute_hosts SET provider = '', seen = 0, report = '', revision = revision + 1 WHERE name = ?`
		if _, err := tx.Exec(ctx, clear, host); err != nil {
			return err
		}
		for _, table := range []string{`compute_dead`, `compute_wishes`, `compute_removals`} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE host = ?`, host); err != nil {
				return err
			}
		}
		var residences int
		row := tx.QueryRow(ctx, `SELECT COUNT(*) FROM compute_stays WHERE host = ?`, host)
		if err := row.Scan(&residences); err != nil {
			return err
		}
		if residences > 0 {
			return fault.New(fault.Conflict, op, "%d guests of servers are on host %s or have been left there; "+
				"delete or evacuate the servers first", residences, host)
		}
		return nil
	}))
}

// Dead lists the hosts that an operator has declared dead.
func (s *Store) Dead(ctx context.Context) ([]string, error) {
	hosts, err := s.texts(ctx, `SELECT host FROM compute_dead ORDER BY host`)
	return hosts, wrap("Dead", err)
}

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
	Limit                int    // 0 or more than MaxPage: MaxPage
}

// Migrations lists the migrations that the filter selects.
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
		rows, err := tx.Query(ctx, `SELECT id, number, server, kind, status, source, destination,
			old_flavor, new_flavor, begun, updated FROM compute_migrations`+w.sql()+` ORDER BY number DESC, id LIMIT ?`,
			append(w.args, page(f.Limit))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Migration
			var begun, updated int64
			if err := rows.Scan(&m.ID, &m.Number, &m.Server, &m.Kind, &m.Status, &m.From, &m.To,
				&m.OldFlavor, &m.NewFlavor, &begun, &updated); err != nil {
				return err
			}
			m.Begun, m.Updated = time.UnixMicro(begun).UTC(), time.UnixMicro(updated).UTC()
			list = append(list, m)
		}
		return rows.Err()
	})
	return list, wrap("Migrations", err)
}
