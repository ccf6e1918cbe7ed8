package sqldb

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// rowCount returns the number of rows by one statement of ReadOne.
func rowCount(ctx context.Context, db *DB) (n int, err error) {
	err = db.ReadOne(ctx, func(tx *Tx) error { return tx.QueryRow(ctx, "SELECT COUNT(*) FROM thing").Scan(&n) })
	return n, err
}

// suiteReadOne checks that ReadOne reads what is committed, writes nothing, refuses a second statement whose result the
// function ignores, and leaves connections without a transaction and without open rows.
func suiteReadOne(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	for i, name := range []string{"a", "b", "c"} {
		must(t, db.Write(ctx, insertRow(name)))
		if n, err := rowCount(ctx, db); n != i+1 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	}
	for range 2 * idleConns {
		must(t, db.ReadOne(ctx, func(tx *Tx) error {
			_, err := tx.Query(ctx, "SELECT name FROM thing") // the rows stay open
			return err
		}))
	}
	twice := db.ReadOne(ctx, func(tx *Tx) error {
		for range 2 {
			var n int
			_ = tx.QueryRow(ctx, "SELECT COUNT(*) FROM thing").Scan(&n)
		}
		return nil
	})
	if !fault.Is(twice, fault.Internal) || !strings.Contains(fault.TextOf(twice), "second statement") {
		t.Errorf("a second statement: %v", twice)
	}
	write := db.ReadOne(ctx, func(tx *Tx) error { _, err := tx.Exec(ctx, "DELETE FROM thing"); return err })
	if !fault.Is(write, fault.Internal) {
		t.Errorf("a statement that writes: %v", write)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := rowCount(cancelled, db); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the context has ended: %v", err)
	}
	wantNames(t, db, "a", "b", "c")
}

// TestReadOneAfterServerRestart restarts the server, so that the pooled connection is dead: ReadOne succeeds on another
// one.
func TestReadOneAfterServerRestart(t *testing.T) {
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) {
			db, ctx := open(t, server.Database(t)), t.Context()
			must(t, db.Write(ctx, insertRow("a")))
			server.Kill(t)
			if _, err := rowCount(ctx, db); !fault.Is(err, fault.Unavailable) {
				t.Errorf("while it is down: %v", err)
			}
			server.Restart(t)
			if n, err := rowCount(ctx, db); n != 1 || err != nil {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}
