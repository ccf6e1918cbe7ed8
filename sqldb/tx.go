package sqldb

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// Tx is one running transaction, passed to a function by Write or Read. One goroutine may use it, until the function
// returns.
//
// Statements have `?` placeholders on every dialect. A time.Time is stored as UTC with microseconds, on SQLite in
// OpenStack's text form (2006-01-02 15:04:05.000000); scan a DATETIME column into a *time.Time. An UPDATE counts the
// rows it matched, changed or not. Errors are the driver's own, for IsDuplicate.
type Tx struct {
	Dialect Dialect

	on       runner
	readOnly bool
	rows     []*sql.Rows // closed at the end
	lost     error       // the connection is lost; the server rolls back
	dead     error       // SQLite may have rolled back the whole transaction by itself

	batch *batchFacts  // of transactions that share one COMMIT; nil: it shares none
	late  func() int64 // of a Write on SQLite: the number of writer.late

	single, used bool  // of ReadOne: it permits one statement, and whether that has run
	excess       error // the function of ReadOne has tried to run a second one
}

// runner is what *sql.Tx and *sql.Conn have in common.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Exec runs a statement that returns no rows.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if tx.readOnly {
		return nil, fault.New(fault.Internal, "a Read transaction cannot run %q; use Write", query)
	}
	ctx, err := tx.ready(ctx)
	if err != nil {
		return nil, err
	}
	result, err := tx.on.ExecContext(ctx, tx.translate(query), tx.bind(args)...)
	return result, tx.recordFailure(err)
}

// Query runs a statement that returns rows. The caller closes them; open rows are closed with the transaction.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, err := tx.ready(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.on.QueryContext(ctx, tx.translate(query), tx.bind(args)...)
	if err != nil {
		return nil, tx.recordFailure(err)
	}
	tx.rows = append(tx.rows, rows)
	return rows, nil
}

// QueryRow runs a statement that returns at most one row; Scan of the result returns sql.ErrNoRows when there is none.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	ready, err := tx.ready(ctx)
	if err != nil { // only a context can put an error into a sql.Row
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		ready = cancelled
	}
	return tx.on.QueryRowContext(ready, tx.translate(query), tx.bind(args)...)
}

