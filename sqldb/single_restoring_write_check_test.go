package sqldb

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
)

// TestTouchWritesAndRestoresRows checks that Touch writes, and that the rows are unchanged, also with concurrent calls.
func TestTouchWritesAndRestoresRows(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url := fresh(t)
		db, ctx := open(t, url), t.Context()
		must(t, db.Write(ctx, insertRow("a")))
		must(t, db.Write(ctx, insertRow("b c")))
		touch := func(tx *Tx) error { return tx.Touch(ctx, "thing", "name") }
		written := func() int64 { return 0 }
		if db.Dialect == SQLite {
			written = func() int64 {
				info, err := os.Stat(strings.TrimPrefix(url, "sqlite:///") + "-wal")
				must(t, err)
				return info.Size()
			}
		}
		before := written()
		must(t, db.Write(ctx, touch))
		if db.Dialect == SQLite && written() == before {
			t.Error("nothing was written")
		}
		ended := make(chan error)
		const writers = 8
		for range writers {
			go func() {
				var err error
				for range 10 {
					err = errors.Join(err, db.Write(ctx, touch))
				}
				ended <- err
			}()
		}
		for range writers {
			must(t, <-ended)
		}
		wantNames(t, db, "a", "b c")
		for _, statement := range map[Dialect][]string{
			SQLite:     {"PRAGMA query_only = 1"},
			MySQL:      {"SET SESSION TRANSACTION READ ONLY"},
			PostgreSQL: {"SET default_transaction_read_only = on"},
		}[db.Dialect] {
			pool := db.pool
			if db.writer != nil {
				pool = db.writer.pool
			}
			pool.SetMaxOpenConns(1)
			_, err := pool.ExecContext(ctx, statement)
			must(t, err)
		}
		if err := db.Write(ctx, touch); causeOf(err) != readOnly {
			t.Errorf("on a read-only database: %v", err)
		}
	})
}

// TestWriteCheckRunsOneWriteAtATime checks that Check returns within its time limit, and that a later call returns the
// result of the same write.
func TestWriteCheckRunsOneWriteAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int32
		end := make(chan error)
		c := NewWriteCheck(func(ctx context.Context) error {
			began.Add(1)
			select {
			case err := <-end:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		wantText := func(want string) {
			t.Helper()
			if err := c.Check(2 * time.Second); !fault.Is(err, fault.Unavailable) ||
				!strings.Contains(fault.TextOf(err), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		for range 3 {
			wantText("none ends in time")
		}
		if n := began.Load(); n != 1 {
			t.Errorf("%d writes were begun, want 1", n)
		}
		go func() { end <- nil }()
		if err := c.Check(2 * time.Second); err != nil {
			t.Errorf("%v", err)
		}
		go func() { end <- errors.New("10.1.2.3 failed") }()
		wantText("the log has the reason")
		if err := c.Check(2 * time.Second); strings.Contains(err.Error(), "10.1.2.3") {
			t.Errorf("%v", err)
		}
		time.Sleep(writeCheckTime)
		wantText("the log has the reason") // its write was cancelled
		go func() { end <- nil }()
		if err := c.Check(2 * time.Second); err != nil {
			t.Errorf("%v", err)
		}
	})
}
