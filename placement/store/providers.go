package store

import (
	"cmp"
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

// Provider is one provider as the list shows it: without inventories, traits and aggregates.
type Provider struct {
	provider.Provider
	Modified time.Time // updated_at, or created_at when it never was
}

// Filter selects providers; empty fields select all. What is given must all hold.
type Filter struct {
	Name        string
	ID          provider.ID
	InTree      provider.ID              // only the tree that holds this provider; none when there is no such provider
	MemberOf    [][]resource.AggregateID // each: a member of at least one of these
	NotMemberOf []resource.AggregateID   // a member of none of these
}

// Providers lists the providers that pass the filter, oldest first.
func (s *Store) Providers(ctx context.Context, filter Filter) (list []Provider, err error) {
	err = s.read(ctx, "Providers", func(tx *sqldb.Tx) error {
		where, args := filter.where()
		rows, err := findProviders(ctx, tx, where, args...)
		list = make([]Provider, len(rows))
		for i, row := range rows {
			list[i] = row.Provider
		}
		return err
	})
	return list, err
}

// where spells the filter for a provider p.
func (f Filter) where() (where string, args []any) {
	const memberOf = "p.id IN (SELECT m.resource_provider_id FROM resource_provider_aggregates m " +
		"JOIN placement_aggregates a ON a.id = m.aggregate_id WHERE a.uuid IN (%))"
	terms := []string{"1 = 1"}
	add := func(term string, values ...any) {
		terms = append(terms, strings.Replace(term, "%", placeholders(len(values)), 1))
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
		if len(set) == 0 {
			add("1 = 0")
			continue
		}
		add(memberOf, toAny(set)...)
	}
	if len(f.NotMemberOf) > 0 {
		add("NOT "+memberOf, toAny(f.NotMemberOf)...)
	}
	return strings.Join(terms, " AND "), args
}

// Provider reads one provider; NotFound.
func (s *Store) Provider(ctx context.Context, id provider.ID) (found Provider, err error) {
	err = s.read(ctx, "Provider", func(tx *sqldb.Tx) error {
		row, err := wholeProvider(ctx, tx, id)
		found = row.Provider
		return err
	})
	return found, err
}

// providerRow is a provider with its numbers in the database.
type providerRow struct {
	Provider
	id, root int64
	parent   sql.NullInt64
}

func (p providerRow) guard() guarded { return guarded{p.id, p.Generation} }

// raisedBy is the provider after a write that raises its generation by n.
func (p providerRow) raisedBy(n int) raisedProvider {
	return raisedProvider{p.ID, p.id, p.Generation + n}
}

// findProviders reads the providers p of a condition, oldest first.
func findProviders(ctx context.Context, tx *sqldb.Tx, where string, args ...any) (list []providerRow, err error) {
	err = queryEach(ctx, tx, "SELECT p.id, p.uuid, COALESCE(p.name, ''), COALESCE(p.generation, 0), p.created_at, p.updated_at, r.id, r.uuid, q.id, COALESCE(q.uuid, '') "+
		"FROM resource_providers p JOIN resource_providers r ON r.id = p.root_provider_id "+
		"LEFT JOIN resource_providers q ON q.id = p.parent_provider_id WHERE "+where+" ORDER BY p.id", args, func(rows *sql.Rows) error {
		var p providerRow
		var at timestamps
		err := rows.Scan(&p.id, &p.ID, &p.Name, &p.Generation, &at.created, &at.updated, &p.root, &p.Root, &p.parent, &p.Parent)
		p.Modified = at.modified()
		list = append(list, p)
		return err
	})
	return list, err
}

// wholeProvider reads the provider that a request names in its path, with all that findProvider leaves out.
func wholeProvider(ctx context.Context, tx *sqldb.Tx, id provider.ID) (providerRow, error) {
	list, err := findProviders(ctx, tx, "p.uuid = ?", id)
	if err == nil && len(list) == 0 {
		err = noProvider(id)
	}
	if err != nil {
		return providerRow{}, err
	}
	return list[0], nil
}

// findProvider reads of the provider that a request names in its path what nearly every write needs: its number, its generation and its root.
// Name, parent and moment stay empty.
func findProvider(ctx context.Context, tx *sqldb.Tx, id provider.ID) (p providerRow, err error) {
	err = queryEach(ctx, tx, "SELECT p.id, p.uuid, COALESCE(p.generation, 0), r.id, r.uuid FROM resource_providers p "+
		"JOIN resource_providers r ON r.id = p.root_provider_id WHERE p.uuid = ?", []any{id}, func(rows *sql.Rows) error {
		return rows.Scan(&p.id, &p.ID, &p.Generation, &p.root, &p.Root)
	})
	if err == nil && p.ID == "" {
		err = noProvider(id)
	}
	return p, err
}

// noProvider says that there is none. Neutron tells what is missing by how the sentence begins.
func noProvider(id provider.ID) error {
	return fault.New(fault.NotFound, "", "No resource provider with uuid %s is known", id)
}

// findProvidersOf reads the providers that a request names in its body, by ID; those that do not exist are left out.
func findProvidersOf(ctx context.Context, tx *sqldb.Tx, ids []provider.ID) (map[provider.ID]providerRow, error) {
	found := make(map[provider.ID]providerRow, len(ids))
	for part := range chunks(ids) {
		list, err := findProviders(ctx, tx, "p.uuid IN ("+placeholders(len(part))+")", toAny(part)...)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			found[p.ID] = p
		}
	}
	return found, nil
}

