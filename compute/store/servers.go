package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Create stores new servers of one project and user with revision 1, all or none. It returns fault.Conflict if an id
// exists already, and fault.Forbidden with quota.Exceeded if they exceed a limit, and
// fault.Invalid if a server group does not exist.
func (s *Store) Create(ctx context.Context, servers ...lifecycle.Server) error {
	request := quotaRequest{more: quota.Amounts{}}
	for _, server := range servers {
		request.project, request.user = server.Project, server.User
		request.more.Add(server.QuotaUse(), 1)
	}
	return s.withLimits(ctx, &request, func() error {
		return s.withGroups(ctx, func() error { return s.create(ctx, &request, servers) }, servers...)
	})
}

// create is an attempt of Create. It returns errLimitsUnknown if the limits are needed and not known.
func (s *Store) create(ctx context.Context, request *quotaRequest, servers []lifecycle.Server) error {
	var hosts []string
	for _, server := range servers {
		hosts = append(hosts, lifecycle.AssignmentsTouched(lifecycle.Server{}, server)...)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	var ends []func() // of each server and attempt
	var records []textOfServer
	err := s.db.WriteUpTo(ctx, lockedAttempts, func(tx *sqldb.Tx) error {
		if err := request.begin(ctx, tx); err != nil {
			return err
		}
		if err := request.check(ctx, tx); err != nil {
			return err
		}
		records = nil
		for _, server := range servers {
			text, err := s.insert(ctx, tx, server)
			if err != nil {
				return err
			}
			records = append(records, textOfServer{server.ID, text})
			if err := addMember(ctx, tx, server, *request.limits); err != nil {
				return err
			}
			ends = append(ends, s.assignments.begin(lifecycle.Server{}, server))
		}
		return raiseRevisions(ctx, tx, hosts...)
	})
	s.assignments.endAll(ends, err)
	for _, server := range servers {
		s.hosts.drop("", deviceHosts(lifecycle.Server{}, server)...)
	}
	if err != nil {
		return wrap(err)
	}
	if created, err := decodeFull(records); err == nil { // as they will be read
		for _, server := range created {
			s.servers.put(server)
		}
	}
	s.notify(hosts...)
	return nil
}

// insert writes the row of a new server, and returns its record.
func (s *Store) insert(ctx context.Context, tx *sqldb.Tx, server lifecycle.Server) ([]byte, error) {
	server.Revision = 1
	text, err := record.EncodeServer(server)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, insertServer, append(columns(server), string(text), server.ID)...)
	if sqldb.IsDuplicate(err) {
		return nil, fault.New(fault.Conflict, "server %s exists already", server.ID)
	}
	if err != nil {
		return nil, err
	}
	return text, s.saveResidences(ctx, tx, lifecycle.Server{}, server)
}

// Read returns a server by id, also a deleted one, or fault.NotFound.
func (s *Store) Read(ctx context.Context, id string) (lifecycle.Server, error) {
	if alone, doubt := s.db.Alone(); alone && s.db.Dialect == sqldb.SQLite {
		if server, ok := s.servers.current(id, doubt); ok {
			return server, nil
		}
	}
	var server lifecycle.Server
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) error {
		var err error
		server, err = s.servers.readServer(ctx, tx, id, true)
		return err
	})
	return server, wrap(err)
}

// Change reads a server, passes it to next, and stores and returns the result, in one transaction. It returns
// fault.NotFound if the server does not exist. next gets the server with its group and the zones of
// hosts; it may be called more than once. If
// next returns the record unchanged, nothing is written. It returns fault.Forbidden with quota.Exceeded if next accepts
// an action that exceeds a limit of the project. Of the steps that follow from an accepted action only a claim loses
// the choices that exceed one.
func (s *Store) Change(
	ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server,
) (after lifecycle.Server, err error) {
	return s.changeWith(ctx, id, quotaRequest{late: true}, next)
}

// ChangeWithinQuota is Change that refuses any change with which the server counts more than a limit permits.
func (s *Store) ChangeWithinQuota(ctx context.Context, id string,
	next func(lifecycle.Server) lifecycle.Server) (after lifecycle.Server, err error) {
	return s.changeWith(ctx, id, quotaRequest{late: true, always: true}, next)
}

func (s *Store) changeWith(ctx context.Context, id string, request quotaRequest,
	next func(lifecycle.Server) lifecycle.Server) (after lifecycle.Server, err error) {
	err = s.withLimits(ctx, &request, func() error {
		return s.withGroupOf(ctx, id, func() error {
			after, err = s.change(ctx, id, &request, next)
			return err
		})
	})
	return after, err
}

// nextWithin applies next to a server in a transaction. A request that exceeds a limit of the project is refused; of
// the choices of a server those are lost whose allocation would exceed one.
func nextWithin(ctx context.Context, tx *sqldb.Tx, request *quotaRequest, before lifecycle.Server,
	next func(lifecycle.Server) lifecycle.Server) (after lifecycle.Server, err error) {
	after = next(before)
	requested := after.LastAction != before.LastAction || request.always
	if !requested && !lifecycle.BeginsClaim(before, after) {
		return after, nil
	}
	request.project, request.user = after.Project, after.User
	request.more = quota.Growth(before.QuotaUse(), after.QuotaUse())
	err = request.check(ctx, tx)
	if requested || !quota.IsExceeded(err) {
		return after, err
	}
	var unread error
	after = next(before.WithQuota(func(claimed lifecycle.Server) error {
		request.more = quota.Growth(before.QuotaUse(), claimed.ClaimUse())
		err := request.check(ctx, tx)
		if err != nil && !quota.IsExceeded(err) {
			unread = cmp.Or(unread, err)
		}
		return err
	}))
	return after.WithQuota(nil), unread
}

