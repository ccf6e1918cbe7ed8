package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// guarded identifies a row that may change only while it has this generation.
type guarded struct {
	id         int64
	generation int
}

func (p providerRow) guard() guarded { return guarded{p.id, p.Generation} }

// expect compares a provider's generation with the one that the request names.
func (p providerRow) expect(generation int) error {
	if p.Generation == generation {
		return nil
	}
	return concurrent("the resource provider %s has generation %d now, not %d: read it again", p.ID, p.Generation,
		generation)
}

// raise adds to the generations of providers. If one has changed since it was read, the write is retried from its
// start.
func (s *Store) raise(ctx context.Context, tx *sqldb.Tx, by int, rows ...guarded) error {
	slices.SortFunc(rows, func(a, b guarded) int { return cmp.Compare(a.id, b.id) })
	all, err := guardedExec(ctx, tx, "UPDATE resource_providers SET generation = generation + ?, updated_at = ? WHERE",
		[]any{by, s.now()}, rows)
	if err == nil && !all {
		return sqldb.Retry(concurrent("a resource provider changed at the same moment: read it again"))
	}
	return err
}

// raised adds one to the generation of a provider and returns the Change.
func (s *Store) raised(ctx context.Context, tx *sqldb.Tx, p providerRow) (Change, error) {
	return Change{Roots: []provider.ID{p.Root}, Generation: p.Generation + 1}, s.raise(ctx, tx, 1, p.guard())
}

// guardedExec runs a statement that ends in WHERE on these rows, and reports whether all of them still had their
// generations.
func guardedExec(ctx context.Context, tx *sqldb.Tx, statement string, first []any, rows []guarded) (bool, error) {
	for part := range sqldb.Chunks(rows) {
		values := append([]any(nil), first...)
		for _, row := range part {
			values = append(values, row.id, row.generation)
		}
		terms := strings.TrimSuffix(strings.Repeat("(id = ? AND generation = ?) OR ", len(part)), " OR ")
		result, err := tx.Exec(ctx, statement+" "+terms, values...)
		if err != nil {
			return false, err
		}
		if n, err := result.RowsAffected(); err != nil || n != int64(len(part)) {
			return false, err
		}
	}
	return true, nil
}

// lockProviders lets only one writer of these providers run at a time on servers with concurrent writers. It must be
// called before the transaction reads. The first writer continues; the others then see its changes (MariaDB) or are
// retried (PostgreSQL). SQLite allows only one writer anyway.
func lockProviders(ctx context.Context, tx *sqldb.Tx, ids ...provider.ID) error {
	ids = slices.Sorted(slices.Values(ids))
	for _, to := range lockValues(tx, "generation", "generation + 1", "generation - 1") {
		if err := execIn(ctx, tx, "UPDATE resource_providers SET generation = "+to+" WHERE uuid IN "+
			"(%)", ids); err != nil {
			return err
		}
	}
	return nil
}

// lockValues returns the values to which a column must be set, one after the other, to lock its row. The nodes of a
// Galera cluster do not share locks, but detect conflicting changes: so on MySQL the value is changed and changed
// back.
func lockValues(tx *sqldb.Tx, same, other, back string) []string {
	switch tx.Dialect {
	case sqldb.SQLite:
		return nil
	case sqldb.MySQL:
		return []string{other, back}
	}
	return []string{same}
}
