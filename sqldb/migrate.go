package sqldb

import (
	"context"
	"errors"
	"hash/fnv"
	"regexp"
	"slices"
	"time"

	"github.com/openberth/berth/fault"
)

// Migration is one change of the schema. Migrations are only added at the end of a list; a released one never
// changes.
//
// MySQL commits at every CREATE, ALTER and DROP. So there an interrupted migration starts again from its beginning,
// and two nodes of a Galera cluster, which share no locks, may run it at the same moment. Write one such statement
// per migration, or IF NOT EXISTS, and put rows into migrations of their own.
type Migration struct {
	Name string // recorded in the version table, to detect a list of another program
	Run  func(ctx context.Context, tx *Tx) error
}

// Statements returns a migration that runs the same SQL on every dialect.
func Statements(name string, statements ...string) Migration {
	return Migration{Name: name, Run: func(ctx context.Context, tx *Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Migrate upgrades Berth's own tables: it runs, in order, the migrations that the version table does not list yet,
// each in a transaction of its own, and records them there. Several processes may run it at once: each migration
// counts once. It does not change tables of OpenStack. It returns fault.Invalid if the database has one of the tables
// obsolete: the version tables of earlier programs, whose databases this one cannot read.
func Migrate(ctx context.Context, db *DB, table string, migrations []Migration, obsolete ...string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`).MatchString(table) {
		return fault.New(fault.Internal, "%q is not a valid name of a version table", table)
	}
	// On MySQL, CREATE TABLE ends its transaction, so the version table is created before any migration.
	for first := true; ; first = false {
		more := first
		err := db.Write(ctx, func(tx *Tx) error {
			unlock, err := tx.lockMigrations(ctx, table)
			if err != nil {
				return err
			}
			if first {
				if err := refuse(ctx, tx, obsolete); err != nil {
					return errors.Join(err, unlock())
				}
				_, err = tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+
					" (version INTEGER NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, applied_at VARCHAR(32) "+
					"NOT NULL)")
			} else {
				more, err = migrateOne(ctx, tx, table, migrations)
			}
			return errors.Join(err, unlock())
		})
		if err != nil {
			return fault.Wrap("", err)
		}
		if !more {
			return nil
		}
	}
}

// refuse returns fault.Invalid if the database has one of the tables.
func refuse(ctx context.Context, tx *Tx, obsolete []string) error {
	tables, err := TableNames(ctx, tx)
	for _, table := range obsolete {
		if slices.Contains(tables, table) {
			return fault.New(fault.Invalid, "the database has the table %s: an earlier Berth wrote it, and this one does not "+
				"read its data; name an empty database in the option connection, or start the earlier Berth", table)
		}
	}
	return err
}

// TableNames returns the names of the tables of the database.
func TableNames(ctx context.Context, tx *Tx) ([]string, error) {
	return QueryTexts(ctx, tx, map[Dialect]string{
		SQLite:     "SELECT name FROM sqlite_master WHERE type = 'table'",
		MySQL:      "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
		PostgreSQL: "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
	}[tx.Dialect])
}

// migrateOne runs the first migration that is not recorded. more is false if all are recorded.
func migrateOne(ctx context.Context, tx *Tx, table string, migrations []Migration) (more bool, err error) {
	done, err := QueryTexts(ctx, tx, "SELECT name FROM "+table+" ORDER BY version")
	if err != nil {
		return false, err
	}
	if err := compare(table, done, migrations); err != nil {
		return false, err
	}
	if len(done) == len(migrations) {
		return false, nil
	}
	m := migrations[len(done)]
	if err := m.Run(ctx, tx); err != nil {
		return false, fault.New(fault.KindOf(err), "migration %d (%s) of %s: %w",
			len(done)+1, m.Name, table, err)
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+table+" (version, name, applied_at) VALUES (?, ?, ?)",
		len(done)+1, m.Name, time.Now().UTC().Format(time.RFC3339))
	if IsDuplicate(err) { // another node of the cluster was faster
		err = Retry(err)
	}
	return true, err
}

// compare returns fault.Invalid if the names that a version table records are not those of the first migrations.
func compare(table string, done []string, migrations []Migration) error {
	for i, name := range done {
		if i >= len(migrations) {
			return fault.New(fault.Invalid,
				"table %s records migration %d (%s), which is unknown to this program: a newer Berth wrote this "+
					"database; start that one", table, i+1, name)
		}
		if name != migrations[i].Name {
			return fault.New(fault.Invalid,
				"table %s records %q as migration %d, this program has %q there: the database belongs to another "+
					"program", table, name, i+1, migrations[i].Name)
		}
	}
	return nil
}

// Recorded returns how many of the migrations the version table of a database records, and writes nothing. It returns
// fault.Invalid where Migrate does.
func Recorded(ctx context.Context, db *DB, table string, migrations []Migration, obsolete ...string) (n int,
	err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		if err := refuse(ctx, tx, obsolete); err != nil {
			return err
		}
		tables, err := TableNames(ctx, tx)
		if n = 0; err != nil || !slices.Contains(tables, table) {
			return err
		}
		done, err := QueryTexts(ctx, tx, "SELECT name FROM "+table+" ORDER BY version")
		n = len(done)
		return errors.Join(err, compare(table, done, migrations))
	})
	return n, fault.Wrap("", err)
}

// lockMigrations takes a lock that lets one process migrate at a time. On SQLite, BEGIN IMMEDIATE is such a lock;
// PostgreSQL's lock ends with the transaction; MySQL's must be released.
func (tx *Tx) lockMigrations(ctx context.Context, table string) (unlock func() error, err error) {
	nothing := func() error { return nil }
	switch tx.Dialect {
	case PostgreSQL:
		// Waiting for the lock must not fix the snapshot that is read after it.
		if err := tx.SeeCommits(ctx); err != nil {
			return nothing, err
		}
		key := fnv.New64a()
		key.Write([]byte(table))
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(?)", int64(key.Sum64()))
		return nothing, err
	case MySQL:
		var got *int
		if err := tx.QueryRow(ctx, "SELECT GET_LOCK(?, 50)", table).Scan(&got); err != nil {
			return nothing, err
		}
		if got == nil || *got != 1 {
			return nothing, fault.New(fault.Unavailable,
				"another process has been changing %s for 50 seconds; start again when it is done", table)
		}
		return func() error {
			_, err := tx.Exec(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", table)
			return err
		}, nil
	}
	return nothing, nil
}
