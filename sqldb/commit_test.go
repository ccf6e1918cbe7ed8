package sqldb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
)

func fileURL(t *testing.T) string { return "sqlite:///" + filepath.Join(t.TempDir(), "test.db") }

// still is a writer without its goroutine: what waits in its queue is known, and a batch runs when the test says so.
func still(db *DB) *writer {
	return &writer{pool: db.writer.pool, writes: make(chan *write, 2*maxBatch), quit: make(chan struct{})}
}

// queue lets each function wait in its own goroutine for its turn, in this order. What they heard is there after wait.
func queue(w *writer, fns ...func(*Tx) error) (heard []error, wait func()) {
	heard = make([]error, len(fns))
	var all sync.WaitGroup
	for i, fn := range fns {
		j := newWrite()
		w.writes <- j
		all.Go(func() {
			defer func() {
				if recovered := recover(); recovered != nil {
					heard[i] = fmt.Errorf("panic: %v", recovered)
				}
			}()
			heard[i] = j.run(context.Background(), fn)
		})
	}
	return heard, all.Wait
}

func inserting(name string) func(*Tx) error {
	return func(tx *Tx) error { return insert(context.Background(), tx, name, 1) }
}

// TestBatch puts good and bad transactions into one batch: each bad one is undone alone.
func TestBatch(t *testing.T) {
	db := open(t, fileURL(t))
	must(t, db.Write(t.Context(), inserting("taken")))
	broken := errors.New("broken on purpose")
	w := still(db)
	heard, wait := queue(w,
		inserting("a"),
		func(tx *Tx) error { return errors.Join(inserting("error")(tx), broken) },
		inserting("b"),
		func(tx *Tx) error { return errors.Join(inserting("duplicate")(tx), inserting("taken")(tx)) },
		func(tx *Tx) error { must(t, inserting("panic")(tx)); panic("on purpose") },
		inserting("c"),
		func(tx *Tx) error { // leaves a query open and fails
			_, err := tx.Query(context.Background(), "SELECT name FROM thing")
			return errors.Join(err, inserting("open")(tx), broken)
		},
		inserting("a"), // sees what earlier ones of the batch did
	)
	w.batch(<-w.writes)
	wait()
	if len(w.writes) != 0 {
		t.Errorf("%d jobs left out of the batch", len(w.writes))
	}
	for _, i := range []int{0, 2, 5} {
		must(t, heard[i])
	}
	if !errors.Is(heard[1], broken) || !IsDuplicate(heard[3]) || heard[4].Error() != "panic: on purpose" ||
		!errors.Is(heard[6], broken) || !IsDuplicate(heard[7]) {
		t.Errorf("heard %q", heard)
	}
	wantNames(t, db, "taken", "a", "b", "c")
}

// TestBatchEnds checks that a batch ends at its limit although more are waiting, also when all of it fails.
func TestBatchEnds(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("broken on purpose")} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			db := open(t, fileURL(t))
			w := still(db)
			var fns []func(*Tx) error
			for range maxBatch + 10 {
				fns = append(fns, func(*Tx) error { return outcome })
			}
			heard, wait := queue(w, fns...)
			w.batch(<-w.writes)
			if len(w.writes) != 10 {
				t.Errorf("%d jobs wait, want 10", len(w.writes))
			}
			w.batch(<-w.writes)
			wait()
			for _, err := range heard {
				if err != outcome {
					t.Fatalf("heard %v", err)
				}
			}
		})
	}
}

// TestSuccessAfterCommit checks that nobody hears anything good before the COMMIT, and that others see nothing before
// it.
func TestSuccessAfterCommit(t *testing.T) {
	db := open(t, fileURL(t))
	w := still(db)
	first := newWrite() // nobody listens to first.done, so a verdict would stay in it
	w.writes <- first
	var all sync.WaitGroup
	all.Go(func() { first.borrow((<-first.turn).tx, inserting("first")) })
	heard, wait := queue(w, func(*Tx) error {
		if len(first.done) != 0 {
			t.Error("the first one heard its verdict before the COMMIT")
		}
		wantNames(t, db)
		return nil
	})
	w.batch(<-w.writes)
	all.Wait()
	wait()
	must(t, errors.Join(heard[0], <-first.done))
	wantNames(t, db, "first")
}

