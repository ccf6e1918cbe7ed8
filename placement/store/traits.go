package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Trait is a trait in the database.
type Trait struct {
	Name     resource.Trait
	Modified time.Time // updated_at; created_at if the row was never updated
}

// TraitFilter selects traits; the zero value selects all.
type TraitFilter struct {
	In         []resource.Trait // name=in:…; nil: any name
	Prefix     string           // name=startswith:…, with LIKE's wildcards
	Associated *bool            // true: at least one provider has it; false: none has it
}

// ProviderTraits are the traits of one provider, oldest first, at one generation.
type ProviderTraits struct {
	Generation int
	Traits     []Trait
}

// Traits lists the traits that match the filter, oldest first. Names that do not exist are left out.
func (s *Store) Traits(ctx context.Context, filter TraitFilter) (list []Trait, err error) {
	err = s.read(ctx, "Traits", func(tx *sqldb.Tx) error {
		rows, err := findTraits(ctx, tx, filter.where(), sqldb.ToAny(filter.In)...)
		list = traitsOf(rows)
		return err
	})
	list = slices.DeleteFunc(list, func(t Trait) bool { return !s.like(string(t.Name), filter.Prefix+"%") })
	return list, err
}

// like implements LIKE as the database does; the original passes a prefix to LIKE unescaped. % matches any text and _
// any character. Only PostgreSQL distinguishes upper and lower case.
func (s *Store) like(text, pattern string) bool {
	equal := strings.EqualFold
	if s.db.Dialect == sqldb.PostgreSQL {
		equal = func(a, b string) bool { return a == b }
	}
	t, p, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '%':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '_' || equal(pattern[p:p+1], text[t:t+1])):
			t, p = t+1, p+1
		case star >= 0: // let the last % match one more character
			from++
			t, p = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "%") == ""
}

// where returns the filter as a condition on a trait t, without the prefix, because LIKE differs between the
// dialects.
func (f TraitFilter) where() string {
	where := "1 = 1"
	if f.In != nil {
		where = "1 = 0"
		if len(f.In) > 0 {
			where = "t.name IN (" + sqldb.Placeholders(len(f.In)) + ")"
		}
	}
	if f.Associated != nil {
		not := ""
		if !*f.Associated {
			not = "NOT "
		}
		where += " AND " + not + "EXISTS (SELECT 1 FROM resource_provider_traits x WHERE x.trait_id = t.id)"
	}
	return where
}

type traitRow struct {
	Trait
	id      int64
	created sql.NullTime
}

// findTraits reads the traits t that match a condition, oldest first.
func findTraits(ctx context.Context, tx *sqldb.Tx, where string, args ...any) ([]traitRow, error) {
	const query = "SELECT t.id, t.name, t.created_at, t.updated_at FROM traits t WHERE "
	return sqldb.QueryList(ctx, tx, query+where+" ORDER BY t.id", args, func(rows *sql.Rows) (t traitRow, err error) {
		var at timestamps
		err = rows.Scan(&t.id, &t.Name, &at.created, &at.updated)
		t.Modified, t.created = at.modified(), at.created
		return t, err
	})
}

// findTrait reads the trait that a request names in its path. MariaDB may find one that is stored in other letters,
// which is another trait, as in the original.
func findTrait(ctx context.Context, tx *sqldb.Tx, name resource.Trait) (traitRow, error) {
	list, err := findTraits(ctx, tx, "t.name = ?", name)
	list = slices.DeleteFunc(list, func(t traitRow) bool { return t.Name != name })
	return firstOr(list, err, fault.New(fault.NotFound, "there is no trait %s", name))
}

// findTraitsOf reads the traits of a provider.
func findTraitsOf(ctx context.Context, tx *sqldb.Tx, p providerRow) ([]traitRow, error) {
	return findTraits(ctx, tx,
		"t.id IN (SELECT x.trait_id FROM resource_provider_traits x WHERE x.resource_provider_id = ?)", p.id)
}

func traitsOf(rows []traitRow) []Trait {
	list := make([]Trait, len(rows))
	for i, row := range rows {
		list[i] = row.Trait
	}
	return list
}

