package sqldb

import (
	"context"
	"errors"
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

// serverEndsIdleTransaction stops a process in the middle of two writes, one of them before its COMMIT: the server ends
// their transactions, so that another process can change the same rows. After that the process repeats the writes.
func serverEndsIdleTransaction(t *testing.T, url string) {
	db, other, ctx := open(t, url), open(t, url), t.Context()
	must(t, db.Write(ctx, func(tx *Tx) error {
		return errors.Join(insert(ctx, tx, "a", 0), insert(ctx, tx, "b", 0))
	}))
	update := func(tx *Tx, name string) error {
		_, err := tx.Exec(ctx, "UPDATE thing SET n = n + 1 WHERE name = ?", name)
		return err
	}
	var locked, frozen sync.WaitGroup
	thawed := make(chan struct{})
	freeze := func(name string, then func(*Tx) error) *error {
		var result error
		locked.Add(1)
		begun := sync.OnceFunc(locked.Done)
		frozen.Go(func() {
			result = db.Write(ctx, func(tx *Tx) error {
				if err := update(tx, name); err != nil {
					return err
				}
				begun()
				<-thawed
				return then(tx)
			})
		})
		return &result
	}
	atCommit := freeze("a", func(*Tx) error { return nil })
	before := freeze("b", func(tx *Tx) error { return update(tx, "b") })
	locked.Wait()
	must(t, other.Write(ctx, func(tx *Tx) error { return errors.Join(update(tx, "a"), update(tx, "b")) }))
	close(thawed)
	frozen.Wait()
	if *before != nil {
		t.Errorf("a statement after the timeout: %v", *before)
	}
	if *atCommit != nil && (db.Dialect == PostgreSQL || !IsUnknown(*atCommit)) {
		t.Errorf("COMMIT after the timeout: %v", *atCommit)
	}
}
