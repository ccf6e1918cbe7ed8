package liveindex

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// A failed refresh remains pending, and CatchUp repeats it.
func TestFailedRefreshIsRepeated(t *testing.T) {
	w := newWorldOn(t, databases.SQLite(t))
	host, _ := w.createHost("host")
	w.Index.store = nil // a refresh panics
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		t.Errorf("a refresh without a store returned: %v", w.Refresh(t.Context(), host))
	}()
	w.Index.store = w.store
	w.snapshot.Store(index.Build(nil))
	if !w.isBehind() {
		t.Fatal("no refresh is pending")
	}
	if s, err := w.CatchUp(t.Context()); err != nil || s.Providers() != 2 {
		t.Errorf("the old snapshot: %v %v", s, err)
	}
	if w.isBehind() {
		t.Error("a refresh is still pending")
	}
	w.compare()
}

// slowStore is a store whose trees are read slowly.
type slowStore struct {
	Store
	reading, read chan struct{}
}

func (s slowStore) TreeRows(ctx context.Context, roots ...provider.ID) ([]store.Row, error) {
	rows, err := s.Store.TreeRows(ctx, roots...)
	s.reading <- struct{}{}
	<-s.read
	return rows, err
}

// A client may have read a write of this server from the database while the index still reads it: then its next query
// waits for the index. It does not wait for those of other processes.
func TestCatchUpWaitsForTheRefreshThatRuns(t *testing.T) {
	for _, own := range []bool{true, false} {
		w := newWorldOn(t, databases.SQLite(t))
		host, _ := w.createHost("host")
		slow := slowStore{w.store, make(chan struct{}), make(chan struct{})}
		w.Index.store = slow
		refresh := map[bool]func(context.Context, ...provider.ID) error{true: w.Refresh, false: w.RefreshForeign}[own]
		_, err := w.store.ReplaceInventories(t.Context(), host, 1, nil)
		must(t, err)
		refreshed, caughtUp := make(chan error, 1), make(chan int, 1)
		go func() { refreshed <- refresh(t.Context(), host) }()
		<-slow.reading
		go func() {
			s, err := w.CatchUp(t.Context())
			if err != nil {
				t.Error(err)
			}
			row, _ := s.Row(host)
			caughtUp <- len(row.Inventories)
		}()
		if !own {
			if n := <-caughtUp; n != 1 {
				t.Errorf("%d inventories before the refresh", n)
			}
		} else {
			select {
			case <-caughtUp:
				t.Error("CatchUp returned before the refresh")
			case <-time.After(50 * time.Millisecond):
			}
		}
		slow.read <- struct{}{}
		must(t, <-refreshed)
		if own {
			if n := <-caughtUp; n != 0 {
				t.Errorf("%d inventories after the refresh", n)
			}
		}
	}
}

// The lag counts from the first failed refresh to the successful one.
func TestLag(t *testing.T) {
	w := newWorldOn(t, databases.SQLite(t))
	host, _ := w.createHost("host")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if lag := w.Lag(); lag != 0 {
		t.Errorf("lag %s before a refresh failed", lag)
	}
	for range 2 { // a batch that fails twice has been waiting since the first time
		w.running <- struct{}{}
		w.enqueue(time.Now().Add(-time.Minute), refreshRequest{roots: []provider.ID{host}})
		w.Index.store = nil
		func() {
			defer func() { _ = recover() }()
			w.runNext(ended)
		}()
		w.Index.store = w.store
		if lag := w.Lag(); lag < time.Minute || lag > 2*time.Minute {
			t.Errorf("lag %s, want a minute", lag)
		}
	}
	if _, err := w.CatchUp(t.Context()); err != nil || w.Lag() != 0 {
		t.Errorf("lag %s after the refresh: %v", w.Lag(), err)
	}
}

// A refresh of one tree also reads the former tree of a provider that has moved there meanwhile.
func TestRefreshReadsTheFormerTree(t *testing.T) {
	for _, moved := range []string{"root", "child"} {
		t.Run(moved, func(t *testing.T) {
			url := databases.SQLite(t)
			w, other := newWorldOn(t, url), openStore(t, url)
			to, _ := w.createHost("to")
			root, child := w.createHost("from")
			id := map[string]provider.ID{"root": root, "child": child}[moved]
			_, _, err := other.UpdateProvider(t.Context(), id, store.Update{Name: "moved", Move: true, Parent: to, Free: true})
			must(t, err)
			must(t, w.Refresh(t.Context(), to))
			w.compare()
		})
	}
}
