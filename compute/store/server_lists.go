package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// ServerFilter selects the servers to list. They are sorted by creation, the newest first.
type ServerFilter struct {
	Project string // empty: all projects
	User    string // exact
	Name    string // part of the name
	Host    string // exact
	Status  string // as the Compute API shows it
	Flavor  string // id
	Deleted bool   // list only deleted servers

	OrSoftDeleted bool      // with Deleted: also those that can be restored
	NoSoftDeleted bool      // leave out those that can be restored
	Since         time.Time // changed at or after this time, including deleted servers
	Before        time.Time // changed at or before this time, including deleted servers
	// not deleted, or deleted at or after this time; not with Deleted
	ExistedSince time.Time
	CreatedUntil time.Time // created at or before this time
	Marker       string    // id of the last server of the previous page; fault.Invalid if it does not exist in Project
	Limit        int       // 0 or more than MaxPage: MaxPage
	// what the database cannot compare: only servers for which it returns true are listed; nil: all
	Keep func(ServerRef) bool
}

// ServerRef is the identity of a server.
type ServerRef struct{ ID, Name string }

// ServerRefs lists the identities of the servers that the filter selects. It reads no records.
func (s *Store) ServerRefs(ctx context.Context, f ServerFilter) ([]ServerRef, error) {
	var refs []ServerRef
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		rows, err := f.selectRows(ctx, tx)
		refs = make([]ServerRef, 0, len(rows))
		for _, row := range rows {
			refs = append(refs, row.ServerRef)
		}
		return err
	})
	return refs, wrap(err)
}

// Servers lists the servers that the filter selects.
func (s *Store) Servers(ctx context.Context, f ServerFilter) ([]lifecycle.Server, error) {
	return s.list(ctx, f, decodeFull)
}

// ListServers lists the servers that the filter selects, without the fields that no list shows; see hiddenMembers.
func (s *Store) ListServers(ctx context.Context, f ServerFilter) ([]lifecycle.Server, error) {
	return s.list(ctx, f, decodeListed)
}

func (s *Store) list(ctx context.Context, f ServerFilter, decode decoder) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		rows, err := f.selectRows(ctx, tx)
		if err == nil {
			list, err = s.servers.ofRows(ctx, tx, rows, decode)
		}
		return err
	})
	return list, wrap(err)
}

// listedRow is the row of a server in a list.
type listedRow struct {
	ServerRef
	created, revision, updated int64
}

// selectRows returns the rows of the servers that the filter selects. It reads no records: where there is an index for
// the filter, the database reads as many rows as it returns.
func (f ServerFilter) selectRows(ctx context.Context, tx *sqldb.Tx) (list []listedRow, err error) {
	w := f.where(tx.Dialect)
	if f.Marker != "" {
		last := listedRow{ServerRef: ServerRef{ID: f.Marker}}
		if last.created, err = f.createdOfMarker(ctx, tx); err != nil {
			return nil, err
		}
		w.after(last)
	}
	limit := page(f.Limit)
	atOnce := limit
	if f.Keep != nil {
		atOnce = MaxPage
	}
	for {
		rows, err := readListedRows(ctx, tx, w, atOnce)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if f.Keep != nil && !f.Keep(row.ServerRef) {
				continue
			}
			if list = append(list, row); len(list) == limit {
				return list, nil
			}
		}
		if len(rows) < atOnce {
			return list, nil
		}
		w = f.where(tx.Dialect)
		w.after(rows[len(rows)-1])
	}
}

// createdOfMarker returns when the server of the marker was created. A marker in another project yields the same error
// as an unknown one, so that its existence is not revealed.
func (f ServerFilter) createdOfMarker(ctx context.Context, tx *sqldb.Tx) (created int64, err error) {
	at := &where{}
	at.and("id = ?", f.Marker)
	if f.Project != "" {
		at.and("project = ?", f.Project)
	}
	err = tx.QueryRow(ctx, `SELECT created FROM compute_servers`+at.sql(), at.args...).Scan(&created)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.Invalid, "the marker %q is not a server", f.Marker)
	}
	return created, err
}

