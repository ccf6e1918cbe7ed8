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

// Class is a resource class.
type Class struct {
	Name     resource.Class
	Modified time.Time // updated_at; created_at if the row was never updated
}

// Classes lists all resource classes: the standard ones in their own order, then the custom ones by age.
func (s *Store) Classes(ctx context.Context) (list []Class, err error) {
	err = s.read(ctx, "Classes", func(tx *sqldb.Tx) error {
		rows, err := findClasses(ctx, tx, "1 = 1")
		list = make([]Class, len(rows))
		for i, row := range rows {
			list[i] = row.Class
		}
		return err
	})
	return list, err
}

// Class reads one resource class. It returns NotFound if there is none.
func (s *Store) Class(ctx context.Context, name resource.Class) (found Class, err error) {
	err = s.read(ctx, "Class", func(tx *sqldb.Tx) error {
		row, err := findClass(ctx, tx, name)
		found = row.Class
		return err
	})
	return found, err
}

type classRow struct {
	Class
	id      int64
	created sql.NullTime
}

func findClasses(ctx context.Context, tx *sqldb.Tx, where string, args ...any) ([]classRow, error) {
	const query = "SELECT id, name, created_at, updated_at FROM resource_classes WHERE "
	return sqldb.QueryList(ctx, tx, query+where+" ORDER BY id", args, func(rows *sql.Rows) (c classRow, err error) {
		var at timestamps
		err = rows.Scan(&c.id, &c.Name, &at.created, &at.updated)
		c.Modified, c.created = at.modified(), at.created
		return c, err
	})
}

// findClass reads the class that a request names in its path. MariaDB may find one that is stored in other letters,
// which is another class, as in the original.
func findClass(ctx context.Context, tx *sqldb.Tx, name resource.Class) (classRow, error) {
	list, err := findClasses(ctx, tx, "name = ?", name)
	list = slices.DeleteFunc(list, func(c classRow) bool { return c.Name != name })
	return firstOr(list, err, fault.New(fault.NotFound, "there is no resource class %s", name))
}

// classNumbers returns the ids of the classes that a request names in its body. Invalid: some do not exist.
func classNumbers(ctx context.Context, tx *sqldb.Tx, classes []resource.Class) (map[resource.Class]int64, error) {
	list, err := sqldb.FindIn(ctx, tx, "name", classes, findClasses)
	if err != nil {
		return nil, err
	}
	found := make(map[resource.Class]int64, len(list))
	for _, c := range list {
		found[c.Name] = c.id
	}
	return found, unknownNames("resource class", classes, found)
}

