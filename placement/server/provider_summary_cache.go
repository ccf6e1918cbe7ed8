package server

import (
	"slices"
	"sync"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// summaryCache holds the encoded provider summaries of each tree. Since microversion 1.29 they are the same in all
// answers until the tree changes.
type summaryCache struct {
	mu   sync.RWMutex
	kept map[provider.ID]treeText // by root
}

type treeText struct {
	tree *index.Tree // trees are immutable: a changed tree has another address
	text jsonBuffer
}

// write appends the summaries of all providers of these trees. After each tree it calls flush, which may empty out.
func (s *summaryCache) write(out *jsonBuffer, snapshot *index.Snapshot, trees []*index.Tree, flush func() error) error {
	var made []treeText
	defer func() { s.keep(made, 2*snapshot.Len()) }()
	for i, tree := range trees {
		out.comma(i)
		s.mu.RLock()
		old := s.kept[tree.Root]
		s.mu.RUnlock()
		if old.tree != tree {
			old = treeText{tree, treeSummaries(snapshot, tree)}
			made = append(made, old)
		}
		*out = append(*out, old.text...)
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// treeSummaries returns the encoded summaries of a tree.
func treeSummaries(snapshot *index.Snapshot, tree *index.Tree) jsonBuffer {
	var out jsonBuffer
	for i, row := range snapshot.Tree(tree.Root) {
		out.comma(i)
		out.summary(row, api.Latest, nil)
	}
	return slices.Clip(out)
}

// keep stores encoded summaries. If the cache has more than most trees, it is emptied first, because most of them are
// deleted trees.
func (s *summaryCache) keep(made []treeText, most int) {
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
