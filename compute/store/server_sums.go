package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// HostLoad is how many servers a host has, and how many of them have a task state.
type HostLoad struct{ Servers, Busy int }

// HostLoads returns the loads of all hosts with servers, or of one host. It reads no records.
func (s *Store) HostLoads(ctx context.Context, host string) (map[string]HostLoad, error) {
	w := &where{}
	w.and("ended = 0")
	if host != "" {
		w.and("host = ?", host)
	}
	loads := map[string]HostLoad{}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		clear(loads)
		err := countByHost(ctx, tx, w, func(host string, n int) { loads[host] = HostLoad{Servers: n} })
		if err != nil {
			return err
		}
		busy := &where{conditions: append([]string{"busy = 1"}, w.conditions...), args: w.args}
		return countByHost(ctx, tx, busy, func(host string, n int) {
			loads[host] = HostLoad{Servers: loads[host].Servers, Busy: n}
		})
	})
	return loads, wrap(err)
}

// countByHost counts the servers that meet conditions.
func countByHost(ctx context.Context, tx *sqldb.Tx, w *where, count func(host string, servers int)) error {
	counts, err := sqldb.QueryMap[string, int](ctx, tx,
		`SELECT host, COUNT(*) FROM compute_servers`+w.sql()+` GROUP BY host`, w.args...)
	for host, n := range counts {
		count(host, n)
	}
	return err
}

// ServerCounts is how many servers exist, by status of the Compute API and by project.
type ServerCounts struct{ Statuses, Projects map[string]int }

// ServerCounts counts the servers that are not deleted. It reads no records.
func (s *Store) ServerCounts(ctx context.Context) (counts ServerCounts, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		counts.Statuses, err = sqldb.QueryMap[string, int](ctx, tx,
			`SELECT status, COUNT(*) FROM compute_servers WHERE ended = 0 GROUP BY status`)
		if err != nil {
			return err
		}
		counts.Projects, err = sqldb.QueryMap[string, int](ctx, tx,
			`SELECT project, COUNT(*) FROM compute_servers WHERE ended = 0 GROUP BY project`)
		return err
	})
	return counts, wrap(err)
}

// UsageFilter selects the servers that ran in a period.
type UsageFilter struct {
	Project  string // empty: all projects
	From, To time.Time
	Marker   string // id of the last server of the previous page; fault.Invalid if the filter does not select it
	Limit    int    // 0: all
}

// UsedServer is a server that ran, with the size of its flavor as it is now.
type UsedServer struct {
	ID, Project             string
	Launched, Ended         time.Time // Ended is zero for a server that exists
	VCPUs, MemoryMB, DiskGB int
}

// UsedServers lists the servers that the filter selects, by project, start and id. It reads no records. Deleted servers
// are listed until they are purged.
func (s *Store) UsedServers(ctx context.Context, f UsageFilter) ([]UsedServer, error) {
	var list []UsedServer
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = f.read(ctx, tx)
		return err
	})
	return list, wrap(err)
}

// where returns the conditions of the filter, without the marker.
func (f UsageFilter) where() *where {
	w := &where{}
	if f.Project != "" {
		w.and("project = ?", f.Project)
	}
	w.and("launched > 0 AND launched <= ?", micros(f.To))
	w.and("(ended = 0 OR ended >= ?)", micros(f.From))
	return w
}

func (f UsageFilter) read(ctx context.Context, tx *sqldb.Tx) ([]UsedServer, error) {
	w := f.where()
	if f.Marker != "" {
		at := f.where()
		at.and("id = ?", f.Marker)
		var project string
		var launched int64
		err := tx.QueryRow(ctx, `SELECT project, launched FROM compute_servers`+at.sql(), at.args...).
			Scan(&project, &launched)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fault.New(fault.Invalid, "the marker %q is not a server", f.Marker)
		}
		if err != nil {
			return nil, err
		}
		w.and("project >= ?", project)
		w.and("(project > ? OR launched > ? OR (launched = ? AND id > ?))", project, launched, launched, f.Marker)
	}
	return readUsedServers(ctx, tx, w, cmp.Or(f.Limit, 1<<31-1))
}

// readUsedServers returns the first servers that meet the conditions.
func readUsedServers(ctx context.Context, tx *sqldb.Tx, w *where, limit int) ([]UsedServer, error) {
	return sqldb.QueryList(ctx, tx, `SELECT id, project, launched, ended, vcpus, memory_mb, disk_gb FROM compute_servers`+
		w.sql()+` ORDER BY project, launched, id LIMIT ?`, append(w.args, limit), func(rows *sql.Rows) (UsedServer, error) {
		var u UsedServer
		var launched, ended int64
		err := rows.Scan(&u.ID, &u.Project, &launched, &ended, &u.VCPUs, &u.MemoryMB, &u.DiskGB)
		u.Launched = time.UnixMicro(launched).UTC()
		if ended > 0 {
			u.Ended = time.UnixMicro(ended).UTC()
		}
		return u, err
	})
}

// ListedServers returns the servers with these ids, by id, without the fields that no list shows. Unknown ids are left
// out.
func (s *Store) ListedServers(ctx context.Context, ids []string) (map[string]lifecycle.Server, error) {
	out := make(map[string]lifecycle.Server, len(ids))
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		clear(out)
		for some := range slices.Chunk(ids, chunk) {
			condition, args := in("id", some)
			records, err := readRecords(ctx, tx, condition, args)
			if err != nil {
				return err
			}
			servers, err := decodeListed(records)
			if err != nil {
				return err
			}
			for _, server := range servers {
				out[server.ID] = server
			}
		}
		return nil
	})
	return out, wrap(err)
}
