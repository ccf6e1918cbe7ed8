package store

import (
	"context"
	"database/sql"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Row is a row of the index: a provider with its inventories, traits, aggregates and usage.
type Row = index.Row

// TreeRows reads the trees with these roots in one snapshot. A provider that is not a root is left out.
func (s *Store) TreeRows(ctx context.Context, roots ...provider.ID) (rows []Row, err error) {
	err = s.read(ctx, "TreeRows", func(tx *sqldb.Tx) error {
		rows = nil
		for part := range sqldb.Chunks(roots) {
			more, err := readRows(
				ctx,
				tx,
				"JOIN resource_providers r ON r.id = p.root_provider_id WHERE r.uuid IN ("+sqldb.Placeholders(len(part))+")",
				sqldb.ToAny(part)...)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
		}
		return nil
	})
	return rows, err
}

// Uses reads the usage of these providers in one snapshot. A provider that does not exist is left out.
func (s *Store) Uses(ctx context.Context, providers ...provider.ID) (uses map[provider.ID]resource.Amounts, err error) {
	err = s.read(ctx, "Uses", func(tx *sqldb.Tx) error {
		uses = make(map[provider.ID]resource.Amounts, len(providers))
		return sqldb.QueryIn(ctx, tx,
			"SELECT t.uuid, COALESCE(c.name, ''), t.used FROM (SELECT p.uuid AS uuid, x.resource_class_id AS class, "+
				"COALESCE(SUM(x.used), 0) AS used FROM resource_providers p LEFT JOIN allocations x ON "+
				"x.resource_provider_id = p.id WHERE p.uuid IN (%) GROUP BY p.id, x.resource_class_id) t "+
				"LEFT JOIN resource_classes c ON c.id = t.class", padded(providers), func(rows *sql.Rows) error {
				var id provider.ID
				var class resource.Class
				var used int
				err := rows.Scan(&id, &class, &used)
				if uses[id] == nil {
					uses[id] = resource.Amounts{}
				}
				if class != "" {
					uses[id][class] = used
				}
				return err
			})
	})
	return uses, err
}

// rowReader collects providers by their id in the database.
type rowReader struct {
	ctx  context.Context
	tx   *sqldb.Tx
	tail string // the joins and the condition: what follows `resource_providers p`
	args []any

	rows []Row
	at   map[int64]*Row
}

// readRows reads the providers p that tail selects. They must be whole trees.
func readRows(ctx context.Context, tx *sqldb.Tx, tail string, args ...any) ([]Row, error) {
	f := rowReader{ctx: ctx, tx: tx, tail: tail, args: args, at: map[int64]*Row{}}
	reads := []func() error{f.readProviders, f.readInventories, f.readTraits, f.readAggregates, f.readUsed}
	for _, read := range reads {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for i := range f.rows {
		slices.Sort(f.rows[i].Traits)
		slices.Sort(f.rows[i].Aggregates)
	}
	return f.rows, nil
}

func (f *rowReader) readProviders() error {
	type link struct {
		id           int64
		parent, root sql.NullInt64
	}
	var links []link
	err := sqldb.QueryEach(f.ctx, f.tx,
		"SELECT p.id, p.uuid, COALESCE(p.name, ''), COALESCE(p.generation, 0), p.parent_provider_id, "+
			"p.root_provider_id FROM resource_providers p "+
			f.tail+" ORDER BY p.id", f.args, func(rows *sql.Rows) error {
			var l link
			var r Row
			err := rows.Scan(&l.id, &r.ID, &r.Name, &r.Generation, &l.parent, &l.root)
			r.Inventories, r.Used = map[resource.Class]resource.Inventory{}, resource.Amounts{}
			links, f.rows = append(links, l), append(f.rows, r)
			return err
		})
	for i, l := range links { // only now: appending to f.rows moves its rows
		f.at[l.id] = &f.rows[i]
	}
	for i, l := range links {
		f.rows[i].Root = f.rows[i].ID // a provider of an older release without a root
		if root := f.at[l.root.Int64]; l.root.Valid && root != nil {
			f.rows[i].Root = root.ID
		}
		if parent := f.at[l.parent.Int64]; l.parent.Valid && parent != nil {
			f.rows[i].Parent = parent.ID
		}
	}
	return err
}

// readNamed reads what the selected providers have in a table x: a name, from a table that it joins with LEFT JOIN, and
// other columns. Rows without a name are left out. With JOIN, MariaDB sometimes begins with the table of names, because
// it has few rows, and reads the rows of all providers that have one of the names.
func (f *rowReader) readNamed(name, columns, from, group string,
	scan func(rows *sql.Rows, id *int64, name *string) (add func(*Row), err error)) error {
	query := "SELECT x.resource_provider_id, COALESCE(" + name + ", '')" + columns + " FROM " + from +
		" JOIN resource_providers p ON p.id = x.resource_provider_id " + f.tail + group
	return sqldb.QueryEach(f.ctx, f.tx, query, f.args, func(rows *sql.Rows) error {
		var id int64
		var name string
		add, err := scan(rows, &id, &name)
		if row := f.at[id]; err == nil && row != nil && name != "" {
			add(row)
		}
		return err
	})
}

func (f *rowReader) readInventories() error {
	return f.readNamed("c.name",
		", x.total, x.reserved, x.min_unit, x.max_unit, x.step_size, x.allocation_ratio",
		"inventories x LEFT JOIN resource_classes c ON c.id = x.resource_class_id", "",
		func(rows *sql.Rows, id *int64, class *string) (add func(*Row), err error) {
			var i resource.Inventory
			err = rows.Scan(id, class, &i.Total, &i.Reserved, &i.MinUnit, &i.MaxUnit, &i.StepSize, &i.AllocationRatio)
			return func(r *Row) { r.Inventories[resource.Class(*class)] = i }, err
		})
}

func (f *rowReader) readTraits() error {
	return f.readNamed("t.name", "", "resource_provider_traits x LEFT JOIN traits t ON t.id = x.trait_id", "",
		func(rows *sql.Rows, id *int64, trait *string) (add func(*Row), err error) {
			err = rows.Scan(id, trait)
			return func(r *Row) { r.Traits = append(r.Traits, resource.Trait(*trait)) }, err
		})
}

func (f *rowReader) readAggregates() error {
	return f.readNamed("a.uuid", "",
		"resource_provider_aggregates x LEFT JOIN placement_aggregates a ON a.id = x.aggregate_id", "",
		func(rows *sql.Rows, id *int64, aggregate *string) (add func(*Row), err error) {
			err = rows.Scan(id, aggregate)
			return func(r *Row) { r.Aggregates = append(r.Aggregates, resource.AggregateID(*aggregate)) }, err
		})
}

func (f *rowReader) readUsed() error {
	return f.readNamed("c.name", ", SUM(x.used)",
		"allocations x LEFT JOIN resource_classes c ON c.id = x.resource_class_id",
		" GROUP BY x.resource_provider_id, c.name",
		func(rows *sql.Rows, id *int64, class *string) (add func(*Row), err error) {
			var used int
			err = rows.Scan(id, class, &used)
			return func(r *Row) { r.Used[resource.Class(*class)] = used }, err
		})
}
