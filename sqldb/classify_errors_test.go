package sqldb

import (
	"context"
	"database/sql/driver"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openberth/berth/internal/databases"
)

// TestErrorsAreClassified checks the meaning of errors of COMMIT and of statements that no test here can cause.
func TestErrorsAreClassified(t *testing.T) {
	maria := func(number uint16) error { return &mysql.MySQLError{Number: number} }
	postgres := func(code string) error { return &pgconn.PgError{Code: code} }
	for _, c := range []struct {
		err            error
		again, unknown bool // at COMMIT
		lost           bool // before it
	}{
		{maria(1213), true, false, false},         // deadlock; a lost certification on Galera, also at COMMIT
		{maria(1180), false, true, false},         // the node lost its cluster while it committed
		{maria(1317), false, true, false},         // KILL QUERY
		{maria(1969), false, true, false},         // max_statement_time
		{maria(1047), false, true, true},          // and then rejects all statements
		{maria(1053), false, true, true},          // shutdown
		{maria(1062), false, false, false},        // a certain failure
		{postgres("40001"), true, false, false},   // serialisation failure, also at COMMIT
		{postgres("57P01"), false, true, true},    // terminated by the administrator
		{postgres("25P03"), true, false, true},    // idle_in_transaction_session_timeout: it was not executed
		{postgres("25P04"), true, false, true},    // transaction_timeout
		{postgres("57P05"), true, false, true},    // idle_session_timeout
		{postgres("23505"), false, false, false},  // a deferred constraint
		{mysql.ErrInvalidConn, false, true, true}, // no answer
		{pgconn.ErrConnClosed, false, true, true}, // pgx, after no answer
		{context.Canceled, false, true, false},
		{mysql.ErrMalformPkt, false, true, false},
		{pgx.ErrTxCommitRollback, false, false, false},                        // the server answered ROLLBACK
		{&net.OpError{Op: "read", Err: syscall.ETIMEDOUT}, false, true, true}, // TCP_USER_TIMEOUT
		// no answer for longer than a read may take
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false, true, true},
		{&net.OpError{Op: "write", Err: syscall.EHOSTUNREACH}, false, true, true}, // some bytes may be sent
		{driver.ErrBadConn, true, false, true},                                    // by its contract: COMMIT was not sent
	} {
		err := commitError(c.err)
		if isRepeatable(err) != c.again || IsUnknown(err) != c.unknown || lost(c.err) != c.lost {
			t.Errorf("%v: again %t, unknown %t, lost %t", c.err, isRepeatable(err), IsUnknown(err), lost(c.err))
		}
	}
}

// IsSyntaxError distinguishes a statement that a server does not understand from one that it refuses.
func TestSyntaxErrors(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		db := open(t, fresh(t))
		for statement, want := range map[string]bool{"SELECT n FROM thing FOR LATER": true,
			"SELECT absent FROM thing": false, "SELECT n FROM absent": false} {
			err := db.Read(t.Context(), func(tx *Tx) error {
				rows, err := tx.Query(t.Context(), statement)
				if err == nil {
					rows.Close()
				}
				return err
			})
			if err == nil || IsSyntaxError(err) != want {
				t.Errorf("%s: syntax error %t, want %t: %v", statement, !want, want, err)
			}
		}
	})
}

// A table that exists, and on PostgreSQL also the type of its rows alone, as while another process creates the table.
func TestExistingTables(t *testing.T) {
	create := func(t *testing.T, url string, statements ...string) (err error) {
		db := open(t, url)
		for _, statement := range statements {
			err = db.Write(t.Context(), func(tx *Tx) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
		}
		return err
	}
	const table = "CREATE TABLE made (n INTEGER NOT NULL PRIMARY KEY)"
	for _, server := range []*databases.Server{databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)} {
		if err := create(t, server.Database(t), table, table); !IsExisting(err) {
			t.Errorf("a table that exists: %v", err)
		}
	}
	url := databases.SharedPostgreSQL(t).Database(t)
	if err := create(t, url, "CREATE TYPE made AS ENUM ('a')", table); !IsExisting(err) {
		t.Errorf("the type of the rows exists: %v", err)
	}
}
