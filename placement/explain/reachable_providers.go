package explain

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// surroundings lists the providers that could serve a tree if they had what is asked.
type surroundings struct {
	sharing map[index.ID][]index.Place // by aggregate
	list    []index.Place
}

func newSurroundings(sharing []index.Place) *surroundings {
	s := &surroundings{}
	for _, place := range sharing {
		if s.sharing == nil {
			s.sharing = map[index.ID][]index.Place{}
		}
		for _, a := range place.Node().Aggregates {
			s.sharing[a] = append(s.sharing[a], place)
		}
	}
	return s
}

// of returns the providers of the tree, then the sharing providers connected with it. The list is valid until the next
// call.
func (s *surroundings) of(t *index.Tree) []index.Place {
	out := s.list[:0]
	for i := range t.Nodes {
		out = append(out, index.Place{Tree: t, At: i})
	}
	if s.sharing != nil {
		for _, a := range t.Aggregates {
			for _, place := range s.sharing[a] {
				if place.Tree != t && !slices.Contains(out[len(t.Nodes):], place) {
					out = append(out, place)
				}
			}
		}
	}
	s.list = out
	return out
}
