package sqldb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
)

func fileURL(t *testing.T) string { return "sqlite:///" + filepath.Join(t.TempDir(), "test.db") }

// idleWriter returns a writer without its goroutine: the test sees its queue and starts each batch.
func idleWriter(db *DB) *writer {
	return &writer{pool: db.writer.pool, writes: make(chan *write, 2*maxBatch), quit: make(chan struct{})}
}

// enqueue queues each function as a write in its own goroutine, in this order. results is complete when wait returns.
func enqueue(w *writer, fns ...func(*Tx) error) (results []error, wait func()) {
	results = make([]error, len(fns))
	var all sync.WaitGroup
	for i, fn := range fns {
		j := newWrite()
		w.writes <- j
		all.Go(func() {
			defer func() {
				if recovered := recover(); recovered != nil {
					results[i] = fmt.Errorf("panic: %v", recovered)
				}
			}()
			results[i] = j.run(context.Background(), fn)
		})
	}
	return results, all.Wait
}

// insertRow returns a function that inserts a row.
func insertRow(name string) func(*Tx) error {
	return func(tx *Tx) error { return insert(context.Background(), tx, name, 1) }
}

// TestFailedWriteOfBatchIsRolledBackAlone puts writes that succeed and writes that fail into one batch.
func TestFailedWriteOfBatchIsRolledBackAlone(t *testing.T) {
	db := open(t, fileURL(t))
	must(t, db.Write(t.Context(), insertRow("taken")))
	broken := errors.New("broken on purpose")
	w := idleWriter(db)
	results, wait := enqueue(w,
		insertRow("a"),
		func(tx *Tx) error { return errors.Join(insertRow("error")(tx), broken) },
		insertRow("b"),
		func(tx *Tx) error { return errors.Join(insertRow("duplicate")(tx), insertRow("taken")(tx)) },
		func(tx *Tx) error { must(t, insertRow("panic")(tx)); panic("on purpose") },
		insertRow("c"),
		func(tx *Tx) error { // leaves a query open and fails
			_, err := tx.Query(context.Background(), "SELECT name FROM thing")
			return errors.Join(err, insertRow("open")(tx), broken)
		},
		insertRow("a"), // sees the changes of earlier writes of the batch
	)
	w.batch(<-w.writes)
	wait()
	if len(w.writes) != 0 {
		t.Errorf("%d writes were not in the batch", len(w.writes))
	}
	for _, i := range []int{0, 2, 5} {
		must(t, results[i])
	}
	if !errors.Is(results[1], broken) || !IsDuplicate(results[3]) || results[4].Error() != "panic: on purpose" ||
		!errors.Is(results[6], broken) || !IsDuplicate(results[7]) {
		t.Errorf("results %q", results)
	}
	wantNames(t, db, "taken", "a", "b", "c")
}

// TestFailedFirstWritesOfBatchAreRolledBack puts writes that fail before any that succeeds into one batch. They have no
// savepoint. Another process may write between two of them, so what the first has remembered is not valid any more.
func TestFailedFirstWritesOfBatchAreRolledBack(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	broken := errors.New("broken on purpose")
	written := make(chan error, 1)
	w := idleWriter(db)
	results, wait := enqueue(w,
		func(tx *Tx) error {
			tx.Remember("names", "0")
			go func() { written <- other.Write(context.Background(), insertRow("other")) }()
			return errors.Join(insertRow("error")(tx), broken)
		},
		func(tx *Tx) error { must(t, insertRow("panic")(tx)); panic("on purpose") },
		func(tx *Tx) error { // leaves a query open and fails
			_, err := tx.Query(context.Background(), "SELECT name FROM thing")
			return errors.Join(err, insertRow("open")(tx), broken)
		},
		func(tx *Tx) error {
			if names, known := tx.Remembered("names"); known {
				return fmt.Errorf("remembered %q from a transaction that was rolled back", names)
			}
			return insertRow("a")(tx)
		},
		func(tx *Tx) error { return errors.Join(insertRow("late")(tx), broken) },
		insertRow("b"),
	)
	w.batch(<-w.writes)
	wait()
	must(t, <-written)
	must(t, results[3])
	must(t, results[5])
	if !errors.Is(results[0], broken) || results[1].Error() != "panic: on purpose" || !errors.Is(results[2], broken) ||
		!errors.Is(results[4], broken) {
		t.Errorf("results %q", results)
	}
	if got := slices.Sorted(slices.Values(names(t, db))); !slices.Equal(got, []string{"a", "b", "other"}) {
		t.Errorf("rows %q", got)
	}
}

