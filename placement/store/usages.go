package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// ProviderUsages is the usage of each class that a provider has inventory of, zeros included, at one generation.
type ProviderUsages struct {
	Generation int
	Used       resource.Amounts
}

// UsageFilter selects consumers.
type UsageFilter struct {
	Project      string
	User         string // empty: every user
	ConsumerType string // empty: one Usage per type; "all": one for all types; "unknown": without a type
}

// Usage is the sum of the allocations of the consumers of one type.
type Usage struct {
	ConsumerType string // "all" and "unknown" included
	Consumers    int
	Used         resource.Amounts
}

// ProviderUsages sums up the usage of a provider. It returns NotFound if there is no such provider.
func (s *Store) ProviderUsages(ctx context.Context, id provider.ID) (all ProviderUsages, err error) {
	err = s.read(ctx, "ProviderUsages", func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		all = ProviderUsages{Generation: p.Generation, Used: resource.Amounts{}}
		return sqldb.QueryEach(ctx, tx,
			"SELECT c.name, COALESCE(SUM(a.used), 0) FROM inventories i JOIN resource_classes c ON c.id = "+
				"i.resource_class_id "+
				"LEFT JOIN allocations a ON a.resource_provider_id = i.resource_provider_id AND "+
				"a.resource_class_id = i.resource_class_id "+
				"WHERE i.resource_provider_id = ? GROUP BY c.name", []any{p.id}, func(rows *sql.Rows) error {
				var class resource.Class
				var used int
				err := rows.Scan(&class, &used)
				all.Used[class] = used
				return err
			})
	})
	return all, err
}

const allTypes = "all" // one sum for the consumers of every type

// Usages sums up the allocations of a project's consumers by consumer type; the list is empty without allocations.
// Before microversion 1.38 the caller requests "all" and shows only the amounts.
func (s *Store) Usages(ctx context.Context, filter UsageFilter) (list []Usage, err error) {
	// by number, because a type may have the name UNKNOWN, which MariaDB treats as equal
	label, group := "COALESCE(t.name, '"+unknownType+"')", "t.id"
	if filter.ConsumerType == allTypes {
		label, group = "'"+allTypes+"'", "label"
	}
	from, args := filter.from()
	err = s.read(ctx, "Usages", func(tx *sqldb.Tx) error {
		types := map[string]*Usage{}
		err := sqldb.QueryEach(ctx, tx, "SELECT "+label+" AS label, COUNT(DISTINCT a.consumer_id)"+from+" GROUP BY "+
			group, args, func(rows *sql.Rows) error {
			u := Usage{Used: resource.Amounts{}}
			err := rows.Scan(&u.ConsumerType, &u.Consumers)
			types[u.ConsumerType] = &u
			return err
		})
		if err != nil {
			return err
		}
		err = sqldb.QueryEach(ctx, tx, "SELECT "+label+" AS label, k.name, SUM(a.used)"+from+" GROUP BY "+group+
			", k.name", args, func(rows *sql.Rows) error {
			var name string
			var class resource.Class
			var used int
			err := rows.Scan(&name, &class, &used)
			if u := types[name]; u != nil {
				u.Used[class] = used
			}
			return err
		})
		list = nil
		for _, u := range types {
			list = append(list, *u)
		}
		slices.SortFunc(list, func(a, b Usage) int { return cmp.Compare(a.ConsumerType, b.ConsumerType) })
		return err
	})
	return list, err
}

// from returns the filter as tables and a condition: allocations a of classes k, held by consumers c of types t.
func (f UsageFilter) from() (string, []any) {
	from := " FROM allocations a JOIN resource_classes k ON k.id = a.resource_class_id JOIN consumers c ON c.uuid " +
		"= a.consumer_id " +
		"JOIN projects p ON p.id = c.project_id JOIN users u ON u.id = c.user_id LEFT JOIN consumer_types t ON " +
		"t.id = c.consumer_type_id " +
		"WHERE p.external_id = ?"
	args := []any{f.Project}
	if f.User != "" {
		from, args = from+" AND u.external_id = ?", append(args, f.User)
	}
	switch f.ConsumerType {
	case "", allTypes:
	case unknownType:
		from += " AND c.consumer_type_id IS NULL"
	default:
		from, args = from+" AND t.name = ?", append(args, f.ConsumerType)
	}
	return from, args
}
