package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Provider is one provider without inventories, traits and aggregates.
type Provider struct {
	provider.Provider
	Modified time.Time // updated_at; created_at if the row was never updated
}

// Filter selects providers; a provider must match all fields that are set. The zero value selects all.
type Filter struct {
	Name        string
	ID          provider.ID
	InTree      provider.ID              // the tree of this provider; no match if it does not exist
	MemberOf    [][]resource.AggregateID // each element: a member of at least one of these
	NotMemberOf []resource.AggregateID   // a member of none of these
}

// Providers lists the providers that match the filter, oldest first.
func (s *Store) Providers(ctx context.Context, filter Filter) (list []Provider, err error) {
	err = s.read(ctx, "Providers", func(tx *sqldb.Tx) error {
		numbers, err := aggregateNumbers(ctx, tx, "SELECT id, uuid FROM placement_aggregates WHERE uuid IN (%)",
			slices.Concat(slices.Concat(filter.MemberOf...), filter.NotMemberOf))
		if err != nil {
			return err
		}
		where, args := filter.where(numbers)
		rows, err := findProviders(ctx, tx, where, args...)
		list = make([]Provider, len(rows))
		for i, row := range rows {
			list[i] = row.Provider
		}
		return err
	})
	return list, err
}

// where returns the filter as a condition on a provider p. numbers are the ids of the aggregates by their names in the
// database: the original, too, finds no aggregate in other letters.
func (f Filter) where(numbers map[resource.AggregateID]int64) (where string, args []any) {
	const memberOf = "p.id IN (SELECT m.resource_provider_id FROM resource_provider_aggregates m " +
		"WHERE m.aggregate_id IN (%))"
	known := func(set []resource.AggregateID) (list []any) {
		for _, aggregate := range set {
			if number, ok := numbers[aggregate]; ok {
				list = append(list, number)
			}
		}
		return list
	}
	terms := []string{"1 = 1"}
	add := func(term string, values ...any) {
		terms = append(terms, strings.Replace(term, "%", sqldb.Placeholders(len(values)), 1))
		args = append(args, values...)
	}
	if f.Name != "" {
		add("p.name = ?", f.Name)
	}
	if f.ID != "" {
		add("p.uuid = ?", f.ID)
	}
	if f.InTree != "" {
		add("p.root_provider_id = (SELECT t.root_provider_id FROM resource_providers t WHERE t.uuid = ?)", f.InTree)
	}
	for _, set := range f.MemberOf {
		if list := known(set); len(list) > 0 {
			add(memberOf, list...)
		} else {
			add("1 = 0")
		}
	}
	if list := known(f.NotMemberOf); len(list) > 0 {
		add("NOT "+memberOf, list...)
	}
	return strings.Join(terms, " AND "), args
}

// aggregateNumbers reads ids and names of aggregates, which are the columns of query.
func aggregateNumbers[T any](ctx context.Context, tx *sqldb.Tx, query string,
	list []T) (map[resource.AggregateID]int64, error) {
	found := map[resource.AggregateID]int64{}
	err := sqldb.QueryIn(ctx, tx, query, list, func(rows *sql.Rows) error {
		var id int64
		var aggregate resource.AggregateID
		err := rows.Scan(&id, &aggregate)
		found[aggregate] = id
		return err
	})
	return found, err
}

// Provider reads one provider. It returns NotFound if there is none.
func (s *Store) Provider(ctx context.Context, id provider.ID) (found Provider, err error) {
	err = s.read(ctx, "Provider", func(tx *sqldb.Tx) error {
		row, err := wholeProvider(ctx, tx, id)
		found = row.Provider
		return err
	})
	return found, err
}

// Roots returns the roots of the trees that contain these providers, sorted. Providers that do not exist are left out.
func (s *Store) Roots(ctx context.Context, ids ...provider.ID) (found []provider.ID, err error) {
	err = s.read(ctx, "Roots", func(tx *sqldb.Tx) error {
		found = nil
		err := sqldb.QueryIn(ctx, tx, "SELECT DISTINCT r.uuid FROM resource_providers p JOIN resource_providers r ON "+
			"r.id = p.root_provider_id WHERE p.uuid IN (%)", ids, func(rows *sql.Rows) error {
			var id provider.ID
			err := rows.Scan(&id)
			found = append(found, id)
			return err
		})
		found = sortedSet(found)
		return err
	})
	return found, err
}

// providerRow is a provider with its ids in the database.
type providerRow struct {
	Provider
	id, root int64
	parent   sql.NullInt64
}

// findProviders reads the providers p that match a condition, oldest first.
func findProviders(ctx context.Context, tx *sqldb.Tx, where string, args ...any) ([]providerRow, error) {
	const query = "SELECT p.id, p.uuid, COALESCE(p.name, ''), COALESCE(p.generation, 0), p.created_at, p.updated_at, " +
		"r.id, r.uuid, q.id, COALESCE(q.uuid, '') " +
		"FROM resource_providers p JOIN resource_providers r ON r.id = p.root_provider_id " +
		"LEFT JOIN resource_providers q ON q.id = p.parent_provider_id WHERE "
	return sqldb.QueryList(ctx, tx, query+where+" ORDER BY p.id", args, func(rows *sql.Rows) (p providerRow, err error) {
		var at timestamps
		err = rows.Scan(&p.id, &p.ID, &p.Name, &p.Generation, &at.created, &at.updated,
			&p.root, &p.Root, &p.parent, &p.Parent)
		p.Modified = at.modified()
		return p, err
	})
}

// wholeProvider reads all columns of the provider that a request names in its path.
func wholeProvider(ctx context.Context, tx *sqldb.Tx, id provider.ID) (providerRow, error) {
	list, err := findProviders(ctx, tx, "p.uuid = ?", id)
	return firstOr(list, err, noProvider(id))
}

// findProvider reads id, generation and root of the provider that a request names in its path, which is all that
// nearly every write needs. Name, parent and modification time stay empty.
func findProvider(ctx context.Context, tx *sqldb.Tx, id provider.ID) (p providerRow, err error) {
	err = sqldb.QueryEach(ctx, tx,
		"SELECT p.id, p.uuid, COALESCE(p.generation, 0), r.id, r.uuid FROM resource_providers p "+
			"JOIN resource_providers r ON r.id = p.root_provider_id WHERE p.uuid = "+
			"?", []any{id}, func(rows *sql.Rows) error {
			return rows.Scan(&p.id, &p.ID, &p.Generation, &p.root, &p.Root)
		})
	if err == nil && p.ID == "" {
		err = noProvider(id)
	}
	return p, err
}

// noProvider returns the NotFound for a provider. Neutron recognises the missing object by the first words of the
// message.
func noProvider(id provider.ID) error {
	return fault.New(fault.NotFound, "No resource provider with uuid %s is known", id)
}

// findProvidersOf reads the providers that a request names in its body, by ID. Providers that do not exist are left
// out.
func findProvidersOf(ctx context.Context, tx *sqldb.Tx, ids []provider.ID) (map[provider.ID]providerRow, error) {
	list, err := sqldb.FindIn(ctx, tx, "p.uuid", ids, findProviders)
	found := make(map[provider.ID]providerRow, len(list))
	for _, p := range list {
		found[p.ID] = p
	}
	asNamed(found, ids)
	return found, err
}

// roots returns the roots of providers, sorted, without duplicates.
func roots(list ...providerRow) []provider.ID {
	set := map[provider.ID]bool{}
	for _, p := range list {
		set[p.Root] = true
	}
	return slices.Sorted(maps.Keys(set))
}
