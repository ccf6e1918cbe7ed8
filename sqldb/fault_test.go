package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// TestLostConnection breaks the connection at each statement of a transaction. Before COMMIT the transaction is
// repeated and takes effect once; at COMMIT it is not repeated, and the error reports an unknown outcome.
func TestLostConnection(t *testing.T) {
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) {
			url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
			db := open(t, proxy.URL(url))
			ctx := t.Context()
			runs := 0
			write := func(name string) error {
				runs = 0
				return db.Write(ctx, func(tx *Tx) error {
					runs++
					if err := insert(ctx, tx, name, 1); err != nil {
						return err
					}
					rows, err := tx.Query(ctx, "SELECT n FROM thing WHERE name <> ?", name+"!")
					if err != nil {
						return err
					}
					defer rows.Close()
					for rows.Next() {
					}
					return rows.Err()
				})
			}
			for i, c := range []struct {
				word        string
				sent, known bool
				runs        int
			}{
				{"START", false, true, 1}, {"START", true, true, 1}, {"THING #", false, true, 2}, {"THING #", true, true, 2},
				{"THING #!", false, true, 2}, {"THING #!", true, true, 2}, {"COMMIT", false, false, 1}, {"COMMIT", true, false, 1},
			} {
				word := c.word
				if db.Dialect == PostgreSQL && word == "START" {
					word = "BEGIN"
				}
				name, before := fmt.Sprint("thing ", i), proxy.Broken()
				// the argument, because a prepared statement is not sent again
				word = strings.ReplaceAll(word, "THING #", name)
				proxy.Break(databases.Cut{Word: word, LoseResponse: c.sent})
				err := write(name)
				if proxy.Broken() != before+1 {
					t.Fatalf("%s: nothing was broken", word)
				}
				if c.known != (err == nil) || c.known == IsUnknown(err) || runs != c.runs {
					t.Errorf("%s, sent %t: %d runs, %v", word, c.sent, runs, err)
				}
				if !c.known && (!fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), "unknown "+
					"whether the change was kept")) {
					t.Errorf("%s: %v", word, err)
				}
				count := len(strings.Fields(strings.Join(names(t, db), " "))) // two words each
				want := 2
				if word == "COMMIT" && !c.sent {
					want = 0
				}
				if count != want {
					t.Errorf("%s, sent %t: rows %q", word, c.sent, names(t, db))
				}
				must(t, db.Write(ctx, func(tx *Tx) error { _, err := tx.Exec(ctx, "DELETE FROM thing"); return err }))
			}
		})
	}
}

// TestWriteAfterServerRestart restarts the server, so that all pooled connections are dead: a write with one attempt
// succeeds on a new connection.
func TestWriteAfterServerRestart(t *testing.T) {
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) {
			db, ctx := open(t, server.Database(t)), t.Context()
			allRead := make(chan struct{})
			errs := make(chan error)
			for range idleConns { // the pool keeps this number of connections
				go func() { errs <- db.Read(ctx, func(*Tx) error { <-allRead; return nil }) }()
			}
			for db.pool.Stats().InUse < idleConns {
				time.Sleep(time.Millisecond)
			}
			close(allRead)
			for range idleConns {
				must(t, <-errs)
			}
			server.Kill(t)
			err := db.WriteUpTo(ctx, 1, insertRow("while it is down"))
			if !fault.Is(err, fault.Unavailable) || IsUnknown(err) {
				t.Errorf("while it is down: %v", err)
			}
			server.Restart(t)
			must(t, db.WriteUpTo(ctx, 1, insertRow("a")))
			wantNames(t, db, "a")
		})
	}
}

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

// TestBeginCanBeCancelled cancels a transaction whose BEGIN is not answered.
func TestBeginCanBeCancelled(t *testing.T) {
	for word, server := range map[string]*databases.Server{"START TRANSACTION": databases.MariaDB(t),
		"BEGIN": databases.PostgreSQL(t)} {
		url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
		db := open(t, proxy.URL(url))
		proxy.Break(databases.Cut{Word: word, Stall: true})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := db.Read(ctx, func(*Tx) error { t.Error("it ran"); return nil })
		cancel()
		if !fault.Is(err, fault.Unavailable) || IsUnknown(err) || proxy.Broken() != 1 {
			t.Errorf("%s: %d stalled: %v", server.Name(), proxy.Broken(), err)
		}
		must(t, db.Write(t.Context(), insertRow("a")))
	}
}

// TestErrorsOfBegin checks the errors of a Galera node at BEGIN: each has a kind and an explanation.
func TestErrorsOfBegin(t *testing.T) {
	for _, c := range []struct {
		number uint16
		took   time.Duration
		again  bool
		text   string
	}{
		{1047, 0, true, "its node has left the cluster"},
		{1205, 0, true, "its node has left the cluster"}, // while the cluster changes
		{1205, time.Minute, false, "has not caught up with the others"},
		{1045, 0, false, "Error 1045"}, // access denied
		{1047, time.Minute, false, "has not answered for 1m0s"},
	} {
		err := beginError(&mysql.MySQLError{Number: c.number}, c.took)
		if !fault.Is(err, fault.Unavailable) || IsUnknown(err) || isRepeatable(err) != c.again ||
			!strings.Contains(fault.TextOf(err), c.text) {
			t.Errorf("%d after %v: again %t: %v", c.number, c.took, isRepeatable(err), err)
		}
	}
}

// TestDataVersionChangesWithOtherWriters checks that the number changes with the writes of other connections only.
func TestDataVersionChangesWithOtherWriters(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	number := func() int64 {
		n, ok, err := db.DataVersion(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return n
	}
	first := number()
	must(t, db.Write(t.Context(), insertRow("mine")))
	wantNames(t, db, "mine")
	wantNames(t, other, "mine")
	if n := number(); n != first {
		t.Errorf("the version is %d after an own write, before it %d", n, first)
	}
	must(t, other.Write(t.Context(), insertRow("theirs")))
	second := number()
	if second == first {
		t.Errorf("the version is still %d after a write of another", second)
	}
	if n := number(); n != second {
		t.Errorf("the version is %d without a write, before it %d", n, second)
	}
	db = open(t, databases.MariaDB(t).Database(t))
	if _, ok, err := db.DataVersion(t.Context()); ok || err != nil {
		t.Error(ok, err)
	}
}