// Trait reads one trait. It returns NotFound if there is none.
func (s *Store) Trait(ctx context.Context, name resource.Trait) (found Trait, err error) {
	err = s.read(ctx, "Trait", func(tx *sqldb.Tx) error {
		row, err := findTrait(ctx, tx, name)
		found = row.Trait
		return err
	})
	return found, err
}

// EnsureTrait adds a custom trait if it does not exist; created reports whether it did. The caller has checked the
// name.
func (s *Store) EnsureTrait(ctx context.Context, name resource.Trait) (trait Trait, created bool, err error) {
	if trait, err = s.Trait(ctx, name); !fault.Is(err, fault.NotFound) {
		return trait, false, err // it exists, the usual case, or cannot be read
	}
	const insert = "INSERT INTO traits (created_at, name) VALUES (?, ?)"
	row, err := untilKnown(ctx, s.db, func() (row traitRow, err error) {
		err = s.write(ctx, "EnsureTrait", func(tx *sqldb.Tx) error {
			created = false
			row, err = findTrait(ctx, tx, name)
			if fault.Is(err, fault.NotFound) {
				row.Trait = Trait{Name: name, Modified: s.now()}
				row.id, err = tx.Insert(ctx, insert, row.Modified, name)
				created = err == nil
			}
			return retryDuplicate(err)
		})
		return row, err
	}, func(ctx context.Context, row traitRow) (outcome, error) {
		return s.findNew(ctx, newRow{"traits", "name", name, insert, []any{row.Modified, name}, row.id, row.Modified})
	})
	return row.Trait, created, err
}

// DeleteTrait removes a custom trait. Faults: NotFound; Invalid: a standard trait; Conflict: a provider has it.
func (s *Store) DeleteTrait(ctx context.Context, name resource.Trait) error {
	_, err := untilKnown(ctx, s.db, func() (traitRow, error) { return s.deleteTrait(ctx, name) },
		func(ctx context.Context, trait traitRow) (outcome, error) {
			return s.findDeleted(ctx, "traits", trait.id, trait.created)
		})
	return err
}

// deleteTrait runs one transaction of DeleteTrait and returns the deleted row.
func (s *Store) deleteTrait(ctx context.Context, name resource.Trait) (trait traitRow, err error) {
	err = s.write(ctx, "DeleteTrait", func(tx *sqldb.Tx) error {
		trait, err = findTrait(ctx, tx, name)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(name), "CUSTOM_") {
			return fault.New(fault.Invalid, "%s is a standard trait and cannot be deleted", name)
		}
		var uses int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM resource_provider_traits WHERE trait_id = "+
			"?", trait.id).Scan(&uses); err != nil {
			return err
		}
		if uses > 0 {
			return fault.New(fault.Conflict, "the trait %s is in use: %d providers have it", name, uses)
		}
		_, err = tx.Exec(ctx, "DELETE FROM traits WHERE id = ?", trait.id)
		return err
	})
	return trait, err
}

// ProviderTraits reads the traits of a provider. It returns NotFound if there is no such provider.
func (s *Store) ProviderTraits(ctx context.Context, id provider.ID) (all ProviderTraits, err error) {
	err = s.read(ctx, "ProviderTraits", func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		rows, err := findTraitsOf(ctx, tx, p)
		all = ProviderTraits{Generation: p.Generation, Traits: traitsOf(rows)}
		return err
	})
	return all, err
}

// ReplaceTraits replaces the traits of a provider; its generation is raised if that changes anything. Faults:
// NotFound; Invalid: an unknown trait; Conflict placement.concurrent_update: another generation.
func (s *Store) ReplaceTraits(ctx context.Context, id provider.ID, generation int,
	traits []resource.Trait) (now ProviderTraits, change Change, err error) {
	m, err := untilKnown(ctx, s.db, func() (m providerChange, err error) {
		err = s.write(ctx, "ReplaceTraits", func(tx *sqldb.Tx) error {
			p, err := findProvider(ctx, tx, id)
			if err != nil {
				return err
			}
			if err := p.expect(generation); err != nil {
				return err
			}
			want, err := findNamedTraits(ctx, tx, traits)
			if err != nil {
				return err
			}
			m, err = s.withFixedClock().setTraits(ctx, tx, p, want)
			now = ProviderTraits{Generation: m.change.Generation, Traits: traitsOf(want)}
			return err
		})
		return m, err
	}, s.findChange)
	return now, m.change, err
}