// change is an attempt of Change. It returns errLimitsUnknown if the limits are needed and not known.
func (s *Store) change(ctx context.Context, id string, request *quotaRequest,
	next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error) {
	var before, after lifecycle.Server
	var touched []string
	var ends []func() // of each attempt
	zones, unlock, err := s.lockZones(ctx)
	if err != nil {
		return lifecycle.Server{}, err
	}
	defer unlock()
	changed := func() {}
	defer func() { changed() }()
	updateHosts := noHosts
	err = s.db.WriteUpTo(ctx, lockedAttempts, func(tx *sqldb.Tx) (err error) {
		if err := request.begin(ctx, tx); err != nil {
			return err
		}
		before, err = s.servers.readServer(ctx, tx, id, false)
		if err != nil {
			return err
		}
		group, groupRevision, err := groupOf(ctx, tx, before)
		if err != nil {
			return err
		}
		after, err = nextWithin(ctx, tx, request, before.WithGroup(group).WithZones(zones), next)
		if err != nil {
			return err
		}
		after = after.WithGroup(nil).WithZones(nil)
		after.ID, after.Revision = before.ID, before.Revision
		if reflect.DeepEqual(before, after) {
			touched, updateHosts = nil, noHosts
			return nil
		}
		after.Revision++
		text, err := record.EncodeServer(after)
		if err != nil {
			return err
		}
		changed()
		changed = s.servers.changes(id) // from before the COMMIT until the cache has the record
		statement, args := updateServer(before, after, text)
		done, err := tx.Exec(ctx, statement, args...)
		// The snapshot may be older than the row; a retry reads the current row.
		again := sqldb.Retry(fault.New(fault.Conflict, "server %s changes too often", id))
		if err := sqldb.RequireRow(done, err, again); err != nil {
			return err
		}
		if err := s.saveResidences(ctx, tx, before, after); err != nil {
			return err
		}
		if err := recordGroupHosts(ctx, tx, before, after, group, groupRevision); err != nil {
			return err
		}
		ends = append(ends, s.assignments.begin(before, after))
		touched, updateHosts = lifecycle.AssignmentsTouched(before, after), s.updateHosts(before, after)
		return raiseRevisions(ctx, tx, touched...)
	})
	s.assignments.endAll(ends, err)
	if err == nil {
		after = s.servers.put(after)
	}
	updateHosts(after, err == nil)
	if err != nil {
		return lifecycle.Server{}, wrap(err)
	}
	s.notify(touched...)
	return after, nil
}

// Unfinished lists at most limit ids greater than after of servers that have due steps, sorted.
func (s *Store) Unfinished(ctx context.Context, after string, limit int) ([]string, error) {
	var ids []string
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
		ids, err = sqldb.QueryTexts(ctx, tx, `SELECT id FROM compute_servers WHERE due = 1 AND id > ? ORDER BY id LIMIT ?`,
			after, page(limit))
		return err
	})
	return ids, wrap(err)
}

// Purge removes servers in state Deleted and their migrations: those that ended before the given time, and of the
// others all except the newest keep.
func (s *Store) Purge(ctx context.Context, before time.Time, keep int) error {
	var purged bool
	err := s.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		purged, err = purge(ctx, tx, before, keep)
		return err
	})
	if purged || err != nil {
		s.hosts.clear() // a device that a host reports with such a server counts as held again
	}
	return wrap(err)
}

// purge is the transaction of Purge. It returns whether it has removed servers.
func purge(ctx context.Context, tx *sqldb.Tx, before time.Time, keep int) (purged bool, err error) {
	remove := func(condition string, args ...any) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_servers WHERE state = ? AND `+condition,
			append([]any{string(lifecycle.Deleted)}, args...)...)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		purged = purged || n > 0
		return err
	}
	if err := remove(`ended > 0 AND ended < ?`, micros(before)); err != nil {
		return false, err
	}
	var ended, created int64
	var id string
	err = tx.QueryRow(ctx, `SELECT ended, created, id FROM compute_servers WHERE state = ? AND ended > 0
		ORDER BY ended DESC, created DESC, id DESC LIMIT 1 OFFSET ?`, string(lifecycle.Deleted), keep).
		Scan(&ended, &created, &id)
	if err == nil {
		err = remove(`ended > 0 AND ended <= ?
			AND (ended < ? OR created < ? OR (created = ? AND id <= ?))`, ended, ended, created, created, id)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	const withoutServer = `DELETE FROM compute_migrations WHERE server NOT IN (SELECT id FROM compute_servers)`
	_, err = tx.Exec(ctx, withoutServer)
	return purged, err
}

// ByReservation lists the servers of one request, including deleted ones. Their ids have a common beginning.
func (s *Store) ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = s.servers.readServers(ctx, tx, false, ` WHERE id LIKE ? ESCAPE '!' ORDER BY id`, like(beginning)[1:])
		return err
	})
	return list, wrap(err)
}
