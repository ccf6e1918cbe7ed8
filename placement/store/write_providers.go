package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// Update is the new name of a provider and, if Move is set, its new parent.
type Update struct {
	Name   string
	Move   bool        // Parent is set, even if it is empty
	Parent provider.ID // empty: the provider becomes a root
	Free   bool        // microversion 1.37: a provider with a parent can get another parent, or none
}

// CreateProvider adds a provider of generation 0; without a parent it is a root. Faults: Conflict
// placement.duplicate_name: the ID or the name exists; Invalid: the parent does not exist or is the provider itself.
func (s *Store) CreateProvider(ctx context.Context, id provider.ID, name string,
	parent provider.ID) (made Provider, change Change, err error) {
	row, err := untilKnown(ctx, s.db, func() (row providerRow, err error) {
		err = s.write(ctx, "CreateProvider", func(tx *sqldb.Tx) error {
			row, err = s.insertProvider(ctx, tx, id, name, parent)
			return err
		})
		return row, err
	}, func(ctx context.Context, row providerRow) (outcome, error) {
		return s.findNew(ctx, newRow{"resource_providers", "uuid", id,
			"INSERT INTO resource_providers (created_at, uuid, name) VALUES (?, ?, ?)",
			[]any{row.Modified, id, name}, row.id, row.Modified})
	})
	if fault.CodeOf(err) == codeDuplicate {
		if _, missing := s.Provider(ctx, id); missing == nil {
			err = fault.New(fault.Conflict, "a resource provider with the ID %s "+
				"exists already", id).
				WithCode(codeDuplicate)
		}
	}
	return row.Provider, Change{Roots: []provider.ID{row.Root}}, err
}

// insertProvider inserts the row of a provider and returns the provider.
func (s *Store) insertProvider(ctx context.Context, tx *sqldb.Tx, id provider.ID, name string,
	parent provider.ID) (made providerRow, err error) {
	made.Provider = Provider{Provider: provider.Provider{ID: id, Name: name, Parent: parent, Root: id},
		Modified: s.now()}
	var parentRow, rootRow sql.NullInt64
	if parent != "" {
		if parent == id {
			return made, fault.New(fault.Invalid, "the resource provider %s cannot be its own parent", id)
		}
		if err := lockProviders(ctx, tx, parent); err != nil {
			return made, err
		}
		p, err := findParent(ctx, tx, parent)
		if err != nil {
			return made, err
		}
		parentRow, rootRow = sql.NullInt64{Int64: p.id, Valid: true}, sql.NullInt64{Int64: p.root, Valid: true}
		made.Parent, made.Root = p.ID, p.Root
	}
	made.id, err = tx.Insert(ctx,
		"INSERT INTO resource_providers (created_at, uuid, name, generation, root_provider_id, parent_provider_id) "+
			"VALUES (?, ?, ?, 0, ?, ?)", made.Modified, id, name, rootRow, parentRow)
	if sqldb.IsDuplicate(err) {
		return made, duplicate(name)
	}
	if err == nil && parent == "" {
		_, err = tx.Exec(ctx, "UPDATE resource_providers SET root_provider_id = id, updated_at = ? WHERE id = ?",
			made.Modified, made.id)
	}
	return made, err
}

// duplicate returns the Conflict for a name that exists. Nova searches for its first words: without them Nova assumes
// that another client has just created the same provider.
func duplicate(name string) error {
	return fault.New(fault.Conflict, "Conflicting resource provider name: %q is taken", name).
		WithCode(codeDuplicate)
}

// findParent reads the provider that a request names as the parent.
func findParent(ctx context.Context, tx *sqldb.Tx, id provider.ID) (providerRow, error) {
	p, err := findProvider(ctx, tx, id)
	if fault.Is(err, fault.NotFound) {
		return p, fault.New(fault.Invalid, "the parent, resource provider %s, does not exist", id)
	}
	return p, err
}