// findNamedTraits reads the traits that a request names in its body. Invalid: an unknown one.
func findNamedTraits(ctx context.Context, tx *sqldb.Tx, traits []resource.Trait) (list []traitRow, err error) {
	list, err = sqldb.FindIn(ctx, tx, "t.name", traits, findTraits)
	if err != nil {
		return nil, err
	}
	found := make(map[resource.Trait]bool, len(list))
	for _, t := range list {
		found[t.Name] = true
	}
	return list, unknownNames("trait", traits, found)
}

// ClearTraits removes all traits, without checking the generation, which is raised if there were any. Fault:
// NotFound.
func (s *Store) ClearTraits(ctx context.Context, id provider.ID) (Change, error) {
	m, err := untilKnown(ctx, s.db, func() (m providerChange, err error) {
		err = s.write(ctx, "ClearTraits", func(tx *sqldb.Tx) error {
			p, err := findProvider(ctx, tx, id)
			if err != nil {
				return err
			}
			m, err = s.withFixedClock().setTraits(ctx, tx, p, nil)
			if m.compare != nil {
				m.compare = compareTraits(p.id, nil, nil, m.at, true)
			}
			return err
		})
		return m, err
	}, s.findChange)
	return m.change, err
}

// setTraits replaces the traits of a provider, and raises its generation if that changes anything.
func (s *Store) setTraits(ctx context.Context, tx *sqldb.Tx, p providerRow,
	want []traitRow) (m providerChange, err error) {
	have, err := findTraitsOf(ctx, tx, p)
	if err != nil {
		return m, err
	}
	wanted, had := map[int64]bool{}, map[int64]bool{}
	var all, less, added []int64
	var more [][]any
	for _, t := range want {
		wanted[t.id] = true
		all = append(all, t.id)
	}
	for _, t := range have {
		had[t.id] = true
		if !wanted[t.id] {
			less = append(less, t.id)
		}
	}
	for _, t := range want {
		if !had[t.id] {
			more, added = append(more, []any{s.now(), t.id, p.id}), append(added, t.id)
		}
	}
	if len(less) == 0 && len(more) == 0 {
		return providerChange{change: Change{Roots: roots(p), Generation: p.Generation}}, nil
	}
	for part := range sqldb.Chunks(less) {
		if _, err := tx.Exec(ctx, "DELETE FROM resource_provider_traits WHERE resource_provider_id = ? AND "+
			"trait_id IN ("+sqldb.Placeholders(len(part))+")",
			append([]any{p.id}, sqldb.ToAny(part)...)...); err != nil {
			return m, err
		}
	}
	if err := insert(ctx, tx, "resource_provider_traits", "created_at, trait_id, "+
		"resource_provider_id", more); err != nil {
		return m, retryDuplicate(err)
	}
	m.raisedProvider, m.at, m.compare = p.raisedBy(1), s.now(), compareTraits(p.id, all, added, s.now(), false)
	m.change, err = s.raised(ctx, tx, p)
	return m, err
}

// compareTraits compares a provider's traits with the result of a write at the time at.
func compareTraits(row int64, want, inserted []int64, at time.Time, anybody bool) comparison {
	return func(ctx context.Context, tx *sqldb.Tx) (same, ours bool, err error) {
		now := map[int64]sql.NullTime{}
		const query = "SELECT trait_id, created_at FROM resource_provider_traits WHERE resource_provider_id = ?"
		err = sqldb.QueryEach(ctx, tx, query, []any{row}, func(rows *sql.Rows) error {
			var trait int64
			var created sql.NullTime
			err := rows.Scan(&trait, &created)
			now[trait] = created
			return err
		})
		same, ours = compareRows(tx, now, want, inserted, at, anybody)
		return same, ours, err
	}
}
