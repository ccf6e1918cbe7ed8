package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// fill makes a table of the numbers 1 to n.
func fill(t *testing.T, db *DB, n int) {
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

func sqliteFile(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), "sqlite:///"+t.TempDir()+"/kept.db")
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

// One statement may be read twice at the same time on one connection: the second reading has a statement of its own.
func TestAStatementInUseIsNotUsedAgain(t *testing.T) {
	db := sqliteFile(t)
	fill(t, db, 3)
	seen := ""
	const query = "SELECT n FROM numbers WHERE n > ? ORDER BY n"
	for range 3 { // the second time both statements may be kept ones
		seen = ""
		err := db.Read(t.Context(), func(tx *Tx) error {
			return rowsOf(t.Context(), tx, query, 0, func(outer int) error {
				return rowsOf(t.Context(), tx, query, outer, func(inner int) error {
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

func rowsOf(ctx context.Context, tx *Tx, query string, above int, look func(n int) error) error {
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
		if err := look(n); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A kept statement sees the schema as it is, and one that failed or was left half read does no harm to the next.
func TestAKeptStatementIsAsGoodAsNew(t *testing.T) {
	db := sqliteFile(t)
	fill(t, db, 3)
	all := func() (columns int) {
		t.Helper()
		err := db.Write(t.Context(), func(tx *Tx) error {
			rows, err := tx.Query(t.Context(), "SELECT * FROM numbers")
			if err != nil {
				return err
			}
			names, err := rows.Columns()
			columns = len(names)
			rows.Next() // and the rest is left to the transaction
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

// However many texts there are, a connection keeps no more than so many.
func TestOnlySoManyStatementsAreKept(t *testing.T) {
	db := sqliteFile(t)
	fill(t, db, 1)
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
			return fmt.Errorf("%d statements are kept, wanted %d", n, maxCached)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// BenchmarkSmallRead is what a small question costs that is asked again and again.
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
