package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/internal/databases"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(holdVariable); url != "" {
		if err := holdFile(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// open returns a database with an empty table `thing`.
func open(t *testing.T, url string) *DB {
	t.Helper()
	db, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	id := map[Dialect]string{SQLite: "INTEGER PRIMARY KEY", MySQL: "INTEGER PRIMARY KEY " +
		"AUTO_INCREMENT", PostgreSQL: "SERIAL PRIMARY KEY"}[db.Dialect]
	moment := map[Dialect]string{SQLite: "DATETIME", MySQL: "DATETIME(6)", PostgreSQL: "TIMESTAMP"}[db.Dialect]
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		for _, statement := range []string{"DROP TABLE IF EXISTS thing",
			"CREATE TABLE thing (id " + id + ", name VARCHAR(64) UNIQUE, n INTEGER, at " + moment + ")"} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	}))
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func insert(ctx context.Context, tx *Tx, name string, n int) error {
	_, err := tx.Insert(ctx, "INSERT INTO thing (name, n) VALUES (?, ?)", name, n)
	return err
}

// names returns the table's names in the order of their ids.
func names(t *testing.T, db *DB) []string {
	t.Helper()
	var list []string
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		list = nil
		rows, err := tx.Query(t.Context(), "SELECT name FROM thing ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			list = append(list, name)
		}
		return rows.Err()
	}))
	return list
}

func wantNames(t *testing.T, db *DB, want ...string) {
	t.Helper()
	if got := names(t, db); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// TestTransactionsOnEveryDatabase checks the guarantees of this package on every database.
func TestTransactionsOnEveryDatabase(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T, url string)
	}{
		{"statements", suiteStatements},
		{"rollback", suiteRollback},
		{"duplicate", suiteDuplicate},
		{"retry", suiteRetry},
		{"read", suiteRead},
		{"read of one statement", suiteReadOne},
		{"counter", suiteCounter},
		{"cancel", suiteCancel},
		{"migrate", suiteMigrate},
		{"concurrent migrations", suiteConcurrentMigrations},
	}
	suite := func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
		}
	}
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		suite(t, fresh)
		if !strings.HasPrefix(fresh(t), "sqlite") {
			t.Run("deadlock", func(t *testing.T) { serverDeadlock(t, fresh(t)) })
			t.Run("killed", func(t *testing.T) { serverKilled(t, fresh(t)) })
			t.Run("idle transaction", func(t *testing.T) { serverEndsIdleTransaction(t, fresh(t)) })
		}
	})
	t.Run("memory", func(t *testing.T) { suite(t, func(testing.TB) string { return "sqlite://" }) })
	t.Run("strange name", func(t *testing.T) {
		suite(t, func(t testing.TB) string { return "sqlite:///" + filepath.Join(t.TempDir(), "a b#%é.db") })
	})
}

func suiteStatements(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	at := time.Date(2026, 2, 3, 4, 5, 6, 789123456, time.FixedZone("somewhere", 3600))
	must(t, db.Write(ctx, func(tx *Tx) error {
		one, err := tx.Insert(ctx, "INSERT INTO thing (name, n, at) VALUES ('what?', ?, ?)", 1, at)
		if err != nil {
			return err
		}
		two, err := tx.Insert(ctx, "INSERT INTO thing (name, n) VALUES (?, 2)", "b")
		if err != nil || two <= one {
			return fmt.Errorf("ids %d, %d: %w", one, two, err)
		}
		result, err := tx.Exec(ctx, "UPDATE thing SET n = ? WHERE id = ?", 2, two) // changes nothing
		if err != nil {
			return err
		}
		if matched, err := result.RowsAffected(); matched != 1 {
			return fmt.Errorf("an UPDATE that changes nothing matched %d rows: %w", matched, err)
		}
		if err := tx.Upsert(ctx, "thing", []string{"name"}, []string{"n"}, "b", 20); err != nil {
			return err
		}
		if err := tx.Upsert(ctx, "thing", []string{"name"}, []string{"n"}, "c", 30); err != nil {
			return err
		}
		for name, want := range map[string]int64{"c": 0, "d": 1} {
			if got, err := tx.InsertIgnore(ctx, "INSERT INTO thing (name, n) VALUES (?, ?)", name, 40); got != want ||
				err != nil {
				return fmt.Errorf("InsertIgnore %s inserted %d: %w", name, got, err)
			}
		}
		return nil
	}))
	wantNames(t, db, "what?", "b", "c", "d")
	must(t, db.Read(ctx, func(tx *Tx) error {
		var sum int
		var read time.Time
		if err := tx.QueryRow(ctx, "SELECT SUM(n) FROM thing").Scan(&sum); err != nil || sum != 91 {
			return fmt.Errorf("sum %d: %w", sum, err)
		}
		err := tx.QueryRow(ctx, "SELECT at FROM thing WHERE name = 'what?'").Scan(&read)
		if want := at.Truncate(time.Microsecond); err != nil || !read.Equal(want) {
			return fmt.Errorf("time %s, want %s: %w", read, want, err)
		}
		err = tx.QueryRow(ctx, "SELECT n FROM thing WHERE name = ?", "none").Scan(&sum)
		if !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("no row: %w", err)
		}
		return nil
	}))
}