// TestBatchHasLimit checks that a batch ends at its limit although more writes wait, also if all of them fail.
func TestBatchHasLimit(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("broken on purpose")} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			db := open(t, fileURL(t))
			w := idleWriter(db)
			var fns []func(*Tx) error
			for range maxBatch + 10 {
				fns = append(fns, func(*Tx) error { return outcome })
			}
			results, wait := enqueue(w, fns...)
			w.batch(<-w.writes)
			if len(w.writes) != 10 {
				t.Errorf("%d writes wait, want 10", len(w.writes))
			}
			w.batch(<-w.writes)
			wait()
			for _, err := range results {
				if err != outcome {
					t.Fatalf("got %v, want %v", err, outcome)
				}
			}
		})
	}
}

// TestResultIsReturnedAfterCommit checks that no write succeeds before the COMMIT, and that readers see no row before
// it.
func TestResultIsReturnedAfterCommit(t *testing.T) {
	db := open(t, fileURL(t))
	w := idleWriter(db)
	first := newWrite() // no goroutine receives from first.done, so a result stays in it
	w.writes <- first
	var all sync.WaitGroup
	all.Go(func() { first.borrow((<-first.turn).tx, insertRow("first")) })
	results, wait := enqueue(w, func(*Tx) error {
		if len(first.done) != 0 {
			t.Error("the first write has its result before the COMMIT")
		}
		wantNames(t, db)
		return nil
	})
	w.batch(<-w.writes)
	all.Wait()
	wait()
	must(t, errors.Join(results[0], <-first.done))
	wantNames(t, db, "first")
}

// onWriter runs a statement on the writing connection outside a transaction.
func onWriter(t *testing.T, db *DB, statement string) {
	t.Helper()
	if _, err := db.writer.pool.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestFailedCommitFailsWholeBatch makes a COMMIT fail by a deferred foreign key: all writes fail, and no row is kept.
func TestFailedCommitFailsWholeBatch(t *testing.T) {
	db := open(t, fileURL(t))
	onWriter(t, db, "CREATE TABLE child (parent INTEGER REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
	onWriter(t, db, "PRAGMA foreign_keys = ON")
	w := idleWriter(db)
	results, wait := enqueue(w, insertRow("innocent"), func(tx *Tx) error {
		_, err := tx.Exec(context.Background(), "INSERT INTO child (parent) VALUES (4711)")
		return err
	}, insertRow("innocent too"))
	w.batch(<-w.writes)
	wait()
	for i, err := range results {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("write %d returned %v, want Unavailable", i, err)
		}
	}
	wantNames(t, db)
	must(t, db.Write(t.Context(), insertRow("later")))
	wantNames(t, db, "later")
}

// TestFailureAwaitsTheCommit checks that a write that failed because of a row of its batch has no result before the
// COMMIT, and is repeated if the COMMIT fails: then the row does not exist.
func TestFailureAwaitsTheCommit(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint("commits ", commits), func(t *testing.T) {
			db := open(t, fileURL(t))
			onWriter(t, db, "CREATE TABLE child (parent INTEGER REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
			onWriter(t, db, "PRAGMA foreign_keys = ON")
			w := idleWriter(db)
			first := newWrite()
			w.writes <- first
			second := newWrite() // no goroutine receives from second.done, so a result stays in it
			w.writes <- second
			var all sync.WaitGroup
			all.Go(func() { first.borrow((<-first.turn).tx, insertRow("a")) })
			all.Go(func() { second.borrow((<-second.turn).tx, insertRow("a")) })
			_, wait := enqueue(w, func(tx *Tx) error {
				if len(second.done) != 0 {
					t.Error("the failed write has its result before the COMMIT")
				}
				if commits {
					return nil
				}
				_, err := tx.Exec(context.Background(), "INSERT INTO child (parent) VALUES (4711)")
				return err
			})
			w.batch(<-w.writes)
			all.Wait()
			wait()
			if err := <-second.done; IsDuplicate(err) != commits || isRepeatable(err) == commits {
				t.Errorf("the failed write returned %v", err)
			}
		})
	}
}

