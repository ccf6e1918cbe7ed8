package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// consumerRow is a consumer in the database.
type consumerRow struct {
	id                int64
	uuid              resource.ConsumerID
	generation        int
	project, user     int64
	kind              sql.NullInt64
	projectID, userID string
	kindName          string
}

// findConsumers reads consumers; those that do not exist are left out.
func findConsumers(ctx context.Context, tx *sqldb.Tx, list []resource.ConsumerID) (map[resource.ConsumerID]consumerRow, error) {
	found := make(map[resource.ConsumerID]consumerRow, len(list))
	err := eachOf(ctx, tx, "SELECT c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id, j.external_id, u.external_id, COALESCE(t.name, '') "+
		"FROM consumers c JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id "+
		"LEFT JOIN consumer_types t ON t.id = c.consumer_type_id WHERE c.uuid IN (%)", list, func(rows *sql.Rows) error {
		var c consumerRow
		err := rows.Scan(&c.id, &c.uuid, &c.generation, &c.project, &c.user, &c.kind, &c.projectID, &c.userID, &c.kindName)
		found[c.uuid] = c
		return err
	})
	return found, err
}

// nameTable is a table of external names that get a number when first used.
type nameTable struct{ table, column string }

var (
	projectTable = nameTable{"projects", "external_id"}
	userTable    = nameTable{"users", "external_id"}
	typeTable    = nameTable{"consumer_types", "name"}
)

// ensure finds the numbers of names and gives one to those that nobody used before.
func (s *Store) ensure(ctx context.Context, tx *sqldb.Tx, in nameTable, list ...string) (map[string]int64, error) {
	found := make(map[string]int64, len(list))
	err := eachOf(ctx, tx, "SELECT id, "+in.column+" FROM "+in.table+" WHERE "+in.column+" IN (%)", list, func(rows *sql.Rows) error {
		var id int64
		var name string
		err := rows.Scan(&id, &name)
		found[name] = id
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		if _, ok := found[name]; ok {
			continue
		}
		var id int64 // MariaDB may hold it in other letters, which it takes for the same name
		err := tx.QueryRow(ctx, "SELECT id FROM "+in.table+" WHERE "+in.column+" = ?", name).Scan(&id)
		if err == sql.ErrNoRows {
			id, err = tx.Insert(ctx, "INSERT INTO "+in.table+" (created_at, "+in.column+") VALUES (?, ?)", s.now(), name)
		}
		if err != nil {
			return nil, again(err)
		}
		found[name] = id
	}
	return found, nil
}

// owners are the numbers of all that claims name besides providers.
type owners struct{ projects, users, kinds map[string]int64 }

func (s *Store) ensureOwners(ctx context.Context, tx *sqldb.Tx, claims []Claim) (o owners, err error) {
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
	if o.projects, err = s.ensure(ctx, tx, projectTable, set(projects)...); err != nil {
		return o, err
	}
	if o.users, err = s.ensure(ctx, tx, userTable, set(users)...); err != nil {
		return o, err
	}
	o.kinds, err = s.ensure(ctx, tx, typeTable, set(kinds)...)
	return o, err
}

// set gives every value of a list once, sorted.
func set[T cmp.Ordered](list []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// writeConsumers makes the consumers of claims be what the claims say, one generation later, and removes those that hold
// nothing any more.
func (s *Store) writeConsumers(ctx context.Context, tx *sqldb.Tx, claims []Claim, known map[resource.ConsumerID]consumerRow) error {
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
		case len(claim.Allocation) == 0: // held nothing, holds nothing
		case !exists:
			made = append(made, []any{s.now(), s.now(), claim.Consumer, project, user, kind, 1})
		case old.project == project && old.user == user && old.kind == kind:
			same = append(same, now)
		default:
			all, err := guardedExec(ctx, tx, "UPDATE consumers SET generation = generation + 1, project_id = ?, user_id = ?, consumer_type_id = ?, "+
				"updated_at = ? WHERE", []any{project, user, kind, s.now()}, []guarded{now})
			if err := lost(all, err); err != nil {
				return err
			}
		}
	}
	if err := insert(ctx, tx, "consumers", "created_at, updated_at, uuid, project_id, user_id, consumer_type_id, generation", made); err != nil {
		return again(err)
	}
	if err := lost(guardedExec(ctx, tx, "UPDATE consumers SET generation = generation + 1, updated_at = ? WHERE", []any{s.now()}, same)); err != nil {
		return err
	}
	return lost(guardedExec(ctx, tx, "DELETE FROM consumers WHERE", nil, gone))
}

// lost starts the write afresh when a consumer was no longer what this transaction had read.
func lost(all bool, err error) error {
	if err == nil && !all {
		return sqldb.Retry(concurrent("a consumer changed at the same moment: read it again"))
	}
	return err
}
