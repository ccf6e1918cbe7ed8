package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// This file counts what servers use, and refuses what exceeds the limits of their project. Each server has a row with
// what its record counts; it is written in the transaction of the record, so it cannot differ from it. A request that
// needs more adds up the rows of the project in the same transaction, and no other one adds rows of the project before
// it ends: SQLite has one writer, and elsewhere the transaction locks a row of the project.

// QuotaUse returns what the existing servers of a project use, or those of a user in it, and how many server groups
// there are. user may be empty.
func (s *Store) QuotaUse(ctx context.Context, project, user string) (use quota.Amounts, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		if use, err = sumUse(ctx, tx, project, user); err != nil {
			return err
		}
		return addGroupCount(ctx, tx, use, project, user)
	})
	return use, wrap(err)
}

// addGroupCount adds the number of server groups of a project, or of those of a user in it.
func addGroupCount(ctx context.Context, tx *sqldb.Tx, use quota.Amounts, project, user string) error {
	w := &where{}
	w.and("project = ?", project)
	if user != "" {
		w.and("user_id = ?", user)
	}
	n, err := countOf(ctx, tx, `SELECT COUNT(*) FROM compute_server_groups`+w.sql(), w.args...)
	if n > 0 {
		use[quota.ServerGroups] = n
	}
	return err
}

// sumUse adds up the rows of a project, or those of a user in it. Servers of one flavor have equal texts, which the
// database counts.
func sumUse(ctx context.Context, tx *sqldb.Tx, project, user string) (quota.Amounts, error) {
	w := &where{}
	w.and("project = ?", project)
	if user != "" {
		w.and("user_id = ?", user)
	}
	sum := quota.Amounts{}
	return sum, sqldb.QueryEach(ctx, tx,
		`SELECT amounts, COUNT(*) FROM compute_quota_use`+w.sql()+` GROUP BY amounts`, w.args, func(rows *sql.Rows) error {
			var text string
			var servers int
			if err := rows.Scan(&text, &servers); err != nil {
				return err
			}
			var amounts quota.Amounts
			if err := json.Unmarshal([]byte(text), &amounts); err != nil {
				return fault.New(fault.Internal, "a row of compute_quota_use is not readable: %w", err)
			}
			sum.Add(amounts, servers)
			return nil
		})
}

// saveUse writes the row of a changed record.
func saveUse(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server) error {
	old, now := before.QuotaUse(), after.QuotaUse()
	if before.ID == "" { // a new server
		old = nil
	}
	if maps.Equal(old, now) && before.Project == after.Project && before.User == after.User {
		return nil
	}
	if len(now) == 0 {
		_, err := tx.Exec(ctx, `DELETE FROM compute_quota_use WHERE server = ?`, after.ID)
		return err
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	statement := `INSERT INTO compute_quota_use (amounts, project, user_id, server) VALUES (?, ?, ?, ?)`
	if len(old) > 0 {
		statement = `UPDATE compute_quota_use SET amounts = ?, project = ?, user_id = ? WHERE server = ?`
	}
	_, err = tx.Exec(ctx, statement, string(text), after.Project, after.User, after.ID)
	return err
}

// quotaRequest is what a request adds to the use of a project.
type quotaRequest struct {
	project, user string
	more          quota.Amounts
	late          bool           // only the transaction knows more
	always        bool           // any growth is checked, also without a request of a user
	limits        *ProjectLimits // nil: not known
}

// errLimitsUnknown ends a transaction that needs limits, which are read outside of it: they may be those of another
// service.
var errLimitsUnknown = errors.New("the limits of the project are not known")

// restricted reports whether a limit could refuse the request.
func (r *quotaRequest) restricted() bool {
	return len(r.more) > 0 && (r.limits == nil || r.limits.Project.Restrict(r.more) || r.limits.User.Restrict(r.more))
}

// begin locks the project for a transaction that may check limits, before it reads anything.
func (r *quotaRequest) begin(ctx context.Context, tx *sqldb.Tx) error {
	if r.limits == nil || !r.late && !r.restricted() {
		return nil
	}
	return lockOwner(ctx, tx, r.project)
}

// check refuses the request if it exceeds a limit. No other transaction that checks the limits of the project commits
// between begin and the end of this one.
func (r *quotaRequest) check(ctx context.Context, tx *sqldb.Tx) error {
	if !r.restricted() {
		return nil
	}
	if r.limits == nil {
		return errLimitsUnknown
	}
	use, err := sumUse(ctx, tx, r.project, "")
	if err == nil {
		err = quota.Check(r.limits.Project, use, r.more)
	}
	if err != nil || !r.limits.User.Restrict(r.more) {
		return err
	}
	if use, err = sumUse(ctx, tx, r.project, r.user); err != nil {
		return err
	}
	return quota.Check(r.limits.User, use, r.more)
}

// lockedAttempts is how often a transaction may run that waits for others of the same owner. Where two processes use
// two nodes of a Galera cluster, the node that commits first aborts the other one's transaction, so that a process
// which has many requests of a project can delay one of another process for a long time.
const lockedAttempts = 100

// lockOwner lets no other transaction pass that locks the owner of limits, such as a project, until this one ends. What
// this one reads afterwards is what the others have committed: MySQL takes its snapshot with the first SELECT, and
// PostgreSQL refuses to change a row that has changed since its snapshot. SQLite has one writer and needs no lock.
func lockOwner(ctx context.Context, tx *sqldb.Tx, owner string) error {
	if tx.Dialect == sqldb.SQLite {
		return nil
	}
	done, err := tx.Exec(ctx, `UPDATE compute_quota_locks SET changes = changes + 1 WHERE owner = ?`, owner)
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows > 0 {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO compute_quota_locks (owner, changes) VALUES (?, 1)`, owner)
	if sqldb.IsDuplicate(err) { // another process was faster
		return sqldb.Retry(err)
	}
	return err
}

// withLimits runs a transaction that may check limits. If it needs them, they are read before it runs or runs again. A
// transaction that a limit may refuse runs alone for the project in this process: otherwise PostgreSQL would abort all
// except one of those that wait for the lock.
func (s *Store) withLimits(ctx context.Context, r *quotaRequest, transaction func() error) error {
	if r.late {
		if err := transaction(); !errors.Is(err, errLimitsUnknown) {
			return err
		}
	}
	limits, err := s.Limits(ctx, r.project, r.user)
	if err != nil {
		return err
	}
	r.limits = &limits
	if s.db.Dialect != sqldb.SQLite && r.restricted() {
		unlock, err := s.quotaLocks.lock(ctx, r.project)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return transaction()
}

// keyedLocks are locks by key.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	held chan struct{} // has an element while the lock is held
	uses int           // callers that hold it or wait
}

// lock waits for the lock of a key. It returns an error if the context ends first.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{held: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.uses++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.uses--; l.uses == 0 {
			delete(k.locks, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
