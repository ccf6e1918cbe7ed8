package server

import (
	"slices"
	"sync"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// summaryCache keeps what the answers to questions for candidates tell of each tree, as text: the same to everybody since microversion
// 1.29, until the tree changes.
type summaryCache struct {
	mu   sync.RWMutex
	kept map[provider.ID]treeText // by root
}

type treeText struct {
	tree *index.Tree // trees never change: another state is another tree
	text jsonBuffer
}

// write appends the summaries of all providers of these trees. Between two trees it calls relieve, which may take away what is written.
func (s *summaryCache) write(out *jsonBuffer, snapshot *index.Snapshot, trees []*index.Tree, relieve func() error) error {
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
		if err := relieve(); err != nil {
			return err
		}
	}
	return nil
}

// treeSummaries writes the summaries of a tree.
func treeSummaries(snapshot *index.Snapshot, tree *index.Tree) jsonBuffer {
	var out jsonBuffer
	for i, row := range snapshot.Tree(tree.Root) {
		out.comma(i)
		out.summary(row, api.Latest, nil)
	}
	return slices.Clip(out)
}

// keep remembers texts, of at most so many trees. When there are more, most of them are of trees that are gone, and all are made again.
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
