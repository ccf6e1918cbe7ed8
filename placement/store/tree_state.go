package store

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// TreeState identifies the allocations on a tree of providers at one moment: "START.FOREIGN.REMOVALS.WRITES". START is
// random for each process, so a restored database never has a state from before. FOREIGN changes when another process
// has written to the database, REMOVALS when allocations on the tree were removed or replaced, WRITES with each write
// of allocations on the tree. It is empty if the database does not report writes of other processes: only SQLite does.
//
// A client that has compared the allocations of a tree with its own records needs no other comparison while the state
// is the same. A claim that names the state is refused if an allocation was removed since.
type TreeState string

// withoutWrites returns the part of the state that changes when allocations may have been removed.
func (t TreeState) withoutWrites() string {
	return string(t[:max(0, strings.LastIndexByte(string(t), '.'))])
}

// treeStates counts what this process writes to the allocations of each tree.
type treeStates struct {
	start string

	mu      sync.Mutex
	foreign int64 // the last DataVersion of the database; 0: not read yet
	trees   map[provider.ID]treeCounts
}

type treeCounts struct{ removals, writes uint64 }

func newTreeStates(start string) *treeStates {
	return &treeStates{start: start, trees: map[provider.ID]treeCounts{}}
}

// wrote counts a write of allocations on trees. removed is set if allocations were removed or replaced, or may have
// been.
func (t *treeStates) wrote(roots []provider.ID, removed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, root := range roots {
		counts := t.trees[root]
		if counts.writes++; removed {
			counts.removals++
		}
		t.trees[root] = counts
	}
}

// state returns the state of a tree.
func (t *treeStates) state(root provider.ID) TreeState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.foreign == 0 {
		return ""
	}
	counts := t.trees[root]
	return TreeState(fmt.Sprintf("%s.%d.%d.%d", t.start, t.foreign, counts.removals, counts.writes))
}

// sawForeign records the DataVersion of the database.
func (t *treeStates) sawForeign(number int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreign = number
}

// TreeState returns the state of the tree of a root provider. Read it before the allocations that it is to identify.
func (s *Store) TreeState(root provider.ID) TreeState { return s.states.state(root) }

// CurrentTreeState is TreeState after it was asked whether other processes have written. It returns NotFound for a
// provider that does not exist.
func (s *Store) CurrentTreeState(ctx context.Context, root provider.ID) (TreeState, error) {
	if _, _, err := s.DataVersion(ctx); err != nil {
		return "", wrapError(err)
	}
	state := s.TreeState(root)
	return state, s.read(ctx, "CurrentTreeState", func(tx *sqldb.Tx) error {
		_, err := findProvider(ctx, tx, root)
		return err
	})
}

// checkTreeStates returns the Conflict CodeTreeChanged if allocations may have been removed from a tree since the state
// that a claim names. It runs inside the transaction of the claims.
func (s *Store) checkTreeStates(ctx context.Context, tx *sqldb.Tx, claims []Claim) error {
	read := false
	for _, claim := range claims {
		if claim.TreeState == "" {
			continue
		}
		if !read {
			number, ok, err := tx.DataVersion(ctx)
			if err != nil {
				return err
			}
			if ok {
				s.states.sawForeign(number)
			}
			read = true
		}
		if now := s.states.state(claim.Tree); now.withoutWrites() != claim.TreeState.withoutWrites() {
			return fault.New(fault.Conflict, "allocations on the tree of %s may have been removed since the state %s: "+
				"compare them again", claim.Tree, claim.TreeState).WithCode(CodeTreeChanged)
		}
	}
	return nil
}
