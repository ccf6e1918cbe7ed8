package sqldb

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// migrationsFor returns a number of migrations; each of them fails if it runs twice.
func migrationsFor(count int) []Migration {
	var migrations []Migration
	for i := range count {
		migrations = append(migrations, Statements(fmt.Sprint("part ", i),
			fmt.Sprintf("CREATE TABLE part_%d (n INTEGER PRIMARY KEY)", i)))
	}
	return migrations
}

func dropMigrations(t *testing.T, db *DB) {
	t.Helper()
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		for _, table := range []string{"part_0", "part_1", "part_2", "berth_test_version"} {
			if _, err := tx.Exec(t.Context(), "DROP TABLE IF EXISTS "+table); err != nil {
				return err
			}
		}
		return nil
	}))
}

func suiteMigrate(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	dropMigrations(t, db)
	for _, count := range []int{1, 3, 3} {
		must(t, Migrate(ctx, db, "berth_test_version", migrationsFor(count)))
	}
	must(t, db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO part_2 (n) VALUES (1)")
		return err
	}))
	if err := Migrate(ctx, db, "berth_test_version", migrationsFor(2)); err == nil ||
		!strings.Contains(err.Error(), "newer Berth") {
		t.Errorf("older program: %v", err)
	}
	other := migrationsFor(3)
	other[1].Name = "else"
	if err := Migrate(ctx, db, "berth_test_version", other); err == nil || !strings.Contains(err.Error(),
		"another program") {
		t.Errorf("other program: %v", err)
	}
	wrong := append(migrationsFor(3), Statements("wrong", "CREATE NONSENSE"))
	if err := Migrate(ctx, db, "berth_test_version", wrong); err == nil ||
		!strings.Contains(err.Error(), "migration 4 (wrong)") {
		t.Errorf("wrong migration: %v", err)
	}
	if err := Migrate(ctx, db, "no; drop", nil); err == nil {
		t.Error("a table name that is not valid was accepted")
	}
	must(t, Migrate(ctx, db, "berth_test_version", migrationsFor(3)))
	dropMigrations(t, db)
}

// suiteConcurrentMigrations migrates from several goroutines at once; on SQLite some have opened the file again.
func suiteConcurrentMigrations(t *testing.T, url string) {
	first := open(t, url)
	dropMigrations(t, first)
	starters := []*DB{first, first}
	if url != "sqlite://" {
		starters = append(starters, open(t, url), open(t, url))
	}
	var all sync.WaitGroup
	for _, db := range starters {
		all.Go(func() {
			if err := Migrate(t.Context(), db, "berth_test_version", migrationsFor(3)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var count int
	must(t, first.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM berth_test_version").Scan(&count)
	}))
	if count != 3 {
		t.Errorf("%d migrations recorded, want 3", count)
	}
	dropMigrations(t, first)
}
