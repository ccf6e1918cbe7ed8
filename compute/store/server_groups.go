package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// ServerGroup is a group of servers of a project, and the policy by which their hosts are chosen.
type ServerGroup struct {
	ID, Name      string
	Project, User string
	Policy        schedule.GroupPolicy
	MaxPerHost    int // of AntiAffinity; 0: not given, which means 1
	Created       time.Time
	Members       []string // ids of servers that are not deleted, sorted
}

const groupColumns = `id, project, user_id, name, policy, max_per_host, created`

// CreateServerGroup stores a new group without members. It returns fault.Forbidden if its project, or its user in it,
// has as many groups as the limits permit.
func (s *Store) CreateServerGroup(ctx context.Context, g ServerGroup, limits ProjectLimits) error {
	owner := "server groups of " + g.Project
	unlock, err := s.quotaLocks.lock(ctx, owner)
	if err != nil {
		return err
	}
	defer unlock()
	return wrap(s.db.WriteUpTo(ctx, lockedAttempts, func(tx *sqldb.Tx) error {
		if err := lockOwner(ctx, tx, owner); err != nil {
			return err
		}
		for _, of := range []struct {
			what, id, user string
			limits         quota.Amounts
		}{{"project", g.Project, "", limits.Project}, {"user", g.User, g.User, limits.User}} {
			most, use := of.limits.Limit(quota.ServerGroups), quota.Amounts{}
			if most < 0 {
				continue
			}
			if err := addGroupCount(ctx, tx, use, g.Project, of.user); err != nil {
				return err
			}
			if count := use[quota.ServerGroups]; count >= most {
				return fault.New(fault.Forbidden,
					"Quota exceeded, too many server groups. (%s %s has %d of %d)", of.what, of.id, count, most)
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO compute_server_groups (`+groupColumns+`, revision)
			VALUES (?, ?, ?, ?, ?, ?, ?, 1)`,
			g.ID, g.Project, g.User, g.Name, string(g.Policy), g.MaxPerHost, micros(g.Created))
		return err
	}))
}

// countOf returns the number in the only row of a query.
func countOf(ctx context.Context, tx *sqldb.Tx, query string, args ...any) (n int, err error) {
	err = tx.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

// ServerGroup returns a group with its members, or fault.NotFound.
func (s *Store) ServerGroup(ctx context.Context, id string) (ServerGroup, error) {
	list, err := s.groups(ctx, `id = ?`, id)
	switch {
	case err != nil:
		return ServerGroup{}, err
	case len(list) == 0:
		return ServerGroup{}, unknownGroup(id)
	}
	return list[0], nil
}

// ServerGroups lists the groups of a project, or with an empty project all groups, with their members, the oldest
// first.
func (s *Store) ServerGroups(ctx context.Context, project string) ([]ServerGroup, error) {
	if project == "" {
		return s.groups(ctx, `id <> ?`, "")
	}
	return s.groups(ctx, `project = ?`, project)
}

// groups lists the groups that meet a condition.
func (s *Store) groups(ctx context.Context, condition string, arg any) (list []ServerGroup, err error) {
	members := map[string][]string{}
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		clear(members)
		list, err = sqldb.QueryList(ctx, tx, `SELECT `+groupColumns+` FROM compute_server_groups WHERE `+condition+
			` ORDER BY created, id`, []any{arg}, scanGroup)
		if err != nil {
			return err
		}
		return sqldb.QueryEach(ctx, tx, `SELECT m.group_id, m.server FROM compute_group_members m
			JOIN compute_server_groups g ON g.id = m.group_id JOIN compute_servers s ON s.id = m.server
			WHERE s.ended = 0 AND g.`+condition+` ORDER BY m.server`, []any{arg}, func(rows *sql.Rows) error {
			var group, server string
			if err := rows.Scan(&group, &server); err != nil {
				return err
			}
			members[group] = append(members[group], server)
			return nil
		})
	})
	for i := range list {
		list[i].Members = members[list[i].ID]
	}
	return list, wrap(err)
}

func scanGroup(rows *sql.Rows) (g ServerGroup, err error) {
	var created int64
	err = rows.Scan(&g.ID, &g.Project, &g.User, &g.Name, &g.Policy, &g.MaxPerHost, &created)
	g.Created = time.UnixMicro(created).UTC()
	return g, err
}

// DeleteServerGroup removes a group; fault.NotFound. Its policy does not restrict its servers any more.
func (s *Store) DeleteServerGroup(ctx context.Context, id string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_server_groups WHERE id = ?`, id)
		if err := sqldb.RequireRow(done, err, unknownGroup(id)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM compute_group_members WHERE group_id = ?`, id)
		return err
	}))
}

func unknownGroup(id string) error {
	return fault.New(fault.NotFound, "Instance group %s could not be found.", id)
}

// GroupOf returns what the group of a server requires of its host; nil if it is in none, or if the group is deleted.
func (s *Store) GroupOf(ctx context.Context, server lifecycle.Server) (group *schedule.ServerGroup, err error) {
	if server.Group == "" {
		return nil, nil
	}
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		group, _, err = groupOf(ctx, tx, server)
		return err
	})
	return group, wrap(err)
}

// groupOf is GroupOf in a transaction. revision is that of the group, for recordGroupHosts.
func groupOf(ctx context.Context, tx *sqldb.Tx, server lifecycle.Server) (_ *schedule.ServerGroup, revision int64,
	err error) {
	if server.Group == "" {
		return nil, 0, nil
	}
	g := schedule.ServerGroup{ID: server.Group, Others: map[string]int{}}
	err = tx.QueryRow(ctx, `SELECT policy, max_per_host, revision FROM compute_server_groups WHERE id = ?`,
		server.Group).Scan(&g.Policy, &g.MaxPerHost, &revision)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	err = sqldb.QueryEach(ctx, tx, `SELECT hosts FROM compute_group_members WHERE group_id = ? AND server <> ?`,
		[]any{server.Group, server.ID}, func(rows *sql.Rows) error {
			var hosts string
			if err := rows.Scan(&hosts); err != nil {
				return err
			}
			for host := range strings.FieldsSeq(hosts) {
				g.Others[host]++
			}
			return nil
		})
	if err == nil && g.Policy == schedule.Affinity && server.Move != nil && server.Move.Kind == lifecycle.Evacuating {
		g.Dead, err = sqldb.QueryTexts(ctx, tx, `SELECT host FROM compute_dead ORDER BY host`)
	}
	return &g, revision, err
}

// addMember adds a new server to its group. It returns fault.Invalid if the group does not exist, and fault.Forbidden
// if it has as many members as the limits permit: of all users, or of the user of the server.
func addMember(ctx context.Context, tx *sqldb.Tx, server lifecycle.Server, limits ProjectLimits) error {
	if server.Group == "" {
		return nil
	}
	group, revision, err := groupOf(ctx, tx, server)
	if err != nil {
		return err
	}
	if group == nil {
		return fault.New(fault.Invalid, "Instance group %s could not be found.", server.Group)
	}
	if err := raiseGroup(ctx, tx, server.Group, revision); err != nil { // it is not being deleted
		return err
	}
	const members = `SELECT COUNT(*) FROM compute_group_members m JOIN compute_servers s ON s.id = m.server
		WHERE m.group_id = ? AND s.ended = 0`
	for _, of := range []struct {
		limits quota.Amounts
		query  string
		args   []any
	}{{limits.Project, members, []any{server.Group}},
		{limits.User, members + ` AND s.user_id = ?`, []any{server.Group, server.User}}} {
		most := of.limits.Limit(quota.ServerGroupMembers)
		if most < 0 {
			continue
		}
		count, err := countOf(ctx, tx, of.query, of.args...)
		if err != nil {
			return err
		}
		if count >= most {
			return fault.New(fault.Forbidden, "Quota exceeded, too many servers in group %s (%d of %d)", server.Group, count,
				most)
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO compute_group_members (server, group_id, hosts) VALUES (?, ?, ?)`, server.ID,
		server.Group, strings.Join(server.GroupHosts(), " "))
	return err
}

// recordGroupHosts records the hosts of a changed server for the other members of its group. group and revision are
// what groupOf has read before. If another member has got a host since, the transaction is repeated: then the policy is
// decided with that host.
func recordGroupHosts(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server, group *schedule.ServerGroup,
	revision int64) error {
	if group == nil {
		return nil
	}
	was, hosts := before.GroupHosts(), after.GroupHosts()
	if after.State == lifecycle.Deleted {
		_, err := tx.Exec(ctx, `DELETE FROM compute_group_members WHERE server = ?`, after.ID)
		return err
	}
	if slices.Equal(was, hosts) {
		return nil
	}
	if slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(was, host) }) {
		if err := raiseGroup(ctx, tx, after.Group, revision); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE compute_group_members SET hosts = ? WHERE server = ?`, strings.Join(hosts, " "),
		after.ID)
	return err
}

// withGroups runs a transaction of servers. If they are in server groups it runs alone for these in this process:
// otherwise those that wait for the rows of the groups repeat each other's transactions until they give up.
func (s *Store) withGroups(ctx context.Context, transaction func() error, servers ...lifecycle.Server) error {
	if s.db.Dialect == sqldb.SQLite { // it has one writer
		return transaction()
	}
	var groups []string
	for _, server := range servers {
		if server.Group != "" {
			groups = append(groups, server.Group)
		}
	}
	slices.Sort(groups) // so that no two calls wait for each other
	for _, id := range slices.Compact(groups) {
		unlock, err := s.groupLocks.lock(ctx, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return transaction()
}

// withGroupOf is withGroups for a server that exists; fault.NotFound.
func (s *Store) withGroupOf(ctx context.Context, id string, transaction func() error) (err error) {
	if s.db.Dialect == sqldb.SQLite {
		return transaction()
	}
	known, cached := s.servers.get(id) // a server stays in its group
	if !cached {
		err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
			known, err = s.servers.readServer(ctx, tx, id, true)
			return err
		})
		if err != nil {
			return wrap(err)
		}
	}
	return s.withGroups(ctx, transaction, known)
}

// raiseGroup increments the revision of a group, or repeats the transaction if it is not the given one.
func raiseGroup(ctx context.Context, tx *sqldb.Tx, id string, revision int64) error {
	done, err := tx.Exec(ctx, `UPDATE compute_server_groups SET revision = revision + 1 WHERE id = ? AND revision = ?`, id,
		revision)
	return sqldb.RequireRow(done, err, sqldb.Retry(fault.New(fault.Conflict, "server group %s changes too often", id)))
}
