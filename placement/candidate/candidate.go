// Package candidate answers what could be had: the candidates for an ask, lazily and exactly, or why there are none.
package candidate

import (
	"iter"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is one way to meet a whole ask. Its Amounts and lists are shared between candidates: read, do not write.
type Candidate struct {
	Root       provider.ID              // the anchor: the root of the tree, also where all providers are sharing ones
	Allocation resource.Allocation      // what a claim would hold
	Mappings   map[string][]provider.ID // suffix of the group → the providers that meet it
}

// All gives every candidate for the ask, each once, host by host in the order of the roots' IDs, at most ask.Limit
// (0: no limit). Nothing is computed before it is asked for.
func All(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {}
}

// Spread gives the same candidates as All, but in turn: one from each host, then a second from each, and so on.
func Spread(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {}
}
