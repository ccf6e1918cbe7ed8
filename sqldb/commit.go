package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/openberth/berth/fault"
)

// maxBatch is how many transactions may share one COMMIT. The disk's fsync, not SQL, is what costs.
const maxBatch = 128

// writer is SQLite's one writing connection and the goroutine that owns it.
//
// A caller of write queues up, is lent the open transaction inside a SAVEPOINT, runs its function in its
// own goroutine (so its panics stay its own) and gives the transaction back. When nobody waits,
// or after maxBatch, the writer commits, and only then does each caller of the batch hear how it ended.
type writer struct {
	pool  *sql.DB
	guard *guard        // of the database's files; nil: it has none
	jobs  chan *job     // unbuffered: who cannot be served may still walk away
	quit  chan struct{} // closed by close
	once  sync.Once
	gone  sync.WaitGroup // the goroutine
}

// job is one caller of write, seen from the writer. Each channel carries at most one value.
type job struct {
	turn chan turn  // writer to caller: your transaction, or why there is none
	back chan error // caller to writer: how the function ended
	done chan error // writer to caller: how the batch ended
}

type turn struct {
	tx  *Tx
	err error
}

// errExited says that a function ended by a panic or runtime.Goexit instead of returning.
var errExited = errors.New("the transaction's function did not return")

func newJob() *job {
	return &job{turn: make(chan turn, 1), back: make(chan error, 1), done: make(chan error, 1)}
}

func newWriter(pool *sql.DB, g *guard) *writer {
	w := &writer{pool: pool, guard: g, jobs: make(chan *job), quit: make(chan struct{})}
	w.gone.Go(w.run)
	return w
}

// close refuses new jobs, waits for the running batch and closes the connection.
func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	w.gone.Wait()
	return w.pool.Close()
}

// write runs fn inside a batch. It returns nil only after the batch's COMMIT.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) error {
	j := newJob()
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, "sqldb.Write", err)
	}
	select {
	case w.jobs <- j:
		return j.run(ctx, fn)
	default: // others write, or the caller itself does
	}
	if within(runsBatched) {
		return nested("sqldb.Write")
	}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, "sqldb.Write", context.Cause(ctx))
	case <-w.quit:
		return fault.New(fault.Unavailable, "sqldb.Write", "the database is closed")
	}
	return j.run(ctx, fn)
}

// run waits for the turn, runs fn and waits for the batch to end, but not longer than the deadline of ctx.
func (j *job) run(ctx context.Context, fn func(*Tx) error) error {
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
		return fault.New(fault.Unavailable, "sqldb.Write", "%w; nothing was changed", cmp.Or(context.Cause(ctx), wait.Err()))
	}
	select {
	case err := <-j.done:
		return err
	case <-wait.Done():
	}
	select {
	case err := <-j.done: // at the last moment
		return err
	default:
	}
	if failed != nil { // then it is undone, whatever becomes of the batch
		return failed
	}
	return unknownOutcome("COMMIT has not ended in time", cmp.Or(context.Cause(ctx), wait.Err()))
}

// decline gives the turn back unused once it comes.
func (j *job) decline() {
	if mine := <-j.turn; mine.err == nil {
		j.back <- errExited
	}
}

// borrow runs fn, returns its error and gives the transaction back in any case, also when fn panics.
func (j *job) borrow(tx *Tx, fn func(*Tx) error) (err error) {
	err = errExited
	defer func() { j.back <- err }()
	err = fn(tx)
	return err
}

// run serves batches until close.
func (w *writer) run() {
	for {
		select {
		case j := <-w.jobs:
			w.batch(j)
		case <-w.quit:
			return
		}
	}
}

// batch runs first and whoever waits behind it in one transaction.
func (w *writer) batch(first *job) {
	if err := w.guard.check(); err != nil {
		first.turn <- turn{err: err}
		return
	}
	ctx := context.Background()
	conn, err := w.pool.Conn(ctx)
	if err == nil {
		defer conn.Close()
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		first.turn <- turn{err: begun(err, 0)}
		return
	}
	var fine []*job // ran well and wait for the COMMIT
	for j, served := first, 1; j != nil; j, served = w.next(served), served+1 {
		whole, err := w.serve(ctx, conn, j)
		switch {
		case !whole: // SQLite undid the whole transaction; the others did nothing wrong and may repeat
			w.undo(ctx, conn)
			j.done <- err
			answer(fine, &retry{fault.New(fault.Unavailable, "sqldb.Write", "undone together with another transaction: %w", err)})
			return
		case err != nil:
			j.done <- err
		default:
			fine = append(fine, j)
		}
	}
	answer(fine, w.commit(ctx, conn))
}

// commit ends the transaction of a batch. When a file of the database was lost meanwhile, it is unknown which file has
// the change.
func (w *writer) commit(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		w.undo(ctx, conn)
		return fault.Wrap(fault.Unavailable, "sqldb.commit", err)
	}
	if err := w.guard.check(); err != nil {
		return unknownOutcome("the database's file was lost during COMMIT", err)
	}
	return nil
}

// next takes a waiting job into a batch that has served some already, nil when nobody waits or the batch is full.
func (w *writer) next(served int) *job {
	if served >= maxBatch {
		return nil
	}
	select {
	case j := <-w.jobs:
		return j
	default:
		return nil
	}
}

// serve lends the transaction to one job inside a savepoint. whole is false when the transaction around it is lost.
func (w *writer) serve(ctx context.Context, conn *sql.Conn, j *job) (whole bool, err error) {
	if _, err := conn.ExecContext(ctx, "SAVEPOINT job"); err != nil {
		err = fault.Wrap(fault.Unavailable, "sqldb.Write", err)
		j.turn <- turn{err: err}
		return false, err
	}
	tx := &Tx{Dialect: SQLite, on: conn}
	j.turn <- turn{tx: tx}
	err = <-j.back
	tx.finish()
	if tx.dead != nil {
		return false, fault.Wrap(fault.Unavailable, "sqldb.Write", tx.dead)
	}
	if err != nil {
		if _, undo := conn.ExecContext(ctx, "ROLLBACK TO job"); undo != nil {
			return false, errors.Join(err, undo)
		}
	}
	if _, release := conn.ExecContext(ctx, "RELEASE job"); release != nil {
		return false, errors.Join(err, fault.Wrap(fault.Unavailable, "sqldb.Write", release))
	}
	return true, err
}

// undo makes sure that nothing of a broken batch stays open. SQLite may have rolled back already: then this fails, rightly.
func (w *writer) undo(ctx context.Context, conn *sql.Conn) {
	conn.ExecContext(ctx, "ROLLBACK")
}

// answer tells all jobs of a batch how it ended.
func answer(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}