// UpdateProvider renames and moves a provider with its subtree; its generation does not change. Faults: NotFound;
// Conflict placement.duplicate_name; Invalid: the parent does not exist, would create a loop, or Free is needed.
func (s *Store) UpdateProvider(ctx context.Context, id provider.ID,
	to Update) (now Provider, change Change, err error) {
	done, err := untilKnown(ctx, s.db, func() (updated, error) { return s.updateProvider(ctx, id, to) },
		func(ctx context.Context, done updated) (outcome, error) { return s.findUpdated(ctx, id, to, done) })
	return done.after.Provider, done.change, err
}

// updated is the effect of one transaction of UpdateProvider.
type updated struct {
	before, after providerRow
	change        Change
}

func (s *Store) updateProvider(ctx context.Context, id provider.ID, to Update) (done updated, err error) {
	err = s.write(ctx, "UpdateProvider", func(tx *sqldb.Tx) error {
		if to.Move {
			if err := lockTrees(ctx, tx, id, to.Parent); err != nil {
				return err
			}
		}
		before, err := wholeProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		if to.Move {
			if err := s.move(ctx, tx, before, to.Parent, to.Free); err != nil {
				return err
			}
		}
		if err := s.rename(ctx, tx, before, to.Name); err != nil {
			return err
		}
		after, err := wholeProvider(ctx, tx, id)
		done = updated{before, after, Change{Roots: roots(before, after), Generation: after.Generation}}
		return err
	})
	return done, err
}

// findUpdated determines the outcome of a transaction of UpdateProvider, from the provider's present name and parent.
// Any client may have set these.
func (s *Store) findUpdated(ctx context.Context, id provider.ID, to Update, done updated) (outcome, error) {
	return s.findOut(ctx, []provider.ID{id}, func(tx *sqldb.Tx) (outcome, error) {
		now, err := wholeProvider(ctx, tx, id)
		as := func(p providerRow) bool {
			return now.id == p.id && now.Name == p.Name && (!to.Move || now.Parent == p.Parent)
		}
		switch {
		case fault.Is(err, fault.NotFound):
			return undecided, nil
		case err != nil || as(done.after):
			return committed, err
		case as(done.before):
			return unchanged, nil
		}
		return undecided, nil
	})
}

// lockTrees lets only one move run at a time on servers with concurrent writers: two concurrent moves could create a
// loop. It also waits for transactions that are adding a child to the moved provider or to its new parent.
func lockTrees(ctx context.Context, tx *sqldb.Tx, ids ...provider.ID) error {
	for _, to := range lockValues(tx, "version_num", "CONCAT(version_num, '+')", "TRIM(TRAILING '+' FROM "+
		"version_num)") {
		// a row that always exists
		if _, err := tx.Exec(ctx, "UPDATE alembic_version SET version_num = "+to); err != nil {
			return err
		}
	}
	return lockProviders(ctx, tx, ids...)
}

