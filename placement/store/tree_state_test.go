package store

import (
	"context"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// knownState returns the state of a tree after the database's number of foreign writes has been read.
func knownState(t *testing.T, s *Store, root int) TreeState {
	t.Helper()
	_, _, err := s.DataVersion(t.Context())
	ok(t, err)
	return s.TreeState(id(root))
}

// A claim that names a state is accepted while allocations have only been added to the tree, and refused after one was
// removed, replaced or moved by a reshape, by this process or another one, and after a restart.
func TestTreeStates(t *testing.T) {
	url := databases.SQLite(t)
	s := openStore(t, url)
	for n := 1; n <= 3; n++ {
		host(t, s, n, 0)
	}
	ok(t, putOne(t.Context(), s, claim(500, 1, 1)))
	next := 600
	for what, change := range map[string]struct {
		do      func(ctx context.Context, consumer resource.ConsumerID) error
		refused bool
	}{
		"nothing": {func(context.Context, resource.ConsumerID) error { return nil }, false},
		"an addition": {func(ctx context.Context, _ resource.ConsumerID) error {
			return putOne(ctx, s, claim(next+50, 1, 1))
		}, false},
		"a removal on another tree": {func(ctx context.Context, _ resource.ConsumerID) error {
			ok(t, putOne(ctx, s, claim(next+50, 2, 1)))
			_, err := s.DeleteAllocations(ctx, consumer(next+50))
			return err
		}, false},
		"a removal": {func(ctx context.Context, on resource.ConsumerID) error {
			_, err := s.DeleteAllocations(ctx, on)
			return err
		}, true},
		"a replacement": {func(ctx context.Context, _ resource.ConsumerID) error {
			return putOne(ctx, s, claim(next, 3, 1).seen(1))
		}, true},
		"a reshape": {func(ctx context.Context, _ resource.ConsumerID) error {
			_, err := s.Reshape(ctx, map[provider.ID]NewInventories{}, []Claim{claim(next, 3, 1).seen(1)})
			return err
		}, true},
		"a removal by another process": {func(ctx context.Context, on resource.ConsumerID) error {
			_, err := openStore(t, url).DeleteAllocations(ctx, on)
			return err
		}, true},
		"a restart": {func(context.Context, resource.ConsumerID) error { s = openStore(t, url); return nil }, true},
	} {
		t.Run(what, func(t *testing.T) {
			next += 100
			ok(t, putOne(t.Context(), s, claim(next, 1, 1)))
			before := knownState(t, s, 1)
			ok(t, change.do(t.Context(), consumer(next)))
			c := claim(next+1, 1, 1)
			c.Tree, c.TreeState = id(1), before
			err := putOne(t.Context(), s, c)
			if is := fault.CodeOf(err) == CodeTreeChanged; is != change.refused || !is && err != nil {
				t.Errorf("refused: %v, want %v: %v", is, change.refused, err)
			}
			held, _ := s.ConsumerAllocations(t.Context(), consumer(next+1))
			if written := len(held.Allocation) > 0; written == change.refused {
				t.Errorf("written: %v", written)
			}
			if err == nil && s.TreeState(id(1)) == before {
				t.Error("the state does not show the write")
			}
			for _, more := range []int{next, next + 1, next + 50} {
				_, _ = s.DeleteAllocations(t.Context(), consumer(more)) // keeps room for the next case
			}
		})
	}
}

// Only SQLite reports the writes of other processes. A state of another database is refused everywhere.
func testTreeState(t *testing.T, s *Store) {
	host(t, s, 1, 0)
	_, is, err := s.DataVersion(t.Context())
	ok(t, err)
	if state := s.TreeState(id(1)); (state != "") != is {
		t.Errorf("state %q", state)
	}
	c := claim(500, 1, 1)
	c.Tree, c.TreeState = id(1), "a.1.0.0"
	refused(t, putOne(t.Context(), s, c), fault.Conflict, CodeTreeChanged, "compare them again")
}
