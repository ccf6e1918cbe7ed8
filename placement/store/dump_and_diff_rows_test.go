package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// tables lists the tables of the schema.
var tables = []string{
	"alembic_version",
	"allocations",
	"inventories",
	"resource_provider_aggregates",
	"placement_aggregates",
	"resource_provider_traits",
	"consumers",
	"consumer_types",
	"projects",
	"users",
	"traits",
	"resource_classes",
	"resource_providers",
}

// dump formats every row of every table. In place of timestamps it has c if created_at is set, and u if updated_at is.
func dump(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		for _, table := range tables {
			rows, err := tx.Query(t.Context(), "SELECT * FROM "+table)
			if err != nil {
				return err
			}
			columns := must(rows.Columns())
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(any)
				}
				if err := rows.Scan(values...); err != nil {
					return err
				}
				all[table+formatRow(columns, values)] = true
			}
			if err := rows.Err(); err != nil {
				return err
			}
			rows.Close()
		}
		return nil
	}))
	return all
}

func formatRow(columns []string, values []any) string {
	var b strings.Builder
	for i, column := range columns {
		value := *values[i].(*any)
		if raw, ok := value.([]byte); ok {
			value = string(raw)
		}
		switch {
		case value == nil:
		case column == "created_at" || column == "updated_at":
			b.WriteString(" " + column[:1])
		default:
			fmt.Fprintf(&b, " %s=%v", column, value)
		}
	}
	return b.String()
}

// diff returns the rows that were removed (-) and added (+) between two dumps, sorted.
func diff(before, after map[string]bool) (list []string) {
	for row := range before {
		if !after[row] {
			list = append(list, "- "+row)
		}
	}
	for row := range after {
		if !before[row] {
			list = append(list, "+ "+row)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(a[2:]+a[:1], b[2:]+b[:1]) })
	return list
}
