package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/openberth/berth/fault"
)

// maxBatch is the largest number of transactions that share one COMMIT. The fsync of a COMMIT costs more than its
// SQL.
const maxBatch = 128

// writer owns SQLite's one writing connection and its goroutine.
//
// A caller of write waits for its turn, receives the open transaction, runs its function in its own goroutine (where
// its panics stay) and returns the transaction. When no caller is waiting, or after maxBatch, the writer commits. Only
// then does each caller of the batch receive the result, also one whose function has failed: that may follow from what
// earlier functions of the batch have written. A function that runs after such ones has a SAVEPOINT, so that it can be
// undone without them. The first needs none, which saves a third of the statements of a small transaction.
type writer struct {
	pool    *sql.DB
	guard   *guard        // of the database's files; nil for a database in memory
	writes  chan *write   // unbuffered, so that a caller that is not served can cancel
	quit    chan struct{} // closed by close
	once    sync.Once
	running sync.WaitGroup // the goroutine
	late    atomic.Int64   // the writes whose callers did not wait for the end of COMMIT
}

// write is one caller of writer.write. Each channel carries at most one value.
type write struct {
	turn chan turn  // writer to caller: the transaction, or an error
	back chan error // caller to writer: the function's error
	done chan error // writer to caller: the batch's error
}

type turn struct {
	tx  *Tx
	err error
}

// errExited reports that a function ended by a panic or runtime.Goexit instead of returning.
var errExited = errors.New("the transaction's function did not return")

func newWrite() *write {
	return &write{turn: make(chan turn, 1), back: make(chan error, 1), done: make(chan error, 1)}
}

func newWriter(pool *sql.DB, g *guard) *writer {
	w := &writer{pool: pool, guard: g, writes: make(chan *write), quit: make(chan struct{})}
	w.running.Go(w.run)
	return w
}

// close refuses new writes, waits for the running batch and closes the connection.
func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	w.running.Wait()
	return w.pool.Close()
}

// write runs fn inside a batch. It returns nil only after the batch's COMMIT.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) error {
	j := newWrite()
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	select {
	case w.writes <- j:
		return w.finish(j.run(ctx, fn))
	default: // outside of another write
	}
	if within(runsBatched) {
		return nested("sqldb.Write")
	}
	select {
	case w.writes <- j:
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, context.Cause(ctx))
	case <-w.quit:
		return fault.New(fault.Unavailable, "the database is closed")
	}
	return w.finish(j.run(ctx, fn))
}

// finish counts a write whose outcome its caller does not know, and returns err. The writer may commit it later.
func (w *writer) finish(err error) error {
	if IsUnknown(err) {
		w.late.Add(1)
	}
	return err
}

// run waits for the turn, runs fn and waits for the end of the batch, but not longer than the deadline of ctx.
func (j *write) run(ctx context.Context, fn func(*Tx) error) error {
	wait, cancel := Patient(ctx)
	defer cancel()
	var failed error
	select {
	case mine := <-j.turn:
		if mine.err != nil {
			return mine.err
		}
		failed = j.borrow(mine.tx, fn)
	case <-wait.Done():
		go j.decline()
		return fault.New(fault.Unavailable, "%w; nothing was changed", cmp.Or(context.Cause(ctx), wait.Err()))
	}
	select {
	case err := <-j.done:
		return err
	case <-wait.Done():
	}
	select {
	case err := <-j.done: // the batch ended at the same moment
		return err
	default:
	}
	if failed != nil { // rolled back, with or without the batch; it may follow from what is not committed
		return fault.New(fault.Unavailable, "earlier transactions have not ended in time (%w); nothing was "+
			"changed", cmp.Or(context.Cause(ctx), wait.Err()))
	}
	return unknownOutcome("COMMIT has not ended in time", cmp.Or(context.Cause(ctx), wait.Err()))
}

// decline waits for the turn and returns it unused.
func (j *write) decline() {
	if mine := <-j.turn; mine.err == nil {
		j.back <- errExited
	}
}

// borrow runs fn, returns its error and always returns the transaction, even if fn panics.
func (j *write) borrow(tx *Tx, fn func(*Tx) error) (err error) {
	err = errExited
	defer func() { j.back <- err }()
	err = fn(tx)
	return err
}

// run processes batches until close.
func (w *writer) run() {
	for {
		select {
		case j := <-w.writes:
			w.batch(j)
		case <-w.quit:
			return
		}
	}
}