// TestFullDiskRollsBackBatch fills the disk, so that SQLite rolls back the whole transaction. The write that caused it
// fails, also if its function hides the error; the others may be repeated.
func TestFullDiskRollsBackBatch(t *testing.T) {
	for _, hides := range []bool{false, true} {
		t.Run(fmt.Sprint("hides ", hides), func(t *testing.T) {
			db := open(t, fileURL(t))
			onWriter(t, db, "PRAGMA max_page_count = 40")
			w, ctx := idleWriter(db), context.Background()
			results, wait := enqueue(w, insertRow("innocent"), func(tx *Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO thing (name) VALUES (zeroblob(1000000))")
				if err == nil {
					t.Error("the disk is not full")
				}
				if insertRow("outside")(tx) == nil {
					t.Error("a statement ran after the lost transaction")
				}
				if tx.QueryRow(ctx, "SELECT 1").Scan(new(int)) == nil {
					t.Error("a query ran after the lost transaction")
				}
				if hides {
					return nil
				}
				return err
			}, insertRow("innocent too"))
			w.batch(<-w.writes)
			if len(w.writes) != 1 {
				t.Errorf("%d writes wait, want the one after the failed one", len(w.writes))
			}
			w.batch(<-w.writes)
			wait()
			if !fault.Is(results[1], fault.Unavailable) || isRepeatable(results[1]) {
				t.Errorf("the write that filled the disk returned %v", results[1])
			}
			if !isRepeatable(results[0]) || results[2] != nil {
				t.Errorf("the others returned %v and %v", results[0], results[2])
			}
			wantNames(t, db, "innocent too")
		})
	}
}

// TestWriteRepeatsWhileFileIsBusy locks the file by another connection: BEGIN fails with a retryable error, and Write
// succeeds when the file is free.
func TestWriteRepeatsWhileFileIsBusy(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	onWriter(t, db, "PRAGMA busy_timeout = 0")
	err := other.Write(t.Context(), func(*Tx) error {
		w := idleWriter(db)
		results, wait := enqueue(w, insertRow("busy"))
		w.batch(<-w.writes)
		wait()
		if !IsRetryable(results[0]) {
			t.Errorf("got %v, want a retryable error", results[0])
		}
		return nil
	})
	must(t, err)
	must(t, db.Write(t.Context(), insertRow("free")))
	wantNames(t, db, "free")
}

// TestManyConcurrentWrites runs many writes at once; all succeed.
func TestManyConcurrentWrites(t *testing.T) {
	db := open(t, fileURL(t))
	const clients = 300
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			if err := db.Write(context.Background(), insertRow(fmt.Sprint("row ", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := len(names(t, db)); got != clients {
		t.Errorf("%d rows, want %d", got, clients)
	}
}

// TestCloseWaitsForRunningTransaction closes during a transaction: it still commits, and later ones fail. A second
// Close has no effect.
func TestCloseWaitsForRunningTransaction(t *testing.T) {
	url := fileURL(t)
	db := open(t, url)
	inside, release := make(chan struct{}), make(chan struct{})
	wrote := make(chan error, 1)
	go func() {
		wrote <- db.Write(context.Background(), func(tx *Tx) error {
			close(inside)
			<-release
			return insertRow("last")(tx)
		})
	}()
	<-inside
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	<-db.writer.quit
	if err := db.Write(t.Context(), insertRow("late")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after Close: %v", err)
	}
	if len(closed) != 0 {
		t.Error("Close did not wait for the running transaction")
	}
	close(release)
	must(t, errors.Join(<-wrote, <-closed))
	if err := db.Read(t.Context(), func(*Tx) error { return nil }); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Read after Close: %v", err)
	}
	again, err := Open(t.Context(), url)
	must(t, err)
	defer again.Close()
	wantNames(t, again, "last")
}