// expect compares a provider's generation with the one that the caller saw.
func (p providerRow) expect(generation int) error {
	if p.Generation == generation {
		return nil
	}
	return concurrent("the resource provider %s has generation %d now, not %d: read it again", p.ID, p.Generation, generation)
}

// raise adds to the generations of providers, each unless somebody else did since it was read; then the write starts afresh.
func (s *Store) raise(ctx context.Context, tx *sqldb.Tx, by int, rows ...guarded) error {
	slices.SortFunc(rows, func(a, b guarded) int { return cmp.Compare(a.id, b.id) })
	all, err := guardedExec(ctx, tx, "UPDATE resource_providers SET generation = generation + ?, updated_at = ? WHERE", []any{by, s.now()}, rows)
	if err == nil && !all {
		return sqldb.Retry(concurrent("a resource provider changed at the same moment: read it again"))
	}
	return err
}

// raised raises one provider by one and says so.
func (s *Store) raised(ctx context.Context, tx *sqldb.Tx, p providerRow) (Change, error) {
	return Change{Roots: []provider.ID{p.Root}, Generation: p.Generation + 1}, s.raise(ctx, tx, 1, p.guard())
}

// hold makes writers of these providers take turns where writers run side by side, before a transaction reads anything:
// the first wins, the others see what it did (MariaDB) or start afresh (PostgreSQL). On SQLite writers take turns anyway.
func lockProviders(ctx context.Context, tx *sqldb.Tx, ids ...provider.ID) error {
	ids = slices.Sorted(slices.Values(ids))
	for _, to := range lockValues(tx, "generation", "generation + 1", "generation - 1") {
		if err := execIn(ctx, tx, "UPDATE resource_providers SET generation = "+to+" WHERE uuid IN (%)", ids); err != nil {
			return err
		}
	}
	return nil
}

// held gives the values that a column is set to, one after the other, to hold its row. Locks are not known on the other nodes of a Galera
// cluster, rows that were changed are: so there the value changes, and changes back.
func lockValues(tx *sqldb.Tx, same, other, back string) []string {
	switch tx.Dialect {
	case sqldb.SQLite:
		return nil
	case sqldb.MySQL:
		return []string{other, back}
	}
	return []string{same}
}

// roots lists the roots of providers, each once, sorted.
func roots(list ...providerRow) []provider.ID {
	set := map[provider.ID]bool{}
	for _, p := range list {
		set[p.Root] = true
	}
	return slices.Sorted(maps.Keys(set))
}