// after adds the condition that a row follows another one. The first comparison is the range of the index.
func (w *where) after(last listedRow) {
	w.and("created <= ?", last.created)
	w.and("(created < ? OR id < ?)", last.created, last.ID)
}

const (
	selectListed = `SELECT id, name, created, revision, updated FROM compute_servers`
	orderListed  = ` ORDER BY created DESC, id DESC LIMIT ?`
)

// readListedRows returns the first rows that meet the conditions.
func readListedRows(ctx context.Context, tx *sqldb.Tx, w *where, limit int) ([]listedRow, error) {
	return sqldb.QueryList(ctx, tx, selectListed+w.sql()+orderListed, append(slices.Clip(w.args), limit),
		func(rows *sql.Rows) (r listedRow, err error) {
			err = rows.Scan(&r.ID, &r.Name, &r.created, &r.revision, &r.updated)
			return r, err
		})
}

// ofRows returns the servers of rows: those that are cached, and the others decoded, which it does not cache.
func (c *serverCache) ofRows(ctx context.Context, tx *sqldb.Tx, rows []listedRow, decode decoder) ([]lifecycle.Server,
	error) {
	list := make([]lifecycle.Server, len(rows))
	missing := map[string]int{}
	for i, row := range rows {
		server, ok := c.get(row.ID)
		if ok && isCurrent(server, row.revision, row.updated) {
			list[i] = server
		} else {
			missing[row.ID] = i
		}
	}
	var records []textOfServer
	for some := range slices.Chunk(slices.Sorted(maps.Keys(missing)), chunk) {
		condition, args := in("id", some)
		read, err := readRecords(ctx, tx, condition, args)
		if err != nil {
			return nil, err
		}
		records = append(records, read...)
	}
	decoded, err := decode(records)
	for _, server := range decoded {
		list[missing[server.ID]] = server
	}
	return slices.DeleteFunc(list, func(s lifecycle.Server) bool { return s.ID == "" }), err // deleted meanwhile
}

// where returns the conditions of the filter, without the marker and Keep.
//
// SQLite has no statistics and takes an index with more compared columns for the better one. A host has few servers, so
// with a host the other columns must not select an index: a `+` before a column prevents that.
func (f ServerFilter) where(d sqldb.Dialect) *where {
	w := &where{}
	unindexed := ""
	if f.Host != "" && d == sqldb.SQLite {
		unindexed = "+"
	}
	for _, c := range []struct{ column, value string }{
		{unindexed + "project", f.Project}, {"user_id", f.User}, {"host", f.Host}, {unindexed + "status", f.Status},
		{"flavor", f.Flavor},
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
	if !f.Before.IsZero() {
		w.and("updated <= ?", micros(f.Before))
	}
	if !f.CreatedUntil.IsZero() {
		w.and("created <= ?", micros(f.CreatedUntil))
	}
	if f.NoSoftDeleted {
		w.and("status <> ?", lifecycle.StatusSoftDeleted)
	}
	switch {
	case f.Deleted && f.OrSoftDeleted:
		w.and("(ended > 0 OR status = ?)", lifecycle.StatusSoftDeleted)
	case f.Deleted:
		w.and("ended > 0")
	case !f.ExistedSince.IsZero():
		w.and("(ended = 0 OR ended >= ?)", micros(f.ExistedSince))
	case f.Since.IsZero() && f.Before.IsZero() && f.Status != "DELETED":
		w.and("ended = 0")
	}
	return w
}

// decodeListed decodes records without the fields that no list shows, on all processors; it is a decoder.
func decodeListed(records []textOfServer) ([]lifecycle.Server, error) {
	const atLeast = 64 // records for one goroutine
	list := make([]lifecycle.Server, len(records))
	parts := max(1, min(runtime.GOMAXPROCS(0), len(records)/atLeast))
	failed := make([]error, parts)
	var running sync.WaitGroup
	for part := range parts {
		running.Go(func() {
			for i := part; i < len(records) && failed[part] == nil; i += parts {
				list[i], failed[part] = record.DecodeListed(records[i].id, records[i].record)
			}
		})
	}
	running.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
