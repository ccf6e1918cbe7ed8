package store

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// ServerFilter says which servers to list, newest first.
type ServerFilter struct {
	Project string    // empty: of all projects
	User    string    // exactly
	Name    string    // a part of the name
	Host    string    // exactly
	Status  string    // as the Compute API shows it
	Flavor  string    // id
	Deleted bool      // list the deleted ones, and only them
	Since   time.Time // changed at or after this, the deleted ones included
	Marker  string    // id of the last server of the page before; fault Invalid when it does not exist in Project
	Limit   int       // 0 or more than MaxPage: MaxPage
}

// Create stores new servers with revision 1, all or none; fault.Conflict when an id is taken.
func (s *Store) Create(ctx context.Context, servers ...lifecycle.Server) error {
	var hosts []string
	for _, server := range servers {
		hosts = append(hosts, assignmentsTouched(lifecycle.Server{}, server)...)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, server := range servers {
			if err := insert(ctx, tx, server); err != nil {
				return err
			}
		}
		return raiseRevisions(ctx, tx, hosts...)
	})
	if err == nil {
		s.notify(hosts...)
	}
	return wrap("Create", err)
}

// insert writes the row of a new server.
func insert(ctx context.Context, tx *sqldb.Tx, server lifecycle.Server) error {
	const op = "Create"
	server.Revision = 1
	record, err := encodeServer(server)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO compute_servers (name, project, user_id, flavor, state, status, due, host,
		placed, devices, created, updated, ended, revision, record, id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append(columns(server, record), server.ID)...)
	if sqldb.IsDuplicate(err) {
		return fault.New(fault.Conflict, op, "there is a server %s already", server.ID)
	}
	if err != nil {
		return err
	}
	return saveResidences(ctx, tx, lifecycle.Server{}, server)
}

// Read reads a server by id, a deleted one too; fault.NotFound.
func (s *Store) Read(ctx context.Context, id string) (lifecycle.Server, error) {
	var server lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		server, err = readServer(ctx, tx, id)
		return err
	})
	return server, wrap("Read", err)
}

// Change stores what next makes of a server, in one transaction with reading it; fault.NotFound. next may run more than
// once. A server that next leaves as it is, is not written.
func (s *Store) Change(
	ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server,
) (lifecycle.Server, error) {
	const op = "Change"
	var after lifecycle.Server
	var touched []string
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		before, err := readServer(ctx, tx, id)
		if err != nil {
			return err
		}
		after = next(before)
		after.ID, after.Revision = before.ID, before.Revision
		if reflect.DeepEqual(before, after) {
			touched = nil
			return nil
		}
		after.Revision++
		record, err := encodeServer(after)
		if err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `UPDATE compute_servers SET name = ?, project = ?, user_id = ?, flavor = ?, state = ?,
			status = ?, due = ?, host = ?, placed = ?, devices = ?, created = ?, updated = ?, ended = ?, revision = ?,
			record = ? WHERE id = ? AND revision = ?`, append(columns(after, record), id, before.Revision)...)
		// The snapshot may be older than the row; then another run sees the row as it is.
		again := sqldb.Retry(fault.New(fault.Conflict, op, "server %s changes too often", id))
		if err := requireRow(done, err, again); err != nil {
			return err
		}
		if err := saveResidences(ctx, tx, before, after); err != nil {
			return err
		}
		touched = assignmentsTouched(before, after)
		return raiseRevisions(ctx, tx, touched...)
	})
	if err != nil {
		return lifecycle.Server{}, wrap(op, err)
	}
	s.notify(touched...)
	return after, nil
}

// columns are the values of a server's row but its id, in the order of the statements.
func columns(s lifecycle.Server, record []byte) []any {
	shown := s.Shown()
	state, _ := states.text(s.State) // a state without a word has no record either
	return []any{s.Name, s.Project, s.User, shown.Flavor.ID, string(state), s.Status(), boolInt(len(s.Steps()) > 0),
		shown.Host, s.AllocatedHost(), deviceCount(s.Requests, nil), micros(s.Created), micros(s.Updated), micros(s.Ended),
		s.Revision, string(record)}
}