// Insert runs an INSERT of one row and returns the value of its column `id`.
func (tx *Tx) Insert(ctx context.Context, query string, args ...any) (int64, error) {
	if tx.Dialect == PostgreSQL {
		var id int64
		row := tx.QueryRow(ctx, query+" RETURNING id", args...)
		return id, tx.recordFailure(row.Scan(&id))
	}
	result, err := tx.Exec(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// InsertIgnore runs a statement that begins with `INSERT INTO` and skips rows whose unique key exists. It returns the
// number of rows inserted. On MySQL it also turns other refusals into warnings, so check values first. A row of
// another transaction that caused the skip may be invisible in this one's snapshot: see Retry.
func (tx *Tx) InsertIgnore(ctx context.Context, query string, args ...any) (int64, error) {
	const verb = "INSERT INTO"
	rest, ok := strings.CutPrefix(strings.TrimSpace(query), verb)
	if !ok {
		return 0, fault.New(fault.Internal, "the statement must begin with %s: %q", verb, query)
	}
	if tx.Dialect == MySQL {
		query = "INSERT IGNORE INTO" + rest
	} else {
		query = verb + rest + " ON CONFLICT DO NOTHING"
	}
	result, err := tx.Exec(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Upsert inserts a row, or updates the columns in values if a row has the same keys. keys must be a unique key of the
// table; args are the values of the columns in keys and then of those in values.
func (tx *Tx) Upsert(ctx context.Context, table string, keys, values []string, args ...any) error {
	columns := append(append([]string(nil), keys...), values...)
	var query strings.Builder
	query.WriteString("INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" +
		strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ") + ")")
	set := " ON CONFLICT (" + strings.Join(keys, ", ") + ") DO UPDATE SET "
	if tx.Dialect == MySQL {
		set = " ON DUPLICATE KEY UPDATE "
	}
	for _, column := range values {
		query.WriteString(set + column + " = ")
		if tx.Dialect == MySQL {
			query.WriteString("VALUES(" + column + ")")
		} else {
			query.WriteString("excluded." + column)
		}
		set = ", "
	}
	_, err := tx.Exec(ctx, query.String(), args...)
	return err
}

// SeeCommits lets each statement of a transaction see what others have committed before the statement; it must be
// called first. Without it, PostgreSQL shows the state at the first statement, and refuses to change a row that
// another transaction has changed since, so waiting for a row would be useless. On MySQL and SQLite it does nothing:
// MySQL reads the newest rows where it changes them, and SQLite has one writer at a time.
func (tx *Tx) SeeCommits(ctx context.Context) error {
	if tx.Dialect != PostgreSQL {
		return nil
	}
	_, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	return err
}

// ready returns the context for the next statement, or the error that ended the transaction.
//
// On SQLite's writing connection a cancelled statement would be interrupted, and SQLite would roll back the whole
// group commit. So there the context is only checked between statements.
func (tx *Tx) ready(ctx context.Context) (context.Context, error) {
	if tx.dead != nil {
		return nil, tx.dead
	}
	if err := tx.countStatement(); err != nil {
		return nil, err
	}
	if tx.Dialect != SQLite || tx.readOnly {
		return ctx, nil
	}
	return context.WithoutCancel(ctx), ctx.Err()
}

// recordFailure stores an error that ends the whole transaction, and returns err.
func (tx *Tx) recordFailure(err error) error {
	switch {
	case err == nil:
	case tx.Dialect == SQLite && rollsBackAll(err):
		tx.dead = err
	case tx.Dialect != SQLite && lost(err):
		tx.lost = err
	}
	return err
}

// finish closes rows that the function left open.
func (tx *Tx) finish() {
	for _, rows := range tx.rows {
		rows.Close()
	}
	tx.rows = nil
}

// bind converts arguments to values that every driver stores in the same form.
func (tx *Tx) bind(args []any) []any {
	bound := args
	for i, arg := range args {
		moment, ok := arg.(time.Time)
		if !ok {
			continue
		}
		if &bound[0] == &args[0] {
			bound = append([]any(nil), args...)
		}
		moment = moment.UTC().Truncate(time.Microsecond)
		if tx.Dialect == SQLite {
			bound[i] = moment.Format("2006-01-02 15:04:05.000000")
		} else {
			bound[i] = moment
		}
	}
	return bound
}

// translate returns a statement in the dialect: PostgreSQL numbers its placeholders.
func (tx *Tx) translate(query string) string {
	if tx.Dialect != PostgreSQL {
		return query
	}
	return numberPlaceholders(query)
}

// numberPlaceholders replaces each `?` outside quotes and comments by $1, $2, and so on.
func numberPlaceholders(query string) string {
	var out strings.Builder
	count := 0
	for i := 0; i < len(query); i++ {
		if end := quotedLen(query[i:]); end > 0 {
			out.WriteString(query[i : i+end])
			i += end - 1
			continue
		}
		if query[i] != '?' {
			out.WriteByte(query[i])
			continue
		}
		count++
		out.WriteString("$" + strconv.Itoa(count))
	}
	return out.String()
}

// quotedLen returns the length of the quoted text or comment at the start of s, or 0.
func quotedLen(s string) int {
	var end string
	switch {
	case s[0] == '\'' || s[0] == '"': // a doubled quote is two adjacent texts of the same total length
		end = s[:1]
	case strings.HasPrefix(s, "--"):
		end = "\n"
	case strings.HasPrefix(s, "/*"):
		end = "*/"
	default:
		return 0
	}
	start := 1
	if end == "*/" {
		start = 2
	}
	if at := strings.Index(s[start:], end); at >= 0 {
		return start + at + len(end)
	}
	return len(s)
}
