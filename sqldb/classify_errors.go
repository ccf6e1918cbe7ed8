package sqldb

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/openberth/berth/fault"
)

// retry requests another attempt: the changes of this one were rolled back.
type retry struct{ err error }

func (r *retry) Error() string { return r.err.Error() }
func (r *retry) Unwrap() error { return r.err }

// unknown is the error of a COMMIT with an unknown outcome: it must not be repeated without checking.
type unknown struct{ err error }

func (u *unknown) Error() string { return u.err.Error() }
func (u *unknown) Unwrap() error { return u.err }

// CodeUnknown is the code of the fault Unavailable for an unknown outcome; see IsUnknown.
const CodeUnknown = "berth.unknown_outcome"

// IsUnknown reports whether err is that of a COMMIT with an unknown outcome: it may be committed, be committed later,
// or be rolled back.
func IsUnknown(err error) bool {
	_, ok := errors.AsType[*unknown](err)
	return ok
}

// Retry makes Write run the function again, within its usual limit; when the limit is reached, Write returns err. A
// function uses it after a conflict that it will see in a new transaction, such as IsDuplicate for a row that it did
// not find.
func Retry(err error) error {
	if err == nil {
		return nil
	}
	return &retry{err}
}

// IsDuplicate reports whether err means that a row with the same unique key exists.
func IsDuplicate(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1062 || e.Number == 1586 // ER_DUP_ENTRY, ER_DUP_ENTRY_WITH_KEY_NAME
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505" // unique_violation
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return slices.Contains([]int{sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
			sqlite3.SQLITE_CONSTRAINT_ROWID}, e.Code())
	}
	return false
}

// maxForeignKeyAttempts is the number of attempts of a transaction that fails because of a foreign key. A failure
// because of a concurrent change does not occur again.
const maxForeignKeyAttempts = 3

// isForeignKeyError reports whether a statement failed because of a foreign key.
func isForeignKeyError(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1451 || e.Number == 1452 // ER_ROW_IS_REFERENCED_2, ER_NO_REFERENCED_ROW_2
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23503" // foreign_key_violation
}

// IsRetryable reports whether the database aborted the transaction for a temporary reason: a deadlock, a
// serialisation failure (on Galera a failed certification), a lock not granted in time, or a busy file; or a foreign
// key refused it, because another transaction changed the referenced row at the same moment.
func IsRetryable(err error) bool {
	if IsUnknown(err) {
		return false
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_CHECKREAD (MariaDB's innodb_snapshot_isolation)
		return e.Number == 1213 || e.Number == 1205 || e.Number == 1020 || isForeignKeyError(err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// serialization_failure, deadlock_detected, lock_not_available
		return e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03" || isForeignKeyError(err)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		primary := e.Code() & 0xff // the extended code is in the higher bytes
		return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
	}
	return false
}

// isRepeatable reports whether an attempt that ended with err may be repeated.
func isRepeatable(err error) bool {
	if IsUnknown(err) {
		return false
	}
	if _, ok := errors.AsType[*retry](err); ok {
		return true
	}
	return IsRetryable(err)
}

// rollsBackAll reports whether SQLite may have rolled back the whole transaction by itself, not only the
// statement (https://www.sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction").
func rollsBackAll(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains([]int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT}, e.Code()&0xff)
}

// lost reports whether err, which must come from the driver, means that the connection is gone.
//
// pgx returns "conn closed" even if the server may have received the statement, COMMIT included, and calls it safe to
// retry (v5.12, Exec by the simple protocol). So pgconn.SafeToRetry is not used.
func lost(err error) bool {
	for _, sign := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, pgconn.ErrConnClosed, io.EOF,
		io.ErrUnexpectedEOF,
		net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, os.ErrDeadlineExceeded} {
		if errors.Is(err, sign) {
			return true
		}
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED, ER_UNKNOWN_COM_ERROR (a Galera node that left its cluster)
		return e.Number == 1053 || e.Number == 1927 || e.Number == 1047
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "57P01" || e.Code == "57P02") || endedIdle(err) // admin_shutdown, crash_shutdown
}

// endedIdle reports whether PostgreSQL has ended the session because of a timeout while it waited for a statement. So
// it has not executed the statement that gets this answer, and has rolled the transaction back.
func endedIdle(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	// idle_in_transaction_session_timeout, transaction_timeout, idle_session_timeout
	return ok && (e.Code == "25P03" || e.Code == "25P04" || e.Code == "57P05")
}