// unknownNames returns Invalid for names in a body that were not found, or nil if all were found.
func unknownNames[N ~string, V any](what string, names []N, found map[N]V) error {
	var missing []string
	for _, name := range names {
		if _, ok := found[name]; !ok {
			missing = append(missing, string(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fault.New(fault.Invalid, "there is no %s %s", what, strings.Join(slices.Compact(missing), ", "))
}

// CreateClass adds a custom class. Conflict: it exists. The caller has checked the name.
func (s *Store) CreateClass(ctx context.Context, name resource.Class) error {
	created, err := s.ensureClass(ctx, "CreateClass", name)
	if err == nil && !created {
		return fault.New(fault.Conflict, "the resource class %s exists already", name)
	}
	return err
}

// EnsureClass adds a custom class if it does not exist; created reports whether it did. The caller has checked the
// name.
func (s *Store) EnsureClass(ctx context.Context, name resource.Class) (created bool, err error) {
	return s.ensureClass(ctx, "EnsureClass", name)
}

// newClass is the effect of one transaction of ensureClass.
type newClass struct {
	id      int64
	at      time.Time
	created bool
}

func (s *Store) ensureClass(ctx context.Context, op string, name resource.Class) (created bool, err error) {
	if _, err := s.Class(ctx, name); !fault.Is(err, fault.NotFound) {
		return false, err // it exists, the usual case, or cannot be read
	}
	const insert = "INSERT INTO resource_classes (created_at, id, name) VALUES (?, ?, ?)"
	done, err := untilKnown(ctx, s.db, func() (done newClass, err error) {
		err = s.write(ctx, "DeleteClass", func(tx *sqldb.Tx) error {
			done = newClass{}
			_, err := findClass(ctx, tx, name)
			if !fault.Is(err, fault.NotFound) {
				return err
			}
			var highest int64
			if err := tx.QueryRow(ctx, "SELECT COALESCE(MAX(id), 0) FROM resource_classes").Scan(&highest); err != nil {
				return err
			}
			done = newClass{max(highest+1, firstCustomClass), s.now(), true}
			_, err = tx.Exec(ctx, insert, done.at, done.id, name)
			return retryDuplicate(err)
		})
		return done, err
	}, func(ctx context.Context, done newClass) (outcome, error) {
		if !done.created {
			return rolledBack, nil
		}
		return s.findNew(ctx, newRow{"resource_classes", "name", name, insert, []any{done.at, done.id, name}, done.id,
			done.at})
	})
	return done.created && err == nil, err
}

// findCustomClass reads the class that a request changes. Faults: NotFound; Invalid: a standard class.
func findCustomClass(ctx context.Context, tx *sqldb.Tx, name resource.Class) (classRow, error) {
	class, err := findClass(ctx, tx, name)
	if err == nil && class.id < firstCustomClass {
		err = fault.New(fault.Invalid, "%s is a standard resource class and cannot be changed", name)
	}
	return class, err
}

// RenameClass renames a custom class: PUT before microversion 1.7. Faults: NotFound; Invalid: a standard class;
// Conflict: the new name exists. Change holds the roots of all trees with inventories of the class.
func (s *Store) RenameClass(ctx context.Context, from, to resource.Class) (Change, error) {
	done, err := untilKnown(ctx, s.db, func() (renamed, error) { return s.renameClass(ctx, from, to) },
		func(ctx context.Context, done renamed) (outcome, error) {
			switch name, _, err := s.findName(ctx, "resource_classes", done.id); resource.Class(name) {
			case to:
				return committed, err
			case from:
				return rolledBack, err
			default:
				return undecided, err
			}
		})
	return done.change, err
}

// renamed is the effect of one transaction of RenameClass.
type renamed struct {
	id     int64
	change Change
}

func (s *Store) renameClass(ctx context.Context, from, to resource.Class) (done renamed, err error) {
	err = s.write(ctx, "RenameClass", func(tx *sqldb.Tx) error {
		class, err := findCustomClass(ctx, tx, from)
		if err != nil {
			return err
		}
		done = renamed{class.id, Change{Roots: []provider.ID{}}}
		err = sqldb.QueryEach(ctx, tx,
			"SELECT DISTINCT r.uuid FROM inventories i JOIN resource_providers p ON p.id = i.resource_provider_id "+
				"JOIN resource_providers r ON r.id = p.root_provider_id WHERE i.resource_class_id = ? ORDER BY r.uuid",
			[]any{class.id}, func(rows *sql.Rows) error {
				var root provider.ID
				err := rows.Scan(&root)
				done.change.Roots = append(done.change.Roots, root)
				return err
			})
		if err != nil || from == to {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE resource_classes SET name = ?, updated_at = ? WHERE id = ?", to, s.now(),
			class.id)
		if sqldb.IsDuplicate(err) {
			return fault.New(fault.Conflict, "the resource class %s exists already", to)
		}
		return err
	})
	return done, err
}

// DeleteClass removes a custom class. Faults: NotFound; Invalid: a standard class; Conflict: a provider has inventory
// of it.
func (s *Store) DeleteClass(ctx context.Context, name resource.Class) error {
	// First, so that a request that will be refused does not wait.
	err := s.read(ctx, "DeleteClass", func(tx *sqldb.Tx) error {
		_, err := findCustomClass(ctx, tx, name)
		return err
	})
	if err != nil {
		return err
	}
	_, err = untilKnown(ctx, s.db, func() (class classRow, err error) {
		err = s.write(ctx, "DeleteClass", func(tx *sqldb.Tx) error {
			class, err = deleteClass(ctx, tx, name)
			return err
		})
		return class, err
	}, func(ctx context.Context, class classRow) (outcome, error) {
		return s.findDeleted(ctx, "resource_classes", class.id, class.created)
	})
	return err
}

// deleteClass deletes a class and returns its row. It waits for transactions that are adding inventories of the
// class, and sees their rows. A later one detects the deletion in lockClasses.
func deleteClass(ctx context.Context, tx *sqldb.Tx, name resource.Class) (class classRow, err error) {
	latest := ""
	switch tx.Dialect {
	case sqldb.PostgreSQL: // the first SELECT fixes the snapshot, so the transaction must wait before it
		for _, statement := range []string{
			"SET LOCAL lock_timeout = '2s'", // writers of inventories wait for this transaction
			"LOCK TABLE inventories IN SHARE MODE",
			"SET LOCAL lock_timeout TO DEFAULT",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return class, err
			}
		}
	case sqldb.MySQL:
		latest = " LOCK IN SHARE MODE" // reads rows that others have added since this transaction began
	}
	class, err = findCustomClass(ctx, tx, name)
	if err != nil {
		return class, err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM resource_classes WHERE id = ?", class.id); err != nil {
		return class, err
	}
	uses := 0
	err = sqldb.QueryEach(ctx, tx, "SELECT resource_provider_id FROM inventories WHERE resource_class_id = ?"+latest,
		[]any{class.id}, func(*sql.Rows) error {
			uses++
			return nil
		})
	if err == nil && uses > 0 { // then the whole transaction is rolled back
		err = fault.New(fault.Conflict, "the resource class %s is in use: %d providers have inventory of it", name,
			uses)
	}
	return class, err
}

// lockClasses prevents the deletion of custom classes until this transaction ends, which has just added inventories
// of them. If a class was deleted after it was read, the transaction is retried and does not find it. (The nodes of a
// Galera cluster do not share locks.)
func lockClasses(ctx context.Context, tx *sqldb.Tx, numbers ...int64) error {
	custom := slices.DeleteFunc(numbers, func(n int64) bool { return n < firstCustomClass })
	if len(custom) == 0 || tx.Dialect == sqldb.SQLite { // SQLite has one writer at a time
		return nil
	}
	share := " LOCK IN SHARE MODE"
	if tx.Dialect == sqldb.PostgreSQL {
		share = " FOR KEY SHARE"
	}
	found := 0
	err := sqldb.QueryEach(ctx, tx,
		"SELECT id FROM resource_classes WHERE id IN ("+sqldb.Placeholders(len(custom))+")"+share,
		sqldb.ToAny(custom), func(*sql.Rows) error {
			found++
			return nil
		})
	if err == nil && found < len(custom) {
		return sqldb.Retry(concurrent("a resource class was deleted at the same moment"))
	}
	return err
}
