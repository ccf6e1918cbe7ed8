package store

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Inventories are the inventories of one provider at one generation.
type Inventories struct {
	Generation int
	Classes    map[resource.Class]resource.Inventory
	Modified   map[resource.Class]time.Time // updated_at; created_at if the row was never updated
}

// Inventories reads the inventories of a provider. It returns NotFound if there is no such provider.
func (s *Store) Inventories(ctx context.Context, id provider.ID) (all Inventories, err error) {
	err = s.read(ctx, "Inventories", func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		all = Inventories{
			Generation: p.Generation,
			Classes:    map[resource.Class]resource.Inventory{},
			Modified:   map[resource.Class]time.Time{},
		}
		return sqldb.QueryEach(ctx, tx,
			"SELECT c.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, "+
				"i.created_at, i.updated_at "+
				"FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id WHERE "+
				"i.resource_provider_id = ?", []any{p.id}, func(rows *sql.Rows) error {
				var class resource.Class
				var i resource.Inventory
				var at timestamps
				err := rows.Scan(&class, &i.Total, &i.Reserved, &i.MinUnit, &i.MaxUnit, &i.StepSize, &i.AllocationRatio,
					&at.created, &at.updated)
				all.Classes[class], all.Modified[class] = i, at.modified()
				return err
			})
	})
	return all, err
}

// ReplaceInventories replaces all inventories of a provider and raises its generation, even if nothing changes. An
// inventory may become smaller than its usage. The caller has checked the values (reserved against total). Faults:
// NotFound; Invalid: an unknown class; Conflict placement.concurrent_update: another generation; Conflict
// placement.inventory.inuse: a class that would be removed has allocations.
func (s *Store) ReplaceInventories(ctx context.Context, id provider.ID, generation int,
	all map[resource.Class]resource.Inventory) (Change, error) {
	want := inventorySet{present: all, only: true}
	return s.writeInventories(ctx, "ReplaceInventories", id, want, func(s *Store, tx *sqldb.Tx, p providerRow) error {
		if err := p.expect(generation); err != nil {
			return err
		}
		rest, err := s.setInventories(ctx, tx, p, all)
		if err != nil {
			return err
		}
		return dropInventories(ctx, tx, p, rest)
	})
}

// writeInventories runs one change of a provider's inventories and raises its generation. want describes the
// inventories after the change.
func (s *Store) writeInventories(ctx context.Context, op string, id provider.ID, want inventorySet,
	fn func(s *Store, tx *sqldb.Tx, p providerRow) error) (Change, error) {
	m, err := untilKnown(ctx, s.db, func() (m providerChange, err error) {
		err = s.write(ctx, op, func(tx *sqldb.Tx) error {
			s := s.withFixedClock()
			if err := lockProviders(ctx, tx, id); err != nil {
				return err
			}
			p, err := findProvider(ctx, tx, id)
			if err != nil {
				return err
			}
			if err := fn(s, tx, p); err != nil {
				return err
			}
			change, err := s.raised(ctx, tx, p)
			m = providerChange{p.raisedBy(1), s.now(), change, want.comparison(p.id, s.now()), nil}
			return err
		})
		return m, err
	}, s.findChange)
	return m.change, err
}

// inventorySet describes the inventories of a provider after a write.
type inventorySet struct {
	present    map[resource.Class]resource.Inventory // these inventories exist
	only       bool                                  // no other inventories exist
	absent     resource.Class                        // this inventory does not exist
	anyRemover bool                                  // a removal without a generation: any writer may have done it
}

// comparison compares a provider's inventories with the result of a write at the time at.
func (want inventorySet) comparison(row int64, at time.Time) comparison {
	return func(ctx context.Context, tx *sqldb.Tx) (same, ours bool, err error) {
		found := 0
		same, ours = true, len(want.present) > 0 || want.anyRemover
		const query = "SELECT c.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, " +
			"i.created_at, i.updated_at FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id " +
			"WHERE i.resource_provider_id = ?"
		err = sqldb.QueryEach(ctx, tx, query, []any{row}, func(rows *sql.Rows) error {
			var class resource.Class
			var is resource.Inventory
			var written timestamps
			err := rows.Scan(&class, &is.Total, &is.Reserved, &is.MinUnit, &is.MaxUnit, &is.StepSize,
				&is.AllocationRatio, &written.created, &written.updated)
			if should, wanted := want.present[class]; wanted {
				found++
				same = same && equalInventory(is, should)
				ours = ours && matchesTimestamp(tx, sql.NullTime{Time: written.modified(), Valid: true}, at)
			} else {
				same = same && !want.only && class != want.absent
			}
			return err
		})
		return same && found == len(want.present), ours, err
	}
}

