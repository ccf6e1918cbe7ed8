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
func weighs(requests []pci.Request, cells []numa.Part) int {
	n := len(cells)
	for _, r := range requests {
		n += r.Count
	}
	return n
}

// follow writes what follows from a changed record: the rows of its stays, and of its migration.
func follow(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server) error {
	if old, now := rows(before), rows(after); !maps.Equal(old, now) {
		if _, err := tx.Exec(ctx, `DELETE FROM compute_stays WHERE server = ?`, after.ID); err != nil {
			return err
		}
		for _, consumer := range slices.Sorted(maps.Keys(now)) {
			if _, err := tx.Exec(ctx, `INSERT INTO compute_stays (consumer, server, host, weighs) VALUES (?, ?, ?, ?)`,
				consumer, after.ID, now[consumer].host, now[consumer].weighs); err != nil {
				return err
			}
		}
	}
	if after.Migration == nil || reflect.DeepEqual(before.Migration, after.Migration) {
		return nil
	}
	return putMigration(ctx, tx, after.ID, *after.Migration)
}

type stayRow struct {
	host   string
	weighs int
}

func rows(s lifecycle.Server) map[string]stayRow {
	out := map[string]stayRow{}
	for _, stay := range s.Stays() {
		out[stay.Consumer] = stayRow{stay.Host, weighs(stay.Requests, stay.Topology)}
	}
	return out
}

func putMigration(ctx context.Context, tx *sqldb.Tx, server string, m lifecycle.Migration) error {
	done, err := tx.Exec(ctx, `UPDATE compute_migrations SET status = ?, destination = ?, updated = ? WHERE id = ?`,
		m.Status, m.To, moment(m.Updated), m.ID)
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
		m.OldFlavor, m.NewFlavor, moment(m.Begun), moment(m.Updated))
	return err
}

// assignmentsTouched lists the hosts whose assignments are not the same after the change.
func assignmentsTouched(before, after lifecycle.Server) []string {
	old, now := entriesByHost(before), entriesByHost(after)
	same := before.Name == after.Name && before.Image == after.Image && before.Builds == after.Builds
	hosts := map[string]bool{}
	for host := range old {
		hosts[host] = true
	}
	for host := range now {
		hosts[host] = true
	}
	maps.DeleteFunc(hosts, func(host string, _ bool) bool { return host == "" || same && reflect.DeepEqual(old[host], now[host]) })
	return slices.Sorted(maps.Keys(hosts)) // two transactions that lock the same rows do so in the same order
}

// entriesByHost leaves out what the agents themselves tell: they need not hear it.
func entriesByHost(s lifecycle.Server) map[string][]lifecycle.Entry {
	out := map[string][]lifecycle.Entry{}
	for _, e := range s.Entries() {
		e.Stay.Devices, e.Cells, e.Heard, e.Choice = nil, nil, false, nil
		out[e.Host] = append(out[e.Host], e)
	}
	return out
}

// Owner finds the server of a consumer: itself, or the one that a migration of this id moves or moved; fault.NotFound.
func (s *Store) Owner(ctx context.Context, consumer string) (string, error) {
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
func (s *Store) Staying(ctx context.Context, host string) ([]string, error) {
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
func (s *Store) Kin(ctx context.Context, beginning string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readServers(ctx, tx, ` WHERE id LIKE ? ESCAPE '!' ORDER BY id`, like(beginning)[1:])
		return err
	})
	return list, wrap("Kin", err)
}

// SetDead notes that an operator says that a host is dead, or that it is not.
func (s *Store) SetDead(ctx context.Context, host string, dead bool, now time.Time) error {
	return wrap("SetDead", s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if dead {
			_, err := tx.InsertIgnore(ctx, `INSERT INTO compute_dead (host, since) VALUES (?, ?)`, host, moment(now))
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM compute_dead WHERE host = ?`, host)
		return err
	}))
}

// Forget removes what is known of a host: its report, what an operator said of it, and what he wants there. fault.Conflict while
// a server stands there or has left something there.
func (s *Store) Forget(ctx context.Context, host string) error {
	const op = "Forget"
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// First its row, which all who put a server there write too: they wait, or we do.
		for _, what := range []string{`compute_hosts WHERE name`, `compute_dead WHERE host`, `compute_wishes WHERE host`} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+what+` = ?`, host); err != nil {
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
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		list = nil
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			list = append(list, text)
		}
		return rows.Err()
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
