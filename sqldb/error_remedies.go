package sqldb

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/openberth/berth/fault"
)

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

// remedy returns what to do about an error that another attempt does not solve, or "".
func remedy(err error) string {
	_, file := errors.AsType[*sqlite.Error](err)
	switch causeOf(err) {
	case noRights:
		return rights
	case diskFull:
		return room
	case readOnly:
		if file {
			return "give Berth's user the right to write the database's file and its directory"
		}
		return "the database server is read-only now; make it writable, or connect Berth to a writable one"
	case damaged:
		return "the database's file is damaged or not a SQLite file: restore it from a backup, or use another file"
	case diskFails:
		return "check the disk of the database's file, and its free space"
	}
	return ""
}

// withRemedy returns err with what to do about it, if remedy returns that. The result wraps err.
func withRemedy(err error) error {
	if isUnspeakable(err) { // Msg alone is the text: the driver's is not for clients
		return &fault.Error{Kind: fault.Invalid, Err: err, Msg: "a text contains a character that this database " +
			"cannot store, such as an emoji; leave it out, or store texts as utf8mb4"}
	}
	what := remedy(err)
	if what == "" || IsUnknown(err) {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Msg: fault.TextOf(err) + "; " + what, Err: err}
}

const (
	rights = "grant the user of the connection's URL all rights on the database: Berth reads and writes rows, and " +
		"creates missing tables"
	room = "free space on the database's disk"
)

// openError returns the fault for a database that could not be opened, with what to check.
func (a address) openError(err error) error {
	what := remedy(err)
	switch {
	case isBusy(err):
		return findHolder(a.database).locked(a.database, err)
	case a.dialect == SQLite && what != "":
		return fault.New(fault.Unavailable, "%s cannot be opened: %w; %s", a.place(), err, what)
	case a.dialect == SQLite:
		return fault.New(fault.Unavailable, "%s cannot be opened: %w; check that its directory "+
			"exists and that Berth's user may write in it", a.place(), err)
	case answered(err):
		return fault.New(fault.Unavailable, "%s rejects the connection: %w; check user, password and "+
			"database in the connection's URL, and the rights of that user", a.place(), err)
	}
	return fault.New(fault.Unavailable, "%s does not answer: %w; check that it runs, and host and "+
		"port in the connection's URL", a.place(), err)
}