// batch runs first and the writes that wait after it in one transaction.
func (w *writer) batch(first *write) {
	if err := w.guard.check(); err != nil {
		first.turn <- turn{err: err}
		return
	}
	ctx := context.Background()
	conn, err := w.pool.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = begin(ctx, conn)
	}
	if err != nil {
		first.turn <- turn{err: err}
		return
	}
	facts := &batchFacts{}
	var fine []*write // successful, waiting for the COMMIT
	var failed []failedWrite
	for j, served := first, 1; j != nil; j, served = w.next(served), served+1 {
		whole, err := w.serve(ctx, conn, j, facts, len(fine) == 0)
		switch {
		case !whole: // SQLite rolled back the whole transaction; the other writes may be repeated
			w.undo(ctx, conn)
			j.done <- err
			again := rolledBackTogether(err)
			answer(fine, again)
			answerFailed(failed, again)
			return
		case err != nil && len(fine) == 0: // it follows from what is committed
			w.undo(ctx, conn)
			j.done <- err
			if begin(ctx, conn) != nil {
				return // the next batch reports it to its first write
			}
			facts = &batchFacts{} // another process may have written before BEGIN
		case err != nil:
			failed = append(failed, failedWrite{j, err})
		default:
			fine = append(fine, j)
		}
	}
	err = w.commit(ctx, conn)
	answer(fine, err)
	if err != nil {
		err = rolledBackTogether(err)
	}
	answerFailed(failed, err)
}

// begin begins a transaction that may write.
func begin(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return beginError(err, 0)
	}
	return nil
}

// failedWrite is a write whose function has failed after others of the batch had written.
type failedWrite struct {
	*write
	err error
}

// rolledBackTogether returns the result of a write that had to end with its batch, for a reason of another one.
func rolledBackTogether(err error) error {
	return &retry{fault.New(fault.Unavailable, "rolled back together with another transaction: %w", err)}
}

// commit commits the transaction of a batch. If a file of the database was lost meanwhile, the outcome is unknown.
func (w *writer) commit(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		w.undo(ctx, conn)
		return fault.Wrap(fault.Unavailable, err)
	}
	if err := w.guard.check(); err != nil {
		return unknownOutcome("the database's file was lost during COMMIT", err)
	}
	return nil
}

// next returns a waiting write, or nil if none is waiting or the batch is full.
func (w *writer) next(served int) *write {
	if served >= maxBatch {
		return nil
	}
	select {
	case j := <-w.writes:
		return j
	default:
		return nil
	}
}

// serve gives the transaction to one write, inside a savepoint unless it is alone: unless other writes of the
// transaction have succeeded. whole is false if the surrounding transaction is lost. The caller rolls back what a write
// that is alone has changed before its function failed.
func (w *writer) serve(ctx context.Context, conn *sql.Conn, j *write, facts *batchFacts, alone bool) (whole bool,
	err error) {
	if !alone {
		if _, err := conn.ExecContext(ctx, "SAVEPOINT job"); err != nil {
			err = fault.Wrap(fault.Unavailable, err)
			j.turn <- turn{err: err}
			return false, err
		}
	}
	tx := &Tx{Dialect: SQLite, on: conn, batch: facts, late: w.late.Load}
	j.turn <- turn{tx: tx}
	err = <-j.back
	tx.finish()
	if tx.dead != nil {
		return false, fault.Wrap(fault.Unavailable, tx.dead)
	}
	if alone {
		return true, err
	}
	if err != nil {
		if _, undo := conn.ExecContext(ctx, "ROLLBACK TO job"); undo != nil {
			return false, errors.Join(err, undo)
		}
	}
	if _, release := conn.ExecContext(ctx, "RELEASE job"); release != nil {
		return false, errors.Join(err, fault.Wrap(fault.Unavailable, release))
	}
	return true, err
}

// undo rolls back a batch. It fails if SQLite has rolled back already, which is harmless.
func (w *writer) undo(ctx context.Context, conn *sql.Conn) {
	conn.ExecContext(ctx, "ROLLBACK")
}

// answerFailed sends their own errors to failed writes, or err if the batch has ended with it.
func answerFailed(writes []failedWrite, err error) {
	for _, j := range writes {
		j.done <- cmp.Or(err, j.err)
	}
}

// answer sends the result of a batch to its writes.
func answer(writes []*write, err error) {
	for _, j := range writes {
		j.done <- err
	}
}
