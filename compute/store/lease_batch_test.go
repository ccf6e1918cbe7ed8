package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// TestTakeoverWithinABatch checks that writes which share a COMMIT of SQLite are fenced each by itself, although they
// read the owner of the lease together: those before an acquisition in the same batch succeed, and those after it fail.
func TestTakeoverWithinABatch(t *testing.T) {
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = store.Open(t.Context(), db)
	must(t, err)
	first, second := &lease.Database{DB: db}, &lease.Database{DB: db}
	_, err = first.Hold(t.Context(), owner("first"), shortOptions())
	must(t, err)
	begun, finish := make(chan struct{}), make(chan struct{})
	results := make([]chan error, 5)
	run := func(i int, do func() error) {
		results[i] = make(chan error, 1)
		go func() { results[i] <- do() }()
	}
	write := func() error { return first.Write(t.Context(), func(*sqldb.Tx) error { return nil }) }
	run(0, func() error {
		return first.Write(t.Context(), func(*sqldb.Tx) error {
			close(begun)
			<-finish
			return nil
		})
	})
	<-begun
	run(1, write)
	taken, asked := make(chan struct{}), make(chan struct{})
	terms := shortOptions()
	terms.Dead = func(lease.Owner) bool { close(asked); return true }
	time.Sleep(50 * time.Millisecond) // the writes wait in this order
	run(2, func() error {
		defer close(taken)
		_, err := second.Hold(t.Context(), owner("second"), terms)
		return err
	})
	<-asked
	time.Sleep(500 * time.Millisecond) // now the acquisition waits, too
	run(3, write)
	run(4, write)
	time.Sleep(50 * time.Millisecond)
	close(finish)
	<-taken
	for i, failed := range []bool{false, false, false, true, true} {
		if err := <-results[i]; fault.Is(err, fault.Unavailable) != failed || !failed && err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
}
