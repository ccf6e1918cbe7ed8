package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// maxCachedServers bounds the memory of a serverCache: a record has a few kilobytes.
const maxCachedServers = 20_000

// serverCache keeps decoded records of servers. Except by current, a record is used only if the database has its
// revision, so the cache never changes a result; it saves the decoding, which takes longer than the query. Records that
// it returns are shared: no caller changes them in place. It is safe for concurrent use.
type serverCache struct {
	mu       sync.RWMutex
	byID     map[string]lifecycle.Server
	changing map[string]int // by id: how many changes of the row run
	doubt    *time.Time     // the last one after whose end current has dropped what was read before
}

func newServerCache() *serverCache {
	return &serverCache{byID: map[string]lifecycle.Server{}, changing: map[string]int{}}
}

// changes records that a row may change until ended is called, after the new record was put.
func (c *serverCache) changes(id string) (ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changing[id]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.changing[id]--; c.changing[id] == 0 {
			delete(c.changing, id)
		}
	}
}

// dropFor drops all records once for a doubt.
func (c *serverCache) dropFor(doubt *time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubt != doubt {
		c.doubt = doubt
		clear(c.byID)
	}
}

// current returns the record of a server without a query, if the row is the cached one: nothing but changes of this
// process that put the new record writes it, and none runs. The caller has checked that no other process writes, and
// that the database cannot have lost a transaction, as a replica can that takes over: then another change may have the
// same revision. The row of a server that has ended may be purged, so it is not returned. doubt is when a write last
// ended in a way that is not known, which is over now: what was read meanwhile may be older than that write.
func (c *serverCache) current(id string, doubt *time.Time) (lifecycle.Server, bool) {
	c.mu.RLock()
	same := c.doubt == doubt
	c.mu.RUnlock()
	if !same {
		c.dropFor(doubt)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.byID[id]
	return s, ok && c.changing[id] == 0 && s.Ended.IsZero()
}

func (c *serverCache) get(id string) (lifecycle.Server, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.byID[id]
	return s, ok
}

// put keeps a record as it is in the database. A record of a transaction must be committed.
func (c *serverCache) put(s lifecycle.Server) lifecycle.Server {
	clip(reflect.ValueOf(&s).Elem())
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.byID[s.ID]; ok && old.Revision >= s.Revision {
		return s
	}
	for id := range c.byID {
		if len(c.byID) < maxCachedServers {
			break
		}
		delete(c.byID, id) // any
	}
	c.byID[s.ID] = s
	return s
}

// clip reduces the capacity of all slices in a value to their length, so that append copies them. It does not look
// into maps.
func clip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			clip(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				clip(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Cap() != v.Len() { // otherwise it may be shared with another record, which is read at the same time
			v.Set(v.Slice3(0, v.Len(), v.Len()))
		}
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Struct, reflect.Slice:
			for i := range v.Len() {
				clip(v.Index(i))
			}
		}
	}
}

// isCurrent reports whether a cached record is that of a row with this revision and this time of the last change. The
// time matters after a database has lost its newest transactions, as in a failover to a replica: another change may
// have the same revision then.
func isCurrent(cached lifecycle.Server, revision, updated int64) bool {
	return cached.Revision == revision && micros(cached.Updated) == updated
}

// readServer reads a server by id; fault.NotFound. committed is false in a transaction that writes: it may see rows
// that are not committed, and these are not kept.
func (c *serverCache) readServer(ctx context.Context, tx *sqldb.Tx, id string, committed bool) (lifecycle.Server,
	error) {
	known, _ := c.get(id)
	var text []byte
	err := tx.QueryRow(ctx, `SELECT CASE WHEN revision = ? AND updated = ? THEN '' ELSE record END FROM compute_servers
		WHERE id = ?`, known.Revision, micros(known.Updated), id).Scan(&text)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lifecycle.Server{}, fault.New(fault.NotFound, "there is no server %s", id)
	case err != nil:
		return lifecycle.Server{}, err
	case len(text) == 0:
		return known, nil
	}
	server, err := record.DecodeServer(id, text)
	if err == nil && committed {
		server = c.put(server)
	}
	return server, err
}

// readServers reads the servers of the rows that the rest of the statement selects, in a transaction that only reads.
// Rows that were not cached before are cached if keep is set.
func (c *serverCache) readServers(ctx context.Context, tx *sqldb.Tx, keep bool, rest string, args ...any) (
	[]lifecycle.Server, error) {
	list, missing, err := c.selectRows(ctx, tx, rest, args)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, i := range missing {
		at[list[i].ID] = i
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunk) {
		condition, args := in("id", some)
		read, err := decodeServers(ctx, tx, condition, args)
		if err != nil {
			return nil, err
		}
		for _, server := range read {
			if keep {
				server = c.put(server)
			}
			list[at[server.ID]] = server
		}
	}
	return slices.DeleteFunc(list, func(s lifecycle.Server) bool { return s.Revision == 0 }), nil // deleted meanwhile
}

// selectRows returns the servers of the selected rows. Of those in missing only the id is set.
func (c *serverCache) selectRows(ctx context.Context, tx *sqldb.Tx, rest string, args []any) (list []lifecycle.Server,
	missing []int, err error) {
	err = sqldb.QueryEach(ctx, tx, `SELECT id, revision, updated FROM compute_servers`+rest, args,
		func(rows *sql.Rows) error {
			var id string
			var revision, updated int64
			if err := rows.Scan(&id, &revision, &updated); err != nil {
				return err
			}
			server, ok := c.get(id)
			if !ok || !isCurrent(server, revision, updated) {
				server = lifecycle.Server{ID: id}
				missing = append(missing, len(list))
			}
			list = append(list, server)
			return nil
		})
	return list, missing, err
}

// decodeServers reads and decodes the records of the rows that meet a condition.
func decodeServers(ctx context.Context, tx *sqldb.Tx, condition string, args []any) ([]lifecycle.Server, error) {
	records, err := readRecords(ctx, tx, condition, args)
	if err != nil {
		return nil, err
	}
	return decodeFull(records)
}

// textOfServer is the record of a server before it is decoded.
type textOfServer struct {
	id     string
	record []byte
}

// readRecords reads the records of the rows that meet a condition.
func readRecords(ctx context.Context, tx *sqldb.Tx, condition string, args []any) ([]textOfServer, error) {
	return sqldb.QueryList(ctx, tx, `SELECT id, record FROM compute_servers WHERE `+condition, args,
		func(rows *sql.Rows) (r textOfServer, err error) {
			err = rows.Scan(&r.id, &r.record)
			return r, err
		})
}

// decoder decodes records. The order of the result is that of the records.
type decoder func(records []textOfServer) ([]lifecycle.Server, error)

// decodeFull decodes records; it is a decoder.
func decodeFull(records []textOfServer) ([]lifecycle.Server, error) {
	list := make([]lifecycle.Server, 0, len(records))
	for _, r := range records {
		server, err := record.DecodeServer(r.id, r.record)
		if err != nil {
			return nil, err
		}
		list = append(list, server)
	}
	return list, nil
}