// answered reports whether err is a message of the server: it is running.
func answered(err error) bool {
	_, mine := errors.AsType[*mysql.MySQLError](err)
	_, pg := errors.AsType[*pgconn.PgError](err)
	return mine || pg
}

// notCaughtUp reports whether a BEGIN stopped waiting for the commits of other nodes: it waits for no other lock.
func notCaughtUp(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1205 // ER_LOCK_WAIT_TIMEOUT
}

// unknownVariable reports whether a server does not have a variable that was to be set.
func unknownVariable(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1193 // ER_UNKNOWN_SYSTEM_VARIABLE
}

// IsSyntaxError reports whether the server does not understand a statement, for example because it is too old.
func IsSyntaxError(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1064 // ER_PARSE_ERROR
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "42601" // syntax_error
	}
	e, ok := errors.AsType[*sqlite.Error](err) // which has no code of its own for this
	return ok && e.Code() == sqlite3.SQLITE_ERROR && strings.Contains(e.Error(), "syntax error")
}

// IsExisting reports whether err means that a table to be created exists. On PostgreSQL two concurrent creations may
// cause IsDuplicate instead, or the error that the type of the rows of the table exists.
func IsExisting(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1050 // ER_TABLE_EXISTS_ERROR
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "42P07" || e.Code == "42710") // duplicate_table, duplicate_object
}

// refusedCommit reports whether err means that the server has rolled the transaction back instead of committing it.
func refusedCommit(err error) bool {
	return errors.Is(err, pgx.ErrTxCommitRollback) || answered(err) && !lost(err) && !isInterruptedCommit(err)
}

// isInterruptedCommit reports whether a COMMIT was interrupted at an unknown point: because a Galera node lost its
// cluster, by KILL or by a statement timeout.
func isInterruptedCommit(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	// ER_ERROR_DURING_COMMIT, ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT
	return ok && (e.Number == 1180 || e.Number == 1317 || e.Number == 1969)
}

// unavailable returns the fault for a server that was lost before COMMIT: nothing was changed.
func unavailable(err error) error {
	return fault.New(fault.Unavailable, "the database does not answer, or its node has left the cluster; "+
		"nothing was changed, try again later: %w", err)
}

// commitError returns an error of COMMIT with a kind. A COMMIT that was not sent may be repeated. A refusal by the
// server is certain and keeps its cause. Any other error, such as a timeout of TCP, leaves the outcome unknown.
func commitError(err error) error {
	switch {
	case errors.Is(err, driver.ErrBadConn):
		return &retry{fault.Wrap(fault.Unavailable, err)}
	case endedIdle(err):
		return &retry{unavailable(err)}
	case refusedCommit(err):
		return fault.Wrap(fault.Unavailable, err)
	}
	return unknownOutcome("the connection broke during COMMIT", err)
}

// unknownOutcome returns the error of a COMMIT that may or may not have been executed.
func unknownOutcome(what string, err error) error {
	return &unknown{fault.New(fault.Unavailable,
		"%s, it is unknown whether the change was kept; read before repeating: %w", what, err).WithCode(CodeUnknown)}
}

// isUnspeakable reports whether a value of a statement is a text that the database cannot store or compare: NUL on
// PostgreSQL, and characters beyond the first 65,536 in MariaDB's and MySQL's tables of the character set utf8mb3.
func isUnspeakable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_CANT_AGGREGATE_2COLLATIONS and its variants for more operands,
		// MySQL's ER_CANNOT_CONVERT_STRING
		return e.Number == 1366 || e.Number == 1267 || e.Number == 1270 || e.Number == 1271 || e.Number == 3988
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "22021" || e.Code == "22P05") // character_not_in_repertoire, untranslatable_character
}

// longBegin is the time after which a BEGIN that failed is not repeated.
const longBegin = 5 * time.Second

// beginError returns an error of BEGIN with a kind. Nothing has happened yet, so BEGIN may be repeated after a lost
// connection. The same is true if a node stopped waiting for its cluster early, as when the cluster changes; but
// after a long wait it is not repeated.
func beginError(err error, took time.Duration) error {
	if lost(err) && took > longBegin { // the server may have stalled
		return fault.New(fault.Unavailable, "the database has not answered for %s; nothing was changed, "+
			"try again later: %v",
			took.Round(time.Second), err)
	}
	if notCaughtUp(err) && took > longBegin { // without its cause, so that it is not repeated
		return fault.New(fault.Unavailable,
			"this node of the database cluster has not caught up with the others in time, try again later: %v", err)
	}
	if lost(err) || notCaughtUp(err) {
		return &retry{unavailable(err)}
	}
	return fault.Wrap(fault.Unavailable, err)
}
