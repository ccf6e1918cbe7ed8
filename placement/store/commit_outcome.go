package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// This file determines the outcome of a transaction whose COMMIT failed: the connection, the server or its cluster
// node was lost before the answer arrived. The transaction may be committed, rolled back, still open on the server,
// or not yet replicated to the other nodes of a Galera cluster.
//
// findOut first writes the same rows itself. So it waits for a transaction that is still open. On a Galera cluster,
// certification accepts only one of two concurrent transactions that write the same row. So if findOut has committed
// and the lost transaction is not visible, it cannot appear later. Then findOut searches for traces that only the
// lost transaction can have left: the ids of rows that it inserted or deleted, the generations that it set, and its
// timestamp. MariaDB stores timestamps in seconds, PostgreSQL in microseconds.

// CodeUnknownOutcome is the code of the fault Unavailable of a write that may or may not be committed: the connection
// to the database, or a node of its cluster, was lost at COMMIT, and the outcome cannot be determined.
const CodeUnknownOutcome = sqldb.CodeUnknown

const (
	maxOutcomeAttempts = 3                // how often a write whose outcome was unknown is run
	outcomeTime        = 15 * time.Second // for finding the outcome, unless the request has an earlier deadline
)

// outcomeWaits are the waits between the attempts to find an outcome while the database does not answer.
var outcomeWaits = backoff.Exponential{First: 50 * time.Millisecond, Max: time.Second, Jitter: backoff.Around}

// outcome is the outcome of a transaction.
type outcome int

const (
	undecided  outcome = iota // others have written since; the outcome cannot be determined any more
	committed                 // it is committed
	rolledBack                // it is not committed, and cannot be committed later
	unchanged                 // undecided, but the state is as before the transaction: it can be repeated
)

// untilKnown runs attempt, one transaction, and returns its result. If the COMMIT fails, find receives the result and
// returns the outcome. A committed transaction is returned as a success; one that was rolled back is tried again. The
// error is one of attempt, or Unavailable CodeUnknownOutcome if find fails or cannot decide.
func untilKnown[T any](ctx context.Context, db *sqldb.DB, attempt func() (T, error),
	find func(context.Context, T) (outcome, error)) (T, error) {
	for begun := 1; ; begun++ {
		done, err := attempt()
		if !sqldb.IsUnknown(err) {
			return done, err
		}
		became, failed := retryFind(ctx, db, func(ctx context.Context) (outcome, error) { return find(ctx, done) })
		switch {
		case failed != nil:
			return done, fault.New(fault.Unavailable, "%w; finding out failed: %v", err, failed).WithCode(CodeUnknownOutcome)
		case became == undecided:
			return done, err
		case became == committed:
			return done, nil
		case begun < maxOutcomeAttempts:
		case became == rolledBack:
			return done, fault.New(fault.Unavailable,
				"the connection broke during COMMIT %d times; nothing was changed, try again later: %v", begun, err)
		default:
			return done, err
		}
	}
}

// retryFind repeats find while the database does not answer, until the request's deadline, at most for outcomeTime.
// It continues after the client has disconnected. It ends when the database has lost its file, because no answer can
// arrive any more.
func retryFind(ctx context.Context, db *sqldb.DB, find func(context.Context) (outcome, error)) (outcome, error) {
	last := time.Now().Add(outcomeTime)
	if at, ok := ctx.Deadline(); ok && at.Before(last) {
		last = at
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), last)
	defer cancel()
	for failures := 1; ; failures++ {
		became, err := find(ctx)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return became, err
		}
		select {
		case <-ctx.Done():
			return undecided, err
		case <-db.Lost():
			return undecided, err
		case <-time.After(outcomeWaits.Wait(failures)):
		}
	}
}

// findOut runs judge in a transaction that has locked these providers, and commits it.
func (s *Store) findOut(ctx context.Context, ids []provider.ID,
	judge func(tx *sqldb.Tx) (outcome, error)) (became outcome, err error) {
	err = s.write(ctx, "findOut", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		if err := lockProviders(ctx, tx, sortedSet(ids)...); err != nil {
			return err
		}
		became, err = judge(tx)
		return err
	})
	return became, err
}

// withFixedClock returns a copy of the store with a constant time, so that all rows of one transaction get the same
// timestamp.
func (s *Store) withFixedClock() *Store {
	at, c := s.Now(), *s
	c.Now = func() time.Time { return at }
	return &c
}

// matchesTimestamp reports whether a timestamp read from the database can be the time at, as the database rounds it.
func matchesTimestamp(tx *sqldb.Tx, read sql.NullTime, at time.Time) bool {
	is := read.Time.UTC()
	if tx.Dialect == sqldb.MySQL { // MariaDB truncates the fraction of a second, MySQL rounds it
		return read.Valid && (is.Equal(at.Truncate(time.Second)) || is.Equal(at.Round(time.Second)))
	}
	return read.Valid && is.Equal(at)
}

// raisedProvider is a provider whose generation a transaction raised.
type raisedProvider struct {
	id    provider.ID
	row   int64
	after int // its generation after the transaction
}

// judge returns the outcome of the transaction that raised the provider's generation at the time at, from the
// provider alone: committed means that its generation and its timestamp are present. On MariaDB another transaction
// can have set the same values within one second.
func (r raisedProvider) judge(ctx context.Context, tx *sqldb.Tx, at time.Time) (became outcome, err error) {
	const query = "SELECT COALESCE(generation, 0), updated_at FROM resource_providers WHERE id = ?"
	err = sqldb.QueryEach(ctx, tx, query, []any{r.row}, func(rows *sql.Rows) error {
		var now int
		var updated sql.NullTime
		err := rows.Scan(&now, &updated)
		switch {
		case now < r.after:
			became = rolledBack
		case now == r.after && !matchesTimestamp(tx, updated, at): // only one transaction sets each generation
			became = rolledBack
		case now == r.after:
			became = committed
		}
		return err
	})
	return became, err
}