func suiteRollback(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	broken := errors.New("broken on purpose")
	err := db.Write(ctx, func(tx *Tx) error {
		must(t, insert(ctx, tx, "error", 1))
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	func() {
		defer func() {
			if got := recover(); got != "panic on purpose" {
				t.Errorf("recovered %v", got)
			}
		}()
		_ = db.Write(ctx, func(tx *Tx) error {
			must(t, insert(ctx, tx, "panic", 1))
			panic("panic on purpose")
		})
	}()
	var left sync.WaitGroup
	left.Go(func() {
		_ = db.Write(ctx, func(tx *Tx) error {
			if err := insert(ctx, tx, "exit", 1); err != nil {
				t.Error(err)
			}
			runtime.Goexit() // what t.Fatal does
			return nil
		})
	})
	left.Wait()
	must(t, db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "fine", 1) }))
	wantNames(t, db, "fine")
}

func suiteDuplicate(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	must(t, db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "a", 1) }))
	err := db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "a", 2) })
	if !IsDuplicate(err) || IsRetryable(err) {
		t.Errorf("unique: %v", err)
	}
	err = db.Write(ctx, func(tx *Tx) error {
		for range 2 {
			if _, err := tx.Exec(ctx, "INSERT INTO thing (id, name) VALUES (77, NULL)"); err != nil {
				return err
			}
		}
		return nil
	})
	if !IsDuplicate(err) {
		t.Errorf("primary key: %v", err)
	}
	err = db.Write(ctx, func(tx *Tx) error { _, err := tx.Exec(ctx, "SELECT nothing FROM nowhere"); return err })
	if err == nil || IsDuplicate(err) || IsRetryable(err) {
		t.Errorf("no such table: %v", err)
	}
	wantNames(t, db, "a")
}

func suiteRetry(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	db.backoff.Jitter = func(time.Duration) time.Duration { return 0 }
	runs := 0
	must(t, db.Write(ctx, func(tx *Tx) error {
		runs++
		if err := insert(ctx, tx, fmt.Sprint("run ", runs), runs); err != nil {
			return err
		}
		if runs < 3 {
			return Retry(errors.New("once more"))
		}
		return nil
	}))
	wantNames(t, db, "run 3")
	runs = 0
	never := errors.New("never")
	err := db.Write(ctx, func(*Tx) error { runs++; return Retry(never) })
	if runs != maxAttempts || err != never {
		t.Errorf("%d runs: %v", runs, err)
	}
	for _, attempts := range []int{0, 1, 2 * maxAttempts} {
		runs = 0
		err := db.WriteUpTo(ctx, attempts, func(*Tx) error { runs++; return Retry(never) })
		if runs != max(attempts, 1) || err != never {
			t.Errorf("%d runs of %d: %v", runs, attempts, err)
		}
	}
}

func suiteRead(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	must(t, db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "a", 1) }))
	var wrote sync.WaitGroup
	must(t, db.Read(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM thing"); err == nil {
			t.Error("a Read transaction could write")
		}
		var before, after int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM thing").Scan(&before); err != nil {
			return err
		}
		wrote.Go(func() {
			if err := db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "b", 1) }); err != nil {
				t.Error(err)
			}
		})
		if url != "sqlite://" { // in memory Read and Write share a connection, so the write cannot end yet
			wrote.Wait()
		}
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM thing").Scan(&after); err != nil {
			return err
		}
		if before != 1 || after != 1 {
			t.Errorf("one snapshot counted %d and then %d", before, after)
		}
		_, err := tx.Query(ctx, "SELECT name FROM thing") // left open on purpose
		return err
	}))
	wrote.Wait()
	wantNames(t, db, "a", "b")
}

// suiteCounter increments one row by compare-and-set from many goroutines; each success must count once.
func suiteCounter(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	const clients, each = 8, 20
	must(t, db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "hot", 0) }))
	changed := errors.New("the row has changed")
	step := func(tx *Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT n FROM thing WHERE name = 'hot'").Scan(&n); err != nil {
			return err
		}
		result, err := tx.Exec(ctx, "UPDATE thing SET n = ? WHERE name = 'hot' AND n = ?", n+1, n)
		if err != nil {
			return err
		}
		if count, err := result.RowsAffected(); err != nil || count != 1 {
			return errors.Join(changed, err)
		}
		return nil
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for done := 0; done < each && !t.Failed(); {
				err := db.Write(ctx, step)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, changed) && !strings.Contains(err.Error(), "gave up after"):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	must(t, db.Read(ctx, func(tx *Tx) error {
		var n int
		err := tx.QueryRow(ctx, "SELECT n FROM thing WHERE name = 'hot'").Scan(&n)
		if n != clients*each {
			t.Errorf("counted %d, want %d", n, clients*each)
		}
		return err
	}))
}

func suiteCancel(t *testing.T, url string) {
	db := open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Write(ctx, func(tx *Tx) error {
		if err := insert(ctx, tx, "a", 1); err != nil {
			return err
		}
		cancel()
		return insert(ctx, tx, "b", 2)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled inside: %v", err)
	}
	if err := db.Write(ctx, func(tx *Tx) error { t.Error("ran"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	must(t, db.Write(t.Context(), func(tx *Tx) error { return insert(t.Context(), tx, "c", 1) }))
	wantNames(t, db, "c")
}