// onWriter runs a statement on the writing connection outside a transaction.
func onWriter(t *testing.T, db *DB, statement string) {
	t.Helper()
	if _, err := db.writer.pool.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestCommitFails lets a COMMIT fail by a deferred foreign key: all callers of the batch hear of it, nothing stays.
func TestCommitFails(t *testing.T) {
	db := open(t, fileURL(t))
	onWriter(t, db, "CREATE TABLE child (parent INTEGER REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
	onWriter(t, db, "PRAGMA foreign_keys = ON")
	w := still(db)
	heard, wait := queue(w, inserting("innocent"), func(tx *Tx) error {
		_, err := tx.Exec(context.Background(), "INSERT INTO child (parent) VALUES (4711)")
		return err
	}, inserting("innocent too"))
	w.batch(<-w.writes)
	wait()
	for i, err := range heard {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("caller %d heard %v", i, err)
		}
	}
	wantNames(t, db)
	must(t, db.Write(t.Context(), inserting("later")))
	wantNames(t, db, "later")
}

// TestWholeTransactionLost fills the disk: SQLite then undoes the whole transaction and not the savepoint alone.
// The culprit hears of it, also when it hides the error; the others may repeat.
func TestWholeTransactionLost(t *testing.T) {
	for _, hides := range []bool{false, true} {
		t.Run(fmt.Sprint("hides ", hides), func(t *testing.T) {
			db := open(t, fileURL(t))
			onWriter(t, db, "PRAGMA max_page_count = 40")
			w, ctx := still(db), context.Background()
			heard, wait := queue(w, inserting("innocent"), func(tx *Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO thing (name) VALUES (zeroblob(1000000))")
				if err == nil {
					t.Error("the disk is not full")
				}
				if inserting("outside")(tx) == nil {
					t.Error("a statement ran behind the lost transaction")
				}
				if tx.QueryRow(ctx, "SELECT 1").Scan(new(int)) == nil {
					t.Error("a query ran behind the lost transaction")
				}
				if hides {
					return nil
				}
				return err
			}, inserting("innocent too"))
			w.batch(<-w.writes)
			if len(w.writes) != 1 {
				t.Errorf("%d jobs wait, want the one behind the culprit", len(w.writes))
			}
			w.batch(<-w.writes)
			wait()
			if !fault.Is(heard[1], fault.Unavailable) || again(heard[1]) {
				t.Errorf("the culprit heard %v", heard[1])
			}
			if !again(heard[0]) || heard[2] != nil {
				t.Errorf("the others heard %v and %v", heard[0], heard[2])
			}
			wantNames(t, db, "innocent too")
		})
	}
}

// TestBusy lets another process hold the file: BEGIN is refused, Write repeats it and succeeds once the file is free.
func TestBusy(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	onWriter(t, db, "PRAGMA busy_timeout = 0")
	err := other.Write(t.Context(), func(*Tx) error {
		w := still(db)
		heard, wait := queue(w, inserting("busy"))
		w.batch(<-w.writes)
		wait()
		if !IsRetryable(heard[0]) {
			t.Errorf("heard %v", heard[0])
		}
		return nil
	})
	must(t, err)
	must(t, db.Write(t.Context(), inserting("free")))
	wantNames(t, db, "free")
}

// TestCrowd runs many callers through Write at once; all succeed, and Close waits for none of them in vain.
func TestCrowd(t *testing.T) {
	db := open(t, fileURL(t))
	const clients = 300
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			if err := db.Write(context.Background(), inserting(fmt.Sprint("row ", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := len(names(t, db)); got != clients {
		t.Errorf("%d rows", got)
	}
}

// TestClose closes in the middle of a transaction: that one still commits, later ones are refused, twice is no harm.
func TestClose(t *testing.T) {
	url := fileURL(t)
	db := open(t, url)
	inside, release := make(chan struct{}), make(chan struct{})
	wrote := make(chan error, 1)
	go func() {
		wrote <- db.Write(context.Background(), func(tx *Tx) error {
			close(inside)
			<-release
			return inserting("last")(tx)
		})
	}()
	<-inside
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	<-db.writer.quit
	if err := db.Write(t.Context(), inserting("late")); !fault.Is(err, fault.Unavailable) {
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

// TestNested: a write inside a write would wait for itself. It is refused at once, and the outer one goes on. In
// memory, where all share one connection, the same is true of a read inside a write and the other way round.
func TestNested(t *testing.T) {
	ctx := t.Context()
	read := func(db *DB) error { return db.Read(ctx, func(*Tx) error { return nil }) }
	write := func(db *DB) error { return db.Write(ctx, inserting("inner")) }
	refused := func(db *DB, inner func(*DB) error) func(*Tx) error {
		return func(tx *Tx) error {
			if err := inner(db); !fault.Is(err, fault.Internal) || !strings.Contains(fault.TextOf(err),
				"would wait for itself") {
				t.Errorf("%v", err)
			}
			return nil
		}
	}
	file, memory := open(t, fileURL(t)), open(t, "sqlite://")
	must(t, file.Write(ctx, refused(file, write)))
	must(t, file.Write(ctx, func(*Tx) error { return read(file) }))
	must(t, file.Read(ctx, func(*Tx) error { return write(file) }))
	wantNames(t, file, "inner")
	must(t, memory.Write(ctx, refused(memory, write)))
	must(t, memory.Write(ctx, refused(memory, read)))
	must(t, memory.Read(ctx, refused(memory, read)))
	must(t, memory.Read(ctx, refused(memory, write)))
	must(t, memory.Write(ctx, inserting("outer")))
	wantNames(t, memory, "outer")
}
