package sqldb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// TestLostConnection breaks the connection at each statement of a transaction. Before COMMIT the transaction is
// repeated and takes effect once; at COMMIT it is not repeated, and the error reports an unknown outcome.
func TestLostConnection(t *testing.T) {
	for _, server := range []*databases.Server{databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)} {
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