// Servers lists servers.
func (s *Store) Servers(ctx context.Context, f ServerFilter) ([]lifecycle.Server, error) {
	const op = "Servers"
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		w := f.where()
		if f.Marker != "" {
			var created int64
			// A marker in another project is answered as an unknown one: a user must not learn whether it exists.
			at := &where{}
			at.and("id = ?", f.Marker)
			if f.Project != "" {
				at.and("project = ?", f.Project)
			}
			err := tx.QueryRow(ctx, `SELECT created FROM compute_servers`+at.sql(), at.args...).Scan(&created)
			if errors.Is(err, sql.ErrNoRows) {
				return fault.New(fault.Invalid, op, "the marker %q is no server", f.Marker)
			}
			if err != nil {
				return err
			}
			w.and("(created < ? OR (created = ? AND id < ?))", created, created, f.Marker)
		}
		var err error
		rest := w.sql() + ` ORDER BY created DESC, id DESC LIMIT ?`
		list, err = readServers(ctx, tx, rest, append(w.args, page(f.Limit))...)
		return err
	})
	return list, wrap(op, err)
}

func (f ServerFilter) where() *where {
	w := &where{}
	for _, c := range []struct{ column, value string }{
		{"project", f.Project}, {"user_id", f.User}, {"host", f.Host}, {"status", f.Status}, {"flavor", f.Flavor},
	} {
		if c.value != "" {
			w.and(c.column+" = ?", c.value)
		}
	}
	if f.Name != "" {
		w.and("name LIKE ? ESCAPE '!'", like(f.Name))
	}
	if !f.Since.IsZero() {
		w.and("updated >= ?", micros(f.Since))
	}
	switch {
	case f.Deleted:
		w.and("ended > 0")
	case f.Since.IsZero() && f.Status != "DELETED":
		w.and("ended = 0")
	}
	return w
}

// Unfinished lists, by id, servers after the given id that have steps to be done.
func (s *Store) Unfinished(ctx context.Context, after string, limit int) ([]string, error) {
	var ids []string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		ids = nil
		rows, err := tx.Query(ctx, `SELECT id FROM compute_servers WHERE due = 1 AND id > ? ORDER BY id LIMIT ?`,
			after, page(limit))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, wrap("Unfinished", err)
}

// Purge forgets deleted servers that hold nothing any more, and their migrations: those that ended before the given
// time, and all but the newest keep.
func (s *Store) Purge(ctx context.Context, before time.Time, keep int) error {
	return wrap("Purge", s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM compute_servers WHERE state = ? AND ended < ?`,
			stateDeleted, micros(before))
		if err != nil {
			return err
		}
		const withoutServer = `DELETE FROM compute_migrations WHERE server NOT IN (SELECT id FROM compute_servers)`
		if _, err := tx.Exec(ctx, withoutServer); err != nil {
			return err
		}
		var ended int64
		var id string
		err = tx.QueryRow(ctx, `SELECT ended, id FROM compute_servers WHERE state = ? ORDER BY ended DESC, id DESC
			LIMIT 1 OFFSET ?`, stateDeleted, keep).Scan(&ended, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM compute_servers WHERE state = ? AND (ended < ? OR (ended = ? AND id <= ?))`,
			stateDeleted, ended, ended, id)
		return err
	}))
}

func readServer(ctx context.Context, tx *sqldb.Tx, id string) (lifecycle.Server, error) {
	list, err := readServers(ctx, tx, ` WHERE id = ?`, id)
	if err != nil {
		return lifecycle.Server{}, err
	}
	if len(list) == 0 {
		return lifecycle.Server{}, fault.New(fault.NotFound, "", "there is no server %s", id)
	}
	return list[0], nil
}

// readServers reads the records of the rows that the rest of the statement finds.
func readServers(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]lifecycle.Server, error) {
	rows, err := tx.Query(ctx, `SELECT id, record FROM compute_servers`+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []lifecycle.Server
	for rows.Next() {
		var id string
		var record []byte
		if err := rows.Scan(&id, &record); err != nil {
			return nil, err
		}
		server, err := decodeServer(id, record)
		if err != nil {
			return nil, err
		}
		list = append(list, server)
	}
	return list, rows.Err()
}
