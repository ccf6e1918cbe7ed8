package sqldb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// serverDeadlock makes two transactions lock two rows in opposite order: the server aborts one, Write repeats it, and
// both take effect.
func serverDeadlock(t *testing.T, url string) {
	db, ctx := open(t, url), t.Context()
	must(t, db.Write(ctx, func(tx *Tx) error {
		if err := insert(ctx, tx, "a", 0); err != nil {
			return err
		}
		return insert(ctx, tx, "b", 0)
	}))
	var runs atomic.Int32
	var both, all sync.WaitGroup
	both.Add(2)
	cross := func(rows ...string) {
		var met sync.Once
		err := db.Write(ctx, func(tx *Tx) error {
			runs.Add(1)
			for _, row := range rows {
				if _, err := tx.Exec(ctx, "UPDATE thing SET n = n + 1 WHERE name = ?", row); err != nil {
					return fmt.Errorf("row %s: %w", row, err)
				}
				met.Do(func() { both.Done(); both.Wait() })
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { cross("a", "b") })
	all.Go(func() { cross("b", "a") })
	all.Wait()
	var sum int
	must(t, db.Read(ctx, func(tx *Tx) error { return tx.QueryRow(ctx, "SELECT SUM(n) FROM thing").Scan(&sum) }))
	if sum != 4 || runs.Load() < 3 {
		t.Errorf("sum %d after %d runs, want 4 after at least 3", sum, runs.Load())
	}
}

// serverKilled ends the connection in the middle of a transaction: nothing was committed, so Write repeats it.
func serverKilled(t *testing.T, url string) {
	db, other, ctx := open(t, url), open(t, url), t.Context()
	who, kill := "SELECT CONNECTION_ID()", "KILL %d"
	if db.Dialect == PostgreSQL {
		who, kill = "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)"
	}
	runs := 0
	must(t, db.Write(ctx, func(tx *Tx) error {
		runs++
		if err := insert(ctx, tx, fmt.Sprint("run ", runs), runs); err != nil {
			return err
		}
		if runs > 1 {
			return nil
		}
		var id int64
		if err := tx.QueryRow(ctx, who).Scan(&id); err != nil {
			return err
		}
		if _, err := other.pool.ExecContext(context.Background(), fmt.Sprintf(kill, id)); err != nil {
			return err
		}
		var err error
		for err == nil && ctx.Err() == nil { // the server may end the connection later
			_, err = tx.Exec(ctx, "UPDATE thing SET n = 0")
		}
		return err
	}))
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	wantNames(t, db, "run 2")
}

// serverEndsIdleTransaction stops a process in the middle of a write: the server ends its transaction, so that another
// process can change the same row.
func serverEndsIdleTransaction(t *testing.T, url string) {
	db, other, ctx := open(t, url), open(t, url), t.Context()
	must(t, db.Write(ctx, func(tx *Tx) error { return insert(ctx, tx, "a", 0) }))
	update := func(db *DB, hold func()) error {
		return db.Write(ctx, func(tx *Tx) error {
			_, err := tx.Exec(ctx, "UPDATE thing SET n = n + 1 WHERE name = 'a'")
			hold()
			return err
		})
	}
	var frozen sync.WaitGroup
	locked, thawed := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(locked) })
	frozen.Go(func() {
		_ = update(db, func() { begun(); <-thawed }) // after the thaw it fails, or is repeated
	})
	<-locked
	must(t, update(other, func() {}))
	close(thawed)
	frozen.Wait()
}
