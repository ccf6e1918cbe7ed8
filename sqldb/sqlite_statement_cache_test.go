package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// createNumbers creates a table with the numbers 1 to n.
func createNumbers(t *testing.T, db *DB, n int) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec(t.Context(), "CREATE TABLE numbers (n INTEGER)"); err != nil {
			return err
		}
		for i := range n {
			if _, err := tx.Exec(t.Context(), "INSERT INTO numbers (n) VALUES (?)", i+1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func openSQLiteFile(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), "sqlite:///"+t.TempDir()+"/cached.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestNestedQueriesUseSeparateStatements reads the rows of one query inside another run of it on one connection.
func TestNestedQueriesUseSeparateStatements(t *testing.T) {
	db := openSQLiteFile(t)
	createNumbers(t, db, 3)
	seen := ""
	const query = "SELECT n FROM numbers WHERE n > ? ORDER BY n"
	for range 3 { // in the second run both statements may be cached
		seen = ""
		err := db.Read(t.Context(), func(tx *Tx) error {
			return forEachNumber(t.Context(), tx, query, 0, func(outer int) error {
				return forEachNumber(t.Context(), tx, query, outer, func(inner int) error {
					seen += fmt.Sprintf("%d<%d ", outer, inner)
					return nil
				})
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := "1<2 1<3 2<3 "; seen != want {
			t.Fatalf("got %q, want %q", seen, want)
		}
	}
}

// forEachNumber calls a function for each row of a query.
func forEachNumber(ctx context.Context, tx *Tx, query string, above int, call func(n int) error) error {
	rows, err := tx.Query(ctx, query, above)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return err
		}
		if err := call(n); err != nil {
			return err
		}
	}
	return rows.Err()
}

// TestCachedStatementAfterSchemaChangeAndFailure checks that a cached statement uses the current schema, and that one
// that failed or was not read to its end has no effect on the next run.
func TestCachedStatementAfterSchemaChangeAndFailure(t *testing.T) {
	db := openSQLiteFile(t)
	createNumbers(t, db, 3)
	all := func() (columns int) {
		t.Helper()
		err := db.Write(t.Context(), func(tx *Tx) error {
			rows, err := tx.Query(t.Context(), "SELECT * FROM numbers")
			if err != nil {
				return err
			}
			names, err := rows.Columns()
			columns = len(names)
			rows.Next() // the transaction closes the other rows
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return columns
	}
	if n := all(); n != 1 {
		t.Fatalf("%d columns", n)
	}
	exec := func(query string) error {
		return db.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec(t.Context(), query)
			return err
		})
	}
	if err := exec("ALTER TABLE numbers ADD COLUMN m INTEGER"); err != nil {
		t.Fatal(err)
	}
	if n := all(); n != 2 {
		t.Fatalf("%d columns after one was added", n)
	}
	if err := exec("CREATE UNIQUE INDEX one ON numbers (n)"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := exec("INSERT INTO numbers (n) VALUES (2)"); !IsDuplicate(err) {
			t.Fatalf("a duplicate: %v", err)
		}
	}
	if err := exec("DELETE FROM numbers WHERE n = 2"); err != nil {
		t.Fatal(err)
	}
	if err := exec("INSERT INTO numbers (n) VALUES (2)"); err != nil {
		t.Fatal(err)
	}
}

// TestStatementCacheHasLimit runs more queries than a connection caches.
func TestStatementCacheHasLimit(t *testing.T) {
	db := openSQLiteFile(t)
	createNumbers(t, db, 1)
	for i := range 2 * maxCached {
		err := db.Write(t.Context(), func(tx *Tx) error {
			var n int
			return tx.QueryRow(t.Context(), fmt.Sprintf("SELECT n + %d FROM numbers", i)).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	conn, err := db.writer.pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Raw(func(c any) error {
		if n := len(c.(*cachingConn).stmts); n != maxCached {
			return fmt.Errorf("%d statements are cached, want %d", n, maxCached)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// BenchmarkSmallRead measures a small query that is repeated.
func BenchmarkSmallRead(b *testing.B) {
	db, err := Open(b.Context(), "sqlite:///"+b.TempDir()+"/small.db")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	err = db.Write(b.Context(), func(tx *Tx) error {
		_, err := tx.Exec(b.Context(), "CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT, other INTEGER)")
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := db.Read(b.Context(), func(tx *Tx) error {
			var n sql.NullInt64
			return tx.QueryRow(b.Context(), "SELECT SUM(a.other) FROM thing a JOIN thing b ON a.id = b.other WHERE "+
				"a.name = ?", "x").Scan(&n)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