// equalInventory compares inventories with the precision of the database: at least five digits of a ratio.
func equalInventory(a, b resource.Inventory) bool {
	near := math.Abs(a.AllocationRatio-b.AllocationRatio) <= 1e-5*math.Abs(b.AllocationRatio)
	a.AllocationRatio = b.AllocationRatio
	return near && a == b
}

// setInventories adds and updates these inventories, and returns the other classes that the provider has, with their
// ids.
func (s *Store) setInventories(ctx context.Context, tx *sqldb.Tx, p providerRow,
	all map[resource.Class]resource.Inventory) (rest map[resource.Class]int64, err error) {
	have, err := inventoryNumbers(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	classes := slices.Sorted(maps.Keys(all))
	numbers, err := classNumbers(ctx, tx, classes)
	if err != nil {
		return nil, err
	}
	var more [][]any
	var added []int64
	for _, class := range classes {
		if _, ok := have[class]; !ok {
			more, added = append(more, s.inventoryRow(p, numbers[class], all[class])), append(added, numbers[class])
		} else if _, err := s.updateInventory(ctx, tx, p, numbers[class], all[class]); err != nil {
			return nil, err
		}
		delete(have, class)
	}
	if err := insert(ctx, tx, "inventories", inventoryColumns, more); err != nil {
		return nil, retryDuplicate(err)
	}
	return have, lockClasses(ctx, tx, added...)
}

const inventoryColumns = "created_at, resource_provider_id, resource_class_id, total, reserved, min_unit, " +
	"max_unit, step_size, allocation_ratio"

func (s *Store) inventoryRow(p providerRow, class int64, i resource.Inventory) []any {
	return []any{s.now(), p.id, class, i.Total, i.Reserved, i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio}
}

// updateInventory changes one inventory. It returns false if the provider has no inventory of this class.
func (s *Store) updateInventory(ctx context.Context, tx *sqldb.Tx, p providerRow, class int64,
	i resource.Inventory) (bool, error) {
	result, err := tx.Exec(ctx,
		"UPDATE inventories SET total = ?, reserved = ?, min_unit = ?, max_unit = ?, step_size = ?, "+
			"allocation_ratio = ?, updated_at = ? "+
			"WHERE resource_provider_id = ? AND resource_class_id = ?", i.Total, i.Reserved, i.MinUnit, i.MaxUnit,
		i.StepSize, i.AllocationRatio, s.now(), p.id, class)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// inventoryNumbers returns the classes that a provider has inventory of, with their ids.
func inventoryNumbers(ctx context.Context, tx *sqldb.Tx, p providerRow) (map[resource.Class]int64, error) {
	found := map[resource.Class]int64{}
	err := sqldb.QueryEach(ctx, tx,
		"SELECT c.id, c.name FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id WHERE "+
			"i.resource_provider_id = ?", []any{p.id}, func(rows *sql.Rows) error {
			var id int64
			var class resource.Class
			err := rows.Scan(&id, &class)
			found[class] = id
			return err
		})
	return found, err
}

// dropInventories removes inventories from a provider. Conflict placement.inventory.inuse: some have allocations.
func dropInventories(ctx context.Context, tx *sqldb.Tx, p providerRow, classes map[resource.Class]int64) error {
	if len(classes) == 0 {
		return nil
	}
	numbers := slices.Sorted(maps.Values(classes))
	these := " WHERE resource_provider_id = ? AND resource_class_id IN (" + sqldb.Placeholders(len(numbers)) + ")"
	values := append([]any{p.id}, sqldb.ToAny(numbers)...)
	used := map[int64]bool{}
	err := sqldb.QueryEach(ctx, tx, "SELECT DISTINCT resource_class_id FROM allocations"+these, values,
		func(rows *sql.Rows) error {
			var class int64
			err := rows.Scan(&class)
			used[class] = true
			return err
		})
	if err != nil {
		return err
	}
	if len(used) > 0 {
		var list []string
		for class, number := range classes {
			if used[number] {
				list = append(list, string(class))
			}
		}
		slices.Sort(list)
		return fault.New(fault.Conflict, "the inventory of %s on the resource provider %s is in use and cannot "+
			"go", strings.Join(list, ", "), p.ID).
			WithCode(codeInventory)
	}
	_, err = tx.Exec(ctx, "DELETE FROM inventories"+these, values...)
	return err
}

// AddInventory adds an inventory to a provider and raises its generation, without checking it first. Faults:
// NotFound; Invalid: an unknown class; Conflict placement.concurrent_update: the provider has an inventory of this
// class.
func (s *Store) AddInventory(ctx context.Context, id provider.ID, class resource.Class,
	inv resource.Inventory) (Change, error) {
	want := inventorySet{present: map[resource.Class]resource.Inventory{class: inv}}
	return s.writeInventories(ctx, "AddInventory", id, want, func(s *Store, tx *sqldb.Tx, p providerRow) error {
		numbers, err := classNumbers(ctx, tx, []resource.Class{class})
		if err != nil {
			return err
		}
		err = insert(ctx, tx, "inventories", inventoryColumns, [][]any{s.inventoryRow(p, numbers[class], inv)})
		if sqldb.IsDuplicate(err) {
			return concurrent("the resource provider %s has an inventory of %s already", p.ID, class)
		}
		if err != nil {
			return err
		}
		return lockClasses(ctx, tx, numbers[class])
	})
}

// UpdateInventory changes one inventory and raises the generation. Faults: NotFound: no such provider or class;
// Invalid: the provider has no inventory of this class; Conflict placement.concurrent_update: another generation.
func (s *Store) UpdateInventory(ctx context.Context, id provider.ID, generation int, class resource.Class,
	inv resource.Inventory) (Change, error) {
	want := inventorySet{present: map[resource.Class]resource.Inventory{class: inv}}
	return s.writeInventories(ctx, "UpdateInventory", id, want, func(s *Store, tx *sqldb.Tx, p providerRow) error {
		if err := p.expect(generation); err != nil {
			return err
		}
		c, err := findClass(ctx, tx, class)
		if err != nil {
			return err
		}
		found, err := s.updateInventory(ctx, tx, p, c.id, inv)
		if err == nil && !found {
			err = fault.New(fault.Invalid, "the resource provider %s has no inventory of %s", p.ID, class)
		}
		return err
	})
}

// DeleteInventory removes one inventory and raises the generation, without checking it first. Faults: NotFound: no
// such provider, class or inventory; Conflict placement.concurrent_update (the original's code here, not
// inventory.inuse): the inventory has allocations.
func (s *Store) DeleteInventory(ctx context.Context, id provider.ID, class resource.Class) (Change, error) {
	want := inventorySet{absent: class, anyRemover: true}
	return s.writeInventories(ctx, "DeleteInventory", id, want, func(_ *Store, tx *sqldb.Tx, p providerRow) error {
		have, err := inventoryNumbers(ctx, tx, p)
		if err != nil {
			return err
		}
		number, ok := have[class]
		if !ok {
			// Neutron searches for this text
			return fault.New(fault.NotFound, "No inventory of class %s on the resource provider %s", class, p.ID)
		}
		err = dropInventories(ctx, tx, p, map[resource.Class]int64{class: number})
		if fault.CodeOf(err) == codeInventory {
			return concurrent("%s", fault.TextOf(err))
		}
		return err
	})
}

// DeleteInventories removes all inventories and raises the generation, without checking it first. Faults: NotFound;
// Conflict placement.inventory.inuse: at least one inventory has allocations.
func (s *Store) DeleteInventories(ctx context.Context, id provider.ID) (Change, error) {
	want := inventorySet{only: true, anyRemover: true}
	return s.writeInventories(ctx, "DeleteInventories", id, want, func(_ *Store, tx *sqldb.Tx, p providerRow) error {
		all, err := inventoryNumbers(ctx, tx, p)
		if err != nil {
			return err
		}
		return dropInventories(ctx, tx, p, all)
	})
}