func (s *Store) rename(ctx context.Context, tx *sqldb.Tx, p providerRow, name string) error {
	if name == p.Name {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE resource_providers SET name = ?, updated_at = ? WHERE id = ?", name, s.now(), p.id)
	if sqldb.IsDuplicate(err) {
		return duplicate(name)
	}
	return err
}

// move sets another parent, or none, for p with its subtree.
func (s *Store) move(ctx context.Context, tx *sqldb.Tx, p providerRow, parent provider.ID, free bool) error {
	if parent == p.Parent {
		return nil
	}
	if p.parent.Valid && !free {
		return fault.New(fault.Invalid,
			"the resource provider %s has a parent; giving it another one, or none, needs microversion 1.37", p.ID)
	}
	subtree, err := subtree(ctx, tx, p)
	if err != nil {
		return err
	}
	root, under := p.id, sql.NullInt64{}
	if parent != "" {
		to, err := findParent(ctx, tx, parent)
		if err != nil {
			return err
		}
		if subtree[to.id] {
			return fault.New(fault.Invalid,
				"the resource provider %s cannot have the parent %s, which is itself or its descendant: a loop", p.ID, parent)
		}
		root, under = to.root, sql.NullInt64{Int64: to.id, Valid: true}
	}
	if _, err := tx.Exec(ctx, "UPDATE resource_providers SET parent_provider_id = ?, updated_at = ? WHERE id = "+
		"?", under, s.now(), p.id); err != nil {
		return err
	}
	ids := make([]int64, 0, len(subtree))
	for id := range subtree {
		ids = append(ids, id)
	}
	for part := range sqldb.Chunks(ids) {
		_, err := tx.Exec(
			ctx,
			"UPDATE resource_providers SET root_provider_id = ?, updated_at = ? WHERE id IN ("+sqldb.Placeholders(
				len(part))+")",
			append([]any{root, s.now()}, sqldb.ToAny(part)...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// subtree returns the ids of p and of all its descendants.
func subtree(ctx context.Context, tx *sqldb.Tx, p providerRow) (map[int64]bool, error) {
	query := "SELECT id, parent_provider_id FROM resource_providers WHERE root_provider_id = ? AND " +
		"parent_provider_id IS NOT NULL"
	if tx.Dialect == sqldb.MySQL {
		query += " FOR UPDATE" // reads children that others have added since this transaction began
	}
	children := map[int64][]int64{}
	err := sqldb.QueryEach(ctx, tx, query, []any{p.root}, func(rows *sql.Rows) error {
		var id, parent int64
		err := rows.Scan(&id, &parent)
		children[parent] = append(children[parent], id)
		return err
	})
	found := map[int64]bool{p.id: true}
	for next := []int64{p.id}; len(next) > 0; next = next[1:] {
		for _, child := range children[next[0]] {
			if !found[child] {
				found[child] = true
				next = append(next, child)
			}
		}
	}
	return found, err
}

// DeleteProvider removes a provider with its inventories, traits and aggregate memberships. NotFound; Conflict
// placement.resource_provider.inuse (allocations) or placement.resource_provider.cannot_delete_parent (children).
func (s *Store) DeleteProvider(ctx context.Context, id provider.ID) (Change, error) {
	p, err := untilKnown(ctx, s.db, func() (p providerRow, err error) {
		err = s.write(ctx, "DeleteProvider", func(tx *sqldb.Tx) error {
			if err := lockProviders(ctx, tx, id); err != nil {
				return err
			}
			if p, err = findProvider(ctx, tx, id); err != nil {
				return err
			}
			return deleteProvider(ctx, tx, p)
		})
		return p, err
	}, func(ctx context.Context, p providerRow) (outcome, error) {
		return s.findOut(ctx, []provider.ID{id}, func(tx *sqldb.Tx) (outcome, error) {
			now, err := findProvider(ctx, tx, id)
			if err == nil && now.id == p.id {
				return rolledBack, nil
			}
			return committed, notMissing(err) // any client may have deleted it
		})
	})
	if err != nil {
		return Change{}, err
	}
	return Change{Roots: roots(p)}, nil
}

// notMissing returns err, or nil if err is NotFound.
func notMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func deleteProvider(ctx context.Context, tx *sqldb.Tx, p providerRow) error {
	var children, allocations int
	err := tx.QueryRow(ctx, "SELECT (SELECT COUNT(*) FROM resource_providers WHERE parent_provider_id = ?), "+
		"(SELECT COUNT(*) FROM allocations WHERE resource_provider_id = ?)", p.id, p.id).Scan(&children, &allocations)
	switch {
	case err != nil:
		return err
	case children > 0:
		return fault.New(fault.Conflict, "the resource provider %s has %d children: delete them "+
			"first", p.ID, children).
			WithCode(codeParent)
	case allocations > 0:
		return fault.New(fault.Conflict, "the resource provider %s is in use: it has %d "+
			"allocations", p.ID, allocations).
			WithCode(codeInUse)
	}
	for _, table := range []string{"inventories", "resource_provider_aggregates", "resource_provider_traits"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE resource_provider_id = ?", p.id); err != nil {
			return err
		}
	}
	// A root refers to itself, which a foreign key may treat as a child.
	if _, err := tx.Exec(ctx, "UPDATE resource_providers SET root_provider_id = NULL WHERE id = ?", p.id); err != nil {
		return err
	}
	gone, err := guardedExec(ctx, tx, "DELETE FROM resource_providers WHERE", nil, []guarded{p.guard()})
	if err == nil && !gone {
		return sqldb.Retry(concurrent("the resource provider %s changed at the same moment: read it again", p.ID))
	}
	return err
}
