package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Trees reads all providers in one snapshot, and then calls each with the rows of one tree after the other, sorted by
// root. The rows are valid until each returns: millions of rows with their maps need several times the memory of the
// index that is made of them.
func (s *Store) Trees(ctx context.Context, each func(root provider.ID, rows []Row)) error {
	var f *forest
	err := s.read(ctx, "Trees", func(tx *sqldb.Tx) (err error) {
		f, err = readForest(ctx, tx)
		return err
	})
	if err == nil {
		f.each(each)
	}
	return err
}

// forest is all providers as the tables have them: with numbers for names, which are strings in a row.
type forest struct {
	classes    map[int64]resource.Class
	traits     map[int64]resource.Trait
	aggregates map[int64]resource.AggregateID

	providers []storedProvider // sorted by id
	last      int              // position of the provider that of returned last
}

// storedProvider is a row of resource_providers with those of other tables that belong to it.
type storedProvider struct {
	id, parent, root int64 // of the rows; 0: none
	uuid             provider.ID
	name             string
	generation       int
	inventories      []storedInventory
	used             []storedUse
	traits           []int64
	aggregates       []int64
}

type storedInventory struct {
	class int64
	resource.Inventory
}

type storedUse struct {
	class int64
	used  int
}

// readForest reads all providers. What belongs to a provider, class, trait or aggregate without a row is left out.
func readForest(ctx context.Context, tx *sqldb.Tx) (*forest, error) {
	f := &forest{}
	reads := []func() error{
		func() (err error) {
			f.classes, err = readNames[resource.Class](ctx, tx, "SELECT id, name FROM resource_classes")
			return err
		},
		func() (err error) {
			f.traits, err = readNames[resource.Trait](ctx, tx, "SELECT id, name FROM traits")
			return err
		},
		func() (err error) {
			f.aggregates, err = readNames[resource.AggregateID](ctx, tx, "SELECT id, uuid FROM placement_aggregates")
			return err
		},
		func() error { return f.readProviders(ctx, tx) },
		func() error { return f.readInventories(ctx, tx) },
		func() error { return f.readUsed(ctx, tx) },
		func() error {
			return f.readNumbers(ctx, tx, "SELECT resource_provider_id, trait_id FROM resource_provider_traits",
				func(p *storedProvider) *[]int64 { return &p.traits })
		},
		func() error {
			return f.readNumbers(ctx, tx, "SELECT resource_provider_id, aggregate_id FROM resource_provider_aggregates",
				func(p *storedProvider) *[]int64 { return &p.aggregates })
		},
	}
	for _, read := range reads {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// readNames reads the names of a table by id.
func readNames[N ~string](ctx context.Context, tx *sqldb.Tx, query string) (map[int64]N, error) {
	names := map[int64]N{}
	err := sqldb.QueryEach(ctx, tx, query, nil, func(rows *sql.Rows) error {
		var id int64
		var name N
		err := rows.Scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

func (f *forest) readProviders(ctx context.Context, tx *sqldb.Tx) error {
	return sqldb.QueryEach(ctx, tx, "SELECT id, uuid, COALESCE(name, ''), COALESCE(generation, 0), "+
		"COALESCE(parent_provider_id, 0), COALESCE(root_provider_id, 0) FROM resource_providers ORDER BY id", nil,
		func(rows *sql.Rows) error {
			var p storedProvider
			err := rows.Scan(&p.id, &p.uuid, &p.name, &p.generation, &p.parent, &p.root)
			f.providers = append(f.providers, p)
			return err
		})
}

// of returns a provider by its id, or nil. The tables have the rows of most providers one after the other.
func (f *forest) of(id int64) *storedProvider {
	for at := f.last; at < min(f.last+2, len(f.providers)); at++ {
		if p := &f.providers[at]; p.id == id {
			f.last = at
			return p
		}
	}
	at, found := slices.BinarySearchFunc(f.providers, id, func(p storedProvider, id int64) int {
		return cmp.Compare(p.id, id)
	})
	if !found {
		return nil
	}
	f.last = at
	return &f.providers[at]
}

func (f *forest) readInventories(ctx context.Context, tx *sqldb.Tx) error {
	return sqldb.QueryEach(ctx, tx, "SELECT resource_provider_id, resource_class_id, total, reserved, min_unit, "+
		"max_unit, step_size, allocation_ratio FROM inventories", nil, func(rows *sql.Rows) error {
		var id int64
		var i storedInventory
		err := rows.Scan(&id, &i.class, &i.Total, &i.Reserved, &i.MinUnit, &i.MaxUnit, &i.StepSize, &i.AllocationRatio)
		if p := f.of(id); p != nil {
			p.inventories = append(p.inventories, i)
		}
		return err
	})
}

func (f *forest) readUsed(ctx context.Context, tx *sqldb.Tx) error {
	return sqldb.QueryEach(ctx, tx, "SELECT resource_provider_id, resource_class_id, SUM(used) FROM allocations "+
		"GROUP BY resource_provider_id, resource_class_id", nil, func(rows *sql.Rows) error {
		var id int64
		var u storedUse
		err := rows.Scan(&id, &u.class, &u.used)
		if p := f.of(id); p != nil {
			p.used = append(p.used, u)
		}
		return err
	})
}

// readNumbers reads pairs of a provider and a number, and appends each number to a list of the provider.
func (f *forest) readNumbers(ctx context.Context, tx *sqldb.Tx, query string,
	list func(*storedProvider) *[]int64) error {
	return sqldb.QueryEach(ctx, tx, query, nil, func(rows *sql.Rows) error {
		var id, number int64
		err := rows.Scan(&id, &number)
		if p := f.of(id); p != nil {
			all := list(p)
			*all = append(*all, number)
		}
		return err
	})
}

// each calls fn with the rows of each tree, sorted by root, once. It uses the same rows again. A provider of an older
// release without a root is its own.
func (f *forest) each(fn func(root provider.ID, rows []Row)) {
	trees := map[*storedProvider][]*storedProvider{}
	var roots []*storedProvider
	for i := range f.providers {
		p := &f.providers[i]
		root := cmp.Or(f.of(p.root), p)
		if trees[root] == nil {
			roots = append(roots, root)
		}
		trees[root] = append(trees[root], p)
	}
	slices.SortFunc(roots, func(a, b *storedProvider) int { return cmp.Compare(a.uuid, b.uuid) })
	var rows []Row
	for _, root := range roots {
		tree := trees[root]
		rows = slices.Grow(rows[:0], len(tree))[:len(tree)]
		for i, p := range tree {
			f.fill(&rows[i], p, root)
		}
		fn(root.uuid, rows)
		for _, p := range tree { // so that the memory of both never exists at the same time
			p.inventories, p.used, p.traits, p.aggregates = nil, nil, nil, nil
		}
	}
}

// fill makes r the row of a provider.
func (f *forest) fill(r *Row, p, root *storedProvider) {
	if r.Inventories == nil {
		r.Inventories, r.Used = map[resource.Class]resource.Inventory{}, resource.Amounts{}
	}
	clear(r.Inventories)
	clear(r.Used)
	*r = index.Row{Provider: provider.Provider{ID: p.uuid, Name: p.name, Root: root.uuid, Generation: p.generation,
		Inventories: r.Inventories, Traits: named(r.Traits[:0], f.traits, p.traits),
		Aggregates: named(r.Aggregates[:0], f.aggregates, p.aggregates)}, Used: r.Used}
	if parent := f.of(p.parent); parent != nil {
		r.Parent = parent.uuid
	}
	for _, i := range p.inventories {
		if class, ok := f.classes[i.class]; ok {
			r.Inventories[class] = i.Inventory
		}
	}
	for _, u := range p.used {
		if class, ok := f.classes[u.class]; ok {
			r.Used[class] = u.used
		}
	}
}

// named appends the names of numbers to a list, and sorts it.
func named[N ~string](list []N, names map[int64]N, numbers []int64) []N {
	for _, n := range numbers {
		if name, ok := names[n]; ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
