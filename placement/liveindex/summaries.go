package liveindex

import (
	"iter"
	"sync"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// Summaries holds the encoded provider summaries of each tree. Since microversion 1.29 they are the same in all answers
// until the tree changes. The zero value is empty. It is safe for concurrent use.
type Summaries struct {
	mu   sync.RWMutex
	kept map[provider.ID]treeText // by root
}

type treeText struct {
	tree *index.Tree // trees are immutable: a changed tree has another address
	text []byte
}

// Of returns the encoded summaries of each tree. encode encodes those that the cache does not have.
func (s *Summaries) Of(snapshot *index.Snapshot, trees []*index.Tree,
	encode func(*index.Snapshot, *index.Tree) []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var made []treeText
		defer func() { s.keep(made, 2*snapshot.Len()) }()
		for _, tree := range trees {
			s.mu.RLock()
			old := s.kept[tree.Root]
			s.mu.RUnlock()
			if old.tree != tree {
				old = treeText{tree, encode(snapshot, tree)}
				made = append(made, old)
			}
			if !yield(old.text) {
				return
			}
		}
	}
}

// keep stores encoded summaries. If the cache has more than most trees, it is emptied first, because most of them are
// deleted trees.
func (s *Summaries) keep(made []treeText, most int) {
	if len(made) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) > most {
		s.kept = make(map[provider.ID]treeText, len(made))
	}
	for _, t := range made {
		s.kept[t.tree.Root] = t
	}
}
