package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// FlavorFilter selects the flavors to list, sorted by id.
type FlavorFilter struct {
	All     bool   // include flavors that are not public
	Project string // without All: include those whose access list has this project
	MinDisk int    // GiB
	MinRAM  int    // MiB
	Marker  string // id of the last flavor of the previous page; fault.Invalid if that flavor cannot be listed
	Limit   int    // 0 or more than MaxPage: MaxPage
}

const flavorColumns = `id, name, description, vcpus, memory_mb, disk_gb, ephemeral_gb, swap_mb, rxtx_factor, ` +
	`is_public, is_disabled`

// CreateFlavor stores a new flavor. It returns fault.Conflict if its id or name exists already.
func (s *Store) CreateFlavor(ctx context.Context, f flavor.Flavor) error {
	defer s.flavors.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO compute_flavors (`+flavorColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.ID, f.Name, f.Description, f.VCPUs, f.MemoryMB, f.DiskGB, f.Ephemeral, f.Swap, f.RXTXFactor,
			boolInt(f.Public), boolInt(f.Disabled))
		if sqldb.IsDuplicate(err) {
			return fault.New(fault.Conflict, "a flavor with the id %q or the name %q exists already", f.ID, f.Name)
		}
		if err != nil {
			return err
		}
		return putSpecs(ctx, tx, f.ID, f.ExtraSpecs)
	}))
}

// Flavor returns a flavor by id, or fault.NotFound.
func (s *Store) Flavor(ctx context.Context, id string) (flavor.Flavor, error) {
	f, err := s.flavors.get(&s.db, id, func() (f flavor.Flavor, err error) {
		err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
			var err error
			f, err = scanFlavor(tx.QueryRow(ctx, `SELECT `+flavorColumns+` FROM compute_flavors WHERE id = ?`, id))
			if errors.Is(err, sql.ErrNoRows) {
				return unknownFlavor(id)
			}
			if err != nil {
				return err
			}
			one := map[string]*flavor.Flavor{f.ID: &f}
			return readSpecs(ctx, tx, one)
		})
		return f, wrap(err)
	})
	f.ExtraSpecs = maps.Clone(f.ExtraSpecs)
	return f, err
}

// Flavors lists the flavors that the filter selects.
func (s *Store) Flavors(ctx context.Context, filter FlavorFilter) ([]flavor.Flavor, error) {
	var list []flavor.Flavor
	if max(filter.MinDisk, filter.MinRAM) > resource.MaxAmount { // PostgreSQL's columns have 32 bits
		return nil, nil
	}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		list = nil
		var w where
		w.and("disk_gb >= ?", max(filter.MinDisk, 0))
		w.and("memory_mb >= ?", max(filter.MinRAM, 0))
		filter.visible(&w)
		if filter.Marker != "" {
			var there string
			// A flavor that is not public yields the same error as an unknown one, so that its existence is not
			// revealed.
			var at where
			at.and("id = ?", filter.Marker)
			filter.visible(&at)
			err := tx.QueryRow(ctx, `SELECT id FROM compute_flavors`+at.sql(), at.args...).Scan(&there)
			if errors.Is(err, sql.ErrNoRows) {
				return fault.New(fault.Invalid, "the marker %q is not a flavor", filter.Marker)
			}
			if err != nil {
				return err
			}
			w.and("id > ?", filter.Marker)
		}
		var err error
		list, err = sqldb.QueryList(ctx, tx, `SELECT `+flavorColumns+` FROM compute_flavors`+w.sql()+` ORDER BY id LIMIT ?`,
			append(w.args, page(filter.Limit)), func(rows *sql.Rows) (flavor.Flavor, error) { return scanFlavor(rows) })
		if err != nil {
			return err
		}
		byID := map[string]*flavor.Flavor{}
		for i := range list {
			byID[list[i].ID] = &list[i]
		}
		return readSpecs(ctx, tx, byID)
	})
	return list, wrap(err)
}

// visible adds the condition that a flavor is one that the filter may select.
func (f FlavorFilter) visible(w *where) {
	if !f.All {
		w.and("(is_public = 1 OR id IN (SELECT flavor_id FROM compute_flavor_access WHERE project = ?))", f.Project)
	}
}

// DescribeFlavor changes the description of a flavor; fault.NotFound.
func (s *Store) DescribeFlavor(ctx context.Context, id, description string) error {
	defer s.flavors.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `UPDATE compute_flavors SET description = ? WHERE id = ?`, description, id)
		return sqldb.RequireRow(done, err, unknownFlavor(id))
	}))
}

// DeleteFlavor removes a flavor; fault.NotFound. Servers keep their copy.
func (s *Store) DeleteFlavor(ctx context.Context, id string) error {
	defer s.flavors.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_flavors WHERE id = ?`, id)
		if err := sqldb.RequireRow(done, err, unknownFlavor(id)); err != nil {
			return err
		}
		for _, table := range []string{"compute_flavor_specs", "compute_flavor_access"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE flavor_id = ?`, id); err != nil {
				return err
			}
		}
		return nil
	}))
}

// SetExtraSpecs adds or overwrites extra specs; fault.NotFound if the flavor does not exist.
func (s *Store) SetExtraSpecs(ctx context.Context, id string, specs map[string]string) error {
	defer s.flavors.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The row of the flavor is written so that a concurrent transaction cannot delete it.
		done, err := tx.Exec(ctx, `UPDATE compute_flavors SET name = name WHERE id = ?`, id)
		if err := sqldb.RequireRow(done, err, unknownFlavor(id)); err != nil {
			return err
		}
		return putSpecs(ctx, tx, id, specs)
	}))
}

// DeleteExtraSpec removes one extra spec; fault.NotFound if the flavor or the spec does not exist.
func (s *Store) DeleteExtraSpec(ctx context.Context, id, key string) error {
	defer s.flavors.forget()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_flavor_specs WHERE flavor_id = ? AND spec = ?`, id, key)
		return sqldb.RequireRow(done, err, fault.New(fault.NotFound, "flavor %s has no extra spec %q", id, key))
	}))
}

func unknownFlavor(id string) error {
	return fault.New(fault.NotFound, "there is no flavor %s", id)
}

func putSpecs(ctx context.Context, tx *sqldb.Tx, id string, specs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		if err := tx.Upsert(ctx, "compute_flavor_specs", []string{"flavor_id", "spec"}, []string{"content"},
			id, key, specs[key]); err != nil {
			return err
		}
	}
	return nil
}

// readSpecs reads the extra specs of the flavors, which are given by id.
func readSpecs(ctx context.Context, tx *sqldb.Tx, flavors map[string]*flavor.Flavor) error {
	return sqldb.QueryIn(ctx, tx, `SELECT flavor_id, spec, content FROM compute_flavor_specs WHERE flavor_id IN (%)`,
		slices.Sorted(maps.Keys(flavors)), func(rows *sql.Rows) error {
			var id, key, content string
			if err := rows.Scan(&id, &key, &content); err != nil {
				return err
			}
			flavors[id].ExtraSpecs[key] = content
			return nil
		})
}

func scanFlavor(row scanner) (flavor.Flavor, error) {
	f := flavor.Flavor{ExtraSpecs: map[string]string{}}
	var public, disabled int
	err := row.Scan(&f.ID, &f.Name, &f.Description, &f.VCPUs, &f.MemoryMB, &f.DiskGB, &f.Ephemeral, &f.Swap,
		&f.RXTXFactor, &public, &disabled)
	f.Public, f.Disabled = public == 1, disabled == 1
	return f, err
}
