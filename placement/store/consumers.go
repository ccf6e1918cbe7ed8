package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// consumerRow is a consumer with its ids in the database.
type consumerRow struct {
	id            int64
	generation    int
	project, user int64
	kind          sql.NullInt64
	providers     []providerRow // on which it has allocations
}

// findConsumers reads consumers. Those that do not exist are left out.
func findConsumers(ctx context.Context, tx *sqldb.Tx,
	list []resource.ConsumerID) (map[resource.ConsumerID]consumerRow, error) {
	found := make(map[resource.ConsumerID]consumerRow, len(list))
	err := sqldb.QueryIn(ctx, tx,
		"SELECT DISTINCT c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id, "+
			"p.id, COALESCE(p.uuid, ''), COALESCE(p.generation, 0), COALESCE(r.uuid, '') "+
			"FROM consumers c LEFT JOIN allocations a ON a.consumer_id = c.uuid LEFT JOIN resource_providers p ON p.id "+
			"= a.resource_provider_id "+
			"LEFT JOIN resource_providers r ON r.id = p.root_provider_id WHERE c.uuid IN "+
			"(%)", list, func(rows *sql.Rows) error {
			var c consumerRow
			var uuid resource.ConsumerID
			var p providerRow
			var number sql.NullInt64
			err := rows.Scan(&c.id, &uuid, &c.generation, &c.project, &c.user, &c.kind, &number, &p.ID, &p.Generation,
				&p.Root)
			if c.providers = found[uuid].providers; number.Valid {
				p.id = number.Int64
				c.providers = append(c.providers, p)
			}
			found[uuid] = c
			return err
		})
	return found, err
}

// nameTable is a table of external names; a name gets an id when it is first used.
type nameTable struct{ table, column string }

var (
	projectTable = nameTable{"projects", "external_id"}
	userTable    = nameTable{"users", "external_id"}
	typeTable    = nameTable{"consumer_types", "name"}

	aggregateTable = nameTable{"placement_aggregates", "uuid"}
)

// ensure returns the id of one name, and inserts the name if it does not exist.
func (s *Store) ensure(ctx context.Context, tx *sqldb.Tx, in nameTable, name string) (id int64, err error) {
	err = tx.QueryRow(ctx, "SELECT id FROM "+in.table+" WHERE "+in.column+" = ?", name).Scan(&id)
	if err == sql.ErrNoRows {
		id, err = tx.Insert(ctx, "INSERT INTO "+in.table+" (created_at, "+in.column+") VALUES (?, ?)", s.now(), name)
	}
	return id, retryDuplicate(err)
}

// owners are the ids of the projects, users and consumer types that claims name.
type owners struct{ projects, users, kinds map[string]int64 }

// ensureOwners returns the ids of all names, and inserts those that do not exist.
func (s *Store) ensureOwners(ctx context.Context, tx *sqldb.Tx, claims []Claim) (owners, error) {
	o := owners{projects: map[string]int64{}, users: map[string]int64{}, kinds: map[string]int64{}}
	var projects, users, kinds []string
	for _, c := range claims {
		if len(c.Allocation) == 0 {
			continue
		}
		projects, users = append(projects, c.Project), append(users, c.User)
		if c.ConsumerType != "" {
			kinds = append(kinds, c.ConsumerType)
		}
	}
	all := []struct {
		nameTable
		names []string
		found map[string]int64
	}{
		{projectTable, sortedSet(projects), o.projects},
		{userTable, sortedSet(users), o.users},
		{typeTable, sortedSet(kinds), o.kinds},
	}
	var parts []string
	var args []any
	for i, t := range all {
		if n := min(len(t.names), sqldb.MaxValues/len(all)); n > 0 { // longer lists take one statement each
			parts = append(parts,
				fmt.Sprintf("SELECT %d, id, %s FROM %s WHERE %s IN (%s)", i, t.column, t.table, t.column,
					sqldb.Placeholders(n)))
			args = append(args, sqldb.ToAny(t.names[:n])...)
		}
	}
	if len(parts) == 0 {
		return o, nil
	}
	err := sqldb.QueryEach(ctx, tx, strings.Join(parts, " UNION ALL "), args, func(rows *sql.Rows) error {
		var i int
		var id int64
		var name string
		err := rows.Scan(&i, &id, &name)
		all[i].found[name] = id
		return err
	})
	for _, t := range all {
		for _, name := range t.names {
			// MariaDB may have the name in other letters that it treats as equal; then ensure finds it.
			if _, ok := t.found[name]; !ok && err == nil {
				t.found[name], err = s.ensure(ctx, tx, t.nameTable, name)
			}
		}
	}
	return o, err
}

// writeConsumers inserts and updates the consumers of claims, raises their generations, and removes those without
// allocations.
func (s *Store) writeConsumers(ctx context.Context, tx *sqldb.Tx, claims []Claim,
	known map[resource.ConsumerID]consumerRow) error {
	numbers, err := s.ensureOwners(ctx, tx, claims)
	if err != nil {
		return err
	}
	var made [][]any
	var gone, same []guarded
	for _, claim := range claims {
		old, exists := known[claim.Consumer]
		kind := old.kind
		if number, ok := numbers.kinds[claim.ConsumerType]; ok {
			kind = sql.NullInt64{Int64: number, Valid: true}
		}
		project, user := numbers.projects[claim.Project], numbers.users[claim.User]
		now := guarded{old.id, old.generation}
		switch {
		case len(claim.Allocation) == 0 && exists:
			gone = append(gone, now)
		case len(claim.Allocation) == 0: // no allocation before or after
		case !exists:
			made = append(made, []any{s.now(), s.now(), claim.Consumer, project, user, kind, 1})
		case old.project == project && old.user == user && old.kind == kind:
			same = append(same, now)
		default:
			all, err := guardedExec(ctx, tx,
				"UPDATE consumers SET generation = generation + 1, project_id = ?, user_id = ?, consumer_type_id = ?, "+
					"updated_at = ? WHERE", []any{project, user, kind, s.now()}, []guarded{now})
			if err := retryIfChanged(all, err); err != nil {
				return err
			}
		}
	}
	if err := insert(ctx, tx, "consumers", "created_at, updated_at, uuid, project_id, user_id, consumer_type_id, "+
		"generation", made); err != nil {
		return retryDuplicate(err)
	}
	if err := retryIfChanged(guardedExec(ctx, tx, "UPDATE consumers SET generation = generation + 1, updated_at = "+
		"? WHERE", []any{s.now()}, same)); err != nil {
		return err
	}
	return retryIfChanged(guardedExec(ctx, tx, "DELETE FROM consumers WHERE", nil, gone))
}

// retryIfChanged retries the write from its start if a consumer has changed since this transaction read it.
func retryIfChanged(all bool, err error) error {
	if err == nil && !all {
		return sqldb.Retry(concurrent("a consumer changed at the same moment: read it again"))
	}
	return err
}