// providerChange is a change of a provider whose generation was raised.
type providerChange struct {
	raisedProvider
	at      time.Time
	change  Change
	compare comparison // compares with the state after the change; nil: nothing changed
	// compares with the state before; nil if the generation was raised, which is more reliable
	compareBefore comparison
}

// comparison compares the state of a provider with the result of a transaction. same: they are equal. ours: also,
// there are rows with that transaction's timestamp; or no rows are expected and the request named no generation, so
// any writer may have removed them.
type comparison func(ctx context.Context, tx *sqldb.Tx) (same, ours bool, err error)

// findChange determines the outcome of a change of one provider.
func (s *Store) findChange(ctx context.Context, m providerChange) (outcome, error) {
	if m.compare == nil {
		return rolledBack, nil
	}
	return s.findOut(ctx, []provider.ID{m.id}, func(tx *sqldb.Tx) (outcome, error) { return m.judge(ctx, tx) })
}

func (m providerChange) judge(ctx context.Context, tx *sqldb.Tx) (outcome, error) {
	if m.compareBefore != nil {
		return m.judgeUnraised(ctx, tx)
	}
	became, err := m.raisedProvider.judge(ctx, tx, m.at)
	if err != nil || became == rolledBack {
		return became, err
	}
	same, ours, err := m.compare(ctx, tx)
	switch {
	case became == committed && !same:
		return rolledBack, err // another transaction set this generation within the same second
	case became == undecided && same && ours:
		return committed, err // later transactions have raised the generation further
	}
	return became, err
}

// judgeUnraised returns the outcome of a change that raised no generation.
func (m providerChange) judgeUnraised(ctx context.Context, tx *sqldb.Tx) (outcome, error) {
	if same, _, err := m.compare(ctx, tx); err != nil || same {
		return committed, err
	}
	if same, _, err := m.compareBefore(ctx, tx); err != nil || same {
		return unchanged, err
	}
	return undecided, nil
}

// compareRows is a comparison of rows of a provider that are only inserted and deleted: the present rows with their
// timestamps, against the expected rows and those that were inserted.
func compareRows[K comparable](tx *sqldb.Tx, now map[K]sql.NullTime, want, inserted []K,
	at time.Time, anybody bool) (same, ours bool) {
	same = len(now) == len(want)
	for _, key := range want {
		_, there := now[key]
		same = same && there
	}
	ours = len(inserted) > 0 &&
		!slices.ContainsFunc(inserted, func(key K) bool { return !matchesTimestamp(tx, now[key], at) })
	return same, ours || anybody && len(want) == 0
}

// newRow is a row with a unique name that a transaction inserted.
type newRow struct {
	table, column string // the column of the name
	name          any
	insert        string // a statement that inserts a row with its name
	args          []any
	id            int64
	at            time.Time
}

// findNew determines the outcome of a transaction that inserted a row. It inserts the row itself and deletes it. If
// another transaction has inserted a row of the same name, the outcome is rolledBack.
func (s *Store) findNew(ctx context.Context, row newRow) (became outcome, err error) {
	err = s.write(ctx, "findOut", func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, row.insert, row.args...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM "+row.table+" WHERE "+row.column+" = ?", row.name)
		return err
	})
	if !sqldb.IsDuplicate(err) {
		return rolledBack, err
	}
	err = s.read(ctx, "findOut", func(tx *sqldb.Tx) error {
		became = rolledBack
		return sqldb.QueryEach(ctx, tx, "SELECT id, created_at FROM "+row.table+" WHERE "+row.column+" = ?", []any{row.name},
			func(rows *sql.Rows) error {
				var id int64
				var created sql.NullTime
				err := rows.Scan(&id, &created)
				if id == row.id && matchesTimestamp(tx, created, row.at) {
					became = committed
				}
				return err
			})
	})
	return became, err
}

// findName locks a row of traits or resource_classes and returns its name and creation time. The name is empty if the
// row does not exist.
func (s *Store) findName(ctx context.Context, table string, id int64) (name string, created sql.NullTime, err error) {
	err = s.write(ctx, "findOut", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		for _, to := range lockValues(tx, "created_at", "created_at + INTERVAL 1 DAY", "created_at - INTERVAL 1 DAY") {
			if _, err := tx.Exec(ctx, "UPDATE "+table+" SET created_at = "+to+" WHERE id = ?", id); err != nil {
				return err
			}
		}
		name = ""
		return sqldb.QueryEach(ctx, tx, "SELECT name, created_at FROM "+table+" WHERE id = ?", []any{id},
			func(rows *sql.Rows) error { return rows.Scan(&name, &created) })
	})
	return name, created, err
}

// findDeleted determines the outcome of a transaction that deleted a row of traits or resource_classes. Any client
// may have deleted it. A row with another creation time is a new one: ids of classes are reused.
func (s *Store) findDeleted(ctx context.Context, table string, id int64, created sql.NullTime) (outcome, error) {
	name, now, err := s.findName(ctx, table, id)
	if name != "" && now.Valid == created.Valid && now.Time.Equal(created.Time) {
		return rolledBack, err
	}
	return committed, err
}

// raisedBy returns the provider as it is after a write that adds n to its generation.
func (p providerRow) raisedBy(n int) raisedProvider {
	return raisedProvider{p.ID, p.id, p.Generation + n}
}
