package sqldb

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/openberth/berth/fault"
)

// writeCheckTime is the time limit for the write of a WriteCheck.
const writeCheckTime = 30 * time.Second

// WriteCheck checks whether a database accepts writes, by a write that changes nothing (Tx.Touch). At most one is
// running: where writes block, as under MariaDB's FLUSH TABLES WITH READ LOCK, each abandoned one would leave a
// waiting connection in the server.
type WriteCheck struct {
	write func(context.Context) error

	mu       sync.Mutex
	underway chan error // the result of the running write; nil: none is running
}

// NewWriteCheck returns a check that calls write, which must write to the database and return its error.
func NewWriteCheck(write func(context.Context) error) *WriteCheck { return &WriteCheck{write: write} }

// Check returns nil if a write has succeeded. Otherwise it returns a fault Unavailable whose text completes "the
// database takes no writes:" and contains no address, path or user. It waits at most for patience; a write that takes
// longer continues, and the next call waits for it.
func (c *WriteCheck) Check(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway == nil {
		ended := make(chan error, 1)
		c.underway = ended
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), writeCheckTime)
			defer cancel()
			ended <- c.write(ctx)
		}()
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case err := <-c.underway:
		c.underway = nil
		if err == nil {
			return nil
		}
		return &fault.Error{Kind: fault.Unavailable, Op: "sqldb.WriteCheck", Msg: whyNoWrite(err), Err: err}
	case <-wait.C:
		return fault.New(fault.Unavailable, "sqldb.WriteCheck", "none ends in time; the database is stalled, "+
			"or a lock blocks all writes")
	}
}

// whyNoWrite returns the cause of a failed write as a text that any client may read.
func whyNoWrite(err error) string {
	switch causeOf(err) {
	case diskFull:
		return "its disk is full"
	case readOnly:
		return "it is read-only"
	case noRights:
		return "Berth's user has no rights to write"
	case damaged:
		return "its file is damaged"
	case diskFails:
		return "its disk fails"
	}
	if IsRetryable(err) {
		return "another client holds a lock"
	}
	return "they fail; the log has the reason"
}

// cause is what prevents writes until an operator removes it.
type cause int

const (
	otherCause cause = iota
	diskFull
	readOnly
	noRights
	damaged
	diskFails
)

// causeOf returns the cause of an error that another attempt does not solve.
func causeOf(err error) cause {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		// ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR,
		// ER_SPECIFIC_ACCESS_DENIED_ERROR
		case 1044, 1142, 1143, 1227:
			return noRights
		// ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
		case 1290, 1836, 1792:
			return readOnly
		case 1021, 1041, 1114: // ER_DISK_FULL, ER_OUT_OF_RESOURCES, ER_RECORD_FILE_FULL
			return diskFull
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "42501": // insufficient_privilege
			return noRights
		case "25006": // read_only_sql_transaction
			return readOnly
		case "53100": // disk_full
			return diskFull
		}
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return otherCause
	}
	switch code := e.Code() & 0xff; {
	case code == sqlite3.SQLITE_FULL:
		return diskFull
	case code == sqlite3.SQLITE_READONLY, code == sqlite3.SQLITE_PERM:
		return readOnly
	case slices.Contains([]int{sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}, code):
		return damaged
	case code == sqlite3.SQLITE_IOERR:
		return diskFails
	}
	return otherCause
}

// Touch writes to every row of a small table and restores the rows, so that its transaction fails if no other can
// write. column holds short texts with room for one more character. SQLite and MariaDB write nothing for an UPDATE
// without a change, so Touch changes the rows and changes them back.
func (tx *Tx) Touch(ctx context.Context, table, column string) error {
	statements := []string{"UPDATE " + table + " SET " + column + " = CONCAT(" + column + ", '+')",
		"UPDATE " + table + " SET " + column + " = SUBSTR(" + column + ", 1, LENGTH(" + column + ") - 1)"}
	if tx.Dialect == PostgreSQL {
		statements = []string{"UPDATE " + table + " SET " + column + " = " + column}
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
