package sqldb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// TestStalledServer runs the tests with a server that stalls, on both servers.
func TestStalledServer(t *testing.T) {
	maria, postgres := databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)
	for begin, server := range map[string]*databases.Server{"START": maria, "BEGIN": postgres} {
		t.Run("writes/"+server.Name(), func(t *testing.T) { stalledWrites(t, server, begin) })
		t.Run("reads/"+server.Name(), func(t *testing.T) { stalledReads(t, server, begin) })
	}
	t.Run("limits", func(t *testing.T) { connectionLimits(t, maria, postgres) })
}

// stalledWrites stalls the server at each statement of a transaction, which ends at the deadline of its context. The
// outcome is unknown only for COMMIT; a failed ROLLBACK has no effect. No lock is left, and no row is written twice
// when the server continues.
func stalledWrites(t *testing.T, server *databases.Server, begin string) {
	url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
	db, direct := open(t, proxy.URL(url)), open(t, url)
	refused := errors.New("refused")
	for i, c := range []struct {
		word    string
		ends    error // of the function
		unknown bool
	}{{begin, nil, false}, {"THING #", nil, false}, {"COMMIT", nil, true}, {"ROLLBACK", refused, false}} {
		name := fmt.Sprint("thing ", i)
		ctx, cancel := timeUpTo(t, c.word)
		proxy.Break(databases.Cut{Word: strings.ReplaceAll(c.word, "THING #", name), Stall: true, Do: cancel})
		err := db.Write(ctx, func(tx *Tx) error { return errors.Join(insert(ctx, tx, name, 1), c.ends) })
		proxy.Repair()
		switch {
		case IsUnknown(err) != c.unknown:
			t.Errorf("%s: %v", c.word, err)
		case c.ends != nil:
			if !errors.Is(err, c.ends) {
				t.Errorf("%s: %v", c.word, err)
			}
		case !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.DeadlineExceeded) || !c.unknown &&
			!strings.Contains(err.Error(), "time is up"):
			t.Errorf("%s: %v", c.word, err)
		}
		must(t, direct.Write(t.Context(), insertRow(name))) // the same row: it is not locked
	}
	wantNames(t, db, "thing 0", "thing 1", "thing 2", "thing 3")
}

// timeUpTo returns a context for a transaction that stalls at a statement, and what ends its time there. COMMIT and
// ROLLBACK end only with the deadline of the context: it is long enough for the statements before on a busy machine.
func timeUpTo(t *testing.T, word string) (context.Context, func()) {
	t.Helper()
	timeIsUp := fmt.Errorf("time is up: %w", context.DeadlineExceeded)
	if word == "COMMIT" || word == "ROLLBACK" {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, timeIsUp)
		t.Cleanup(cancel)
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(timeIsUp) }
}

// stalledReads stalls the server at each statement of a Read, which ends at the deadline of its context.
func stalledReads(t *testing.T, server *databases.Server, begin string) {
	url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
	db := open(t, proxy.URL(url))
	for _, at := range []string{begin, "COUNT", "ROLLBACK"} {
		ctx, end := timeUpTo(t, at)
		proxy.Break(databases.Cut{Word: at, Stall: true, Do: end})
		err := db.Read(ctx, func(tx *Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM thing WHERE n > ?", 0).Scan(new(int))
		})
		if (err == nil) != (at == "ROLLBACK") || err != nil && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", at, err)
		}
		proxy.Repair()
	}
	must(t, db.Write(t.Context(), insertRow("a")))
}

// TestStalledSQLiteWriteEndsAtDeadline checks that a write does not wait longer than its deadline for its turn, nor for
// the COMMIT of its batch.
func TestStalledSQLiteWriteEndsAtDeadline(t *testing.T) {
	db := open(t, fileURL(t))
	inside, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- db.Write(context.Background(), func(tx *Tx) error {
			close(inside)
			<-release
			return insertRow("first")(tx)
		})
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := db.Write(ctx, insertRow("never")); !fault.Is(err, fault.Unavailable) || IsUnknown(err) || !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("waiting for its turn: %v", err)
	}
	close(release)
	must(t, <-first)

	w := idleWriter(db)                                           // only this test serves its writes
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second) // the turn is given before
	defer cancel()
	go func() {
		j := <-w.writes
		j.turn <- turn{tx: &Tx{Dialect: SQLite}}
		<-j.back // the COMMIT never ends
	}()
	if err := w.write(ctx, func(*Tx) error { return nil }); !IsUnknown(err) || fault.CodeOf(err) != CodeUnknown {
		t.Errorf("waiting for COMMIT: %v", err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.write(ctx, func(*Tx) error { t.Error("it ran"); return nil }); !fault.Is(err, fault.Unavailable) ||
		IsUnknown(err) {
		t.Errorf("without a turn: %v", err)
	}
	j := <-w.writes
	j.turn <- turn{tx: &Tx{Dialect: SQLite}}
	if err := <-j.back; !errors.Is(err, errExited) {
		t.Errorf("the turn was returned with %v, want errExited", err)
	}
}

// TestMemoryDatabaseSurvivesTimeouts checks that a database in memory keeps its one connection, and so its content,
// when a transaction exceeds its deadline.
func TestMemoryDatabaseSurvivesTimeouts(t *testing.T) {
	db := open(t, "sqlite://")
	must(t, db.Write(t.Context(), insertRow("a")))
	for _, run := range []func(context.Context, func(*Tx) error) error{db.Read, db.Write} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := run(ctx, func(tx *Tx) error {
			<-ctx.Done()
			return tx.QueryRow(ctx, "SELECT 1").Scan(new(int))
		})
		if !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.DeadlineExceeded) || IsUnknown(err) {
			t.Errorf("%v", err)
		}
		cancel()
	}
	wantNames(t, db, "a")
}
