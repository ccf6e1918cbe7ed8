package request

import (
	"regexp"
	"slices"
	"strings"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// A query with a class or a trait that does not exist is refused. The original, however, does not check a name after it
// has found that nothing matches, and returns an empty list. Berth checks all names first. Only if one does not exist,
// it repeats the checks in the order of the original.

// nameCheck checks the names of groups. err is the result of the last check.
type nameCheck struct {
	call *Call
	err  error
}

func (n *nameCheck) fails(groups []resource.Group, more ...[]resource.Trait) bool {
	n.err = n.call.Service.Names.Check(n.call.Context(), groups, more...)
	return n.err != nil
}

// UnknownInList returns the error for a query of providers with a name that does not exist; nil if the original answers
// with an empty list.
func (c *Call) UnknownInList(q api.ProviderQuery, wrong error) error {
	if !fault.Is(wrong, fault.Invalid) {
		return wrong
	}
	snapshot, err := c.Service.Index.CatchUp(c.Context())
	if err != nil {
		return err
	}
	names, g := nameCheck{call: c}, q.Group
	if _, found := snapshot.Row(g.InTree); g.InTree != "" && !found {
		return nil
	}
	if names.fails([]resource.Group{{Required: g.Required}}) {
		return names.err
	}
	if len(g.Required) > 0 && !someNode(snapshot, (*index.Node).HasTrait, numbersOf(snapshot.Trait, g.Required)) {
		return nil
	}
	if names.fails([]resource.Group{{Forbidden: g.Forbidden}}) {
		return names.err
	}
	if len(g.MemberOf) > 0 && !someNode(snapshot, (*index.Node).In, numbersOf(snapshot.Aggregate, g.MemberOf)) {
		return nil
	}
	return wrong
}

// UnknownInAsk returns the error for a query of candidates with a name that does not exist; nil if the original answers
// with an empty list. anyCandidate reports whether a query has a candidate.
func (c *Call) UnknownInAsk(ask resource.Ask, snapshot *index.Snapshot, wrong error,
	anyCandidate func(resource.Ask) (bool, error)) error {
	if !fault.Is(wrong, fault.Invalid) {
		return wrong
	}
	names := nameCheck{call: c}
	if names.fails(nil, ask.RootRequired, ask.RootForbidden) {
		return names.err
	}
	if len(ask.RootRequired)+len(ask.RootForbidden) > 0 && !someRoot(snapshot, ask) {
		return nil
	}
	for _, suffix := range suffixes(c.R.URL.RawQuery) {
		at := slices.IndexFunc(ask.Groups, func(g resource.Group) bool { return g.Suffix == suffix })
		if at < 0 {
			continue
		}
		g := ask.Groups[at]
		if names.fails([]resource.Group{{Resources: g.Resources}}) {
			return names.err
		}
		if len(g.MemberOf) > 0 && !someNode(snapshot, (*index.Node).In, numbersOf(snapshot.Aggregate, g.MemberOf)) {
			return nil
		}
		if names.fails([]resource.Group{{Required: g.Required, Forbidden: g.Forbidden}}) {
			return names.err
		}
		found, err := anyCandidate(resource.Ask{Groups: []resource.Group{g},
			RootRequired: ask.RootRequired, RootForbidden: ask.RootForbidden, Limit: 1})
		if err != nil || !found {
			return err
		}
	}
	return wrong
}

// suffixes returns the suffixes of the groups in a query, in the order of their first parameters.
func suffixes(query string) (list []string) {
	for pair := range strings.FieldsFuncSeq(query, separator) {
		key, _, _ := strings.Cut(pair, "=")
		if m := groupKey.FindStringSubmatch(unescape(key)); m != nil && !slices.Contains(list, m[1]) {
			list = append(list, m[1])
		}
	}
	return list
}

var groupKey = regexp.MustCompile(`^(?:resources|required|member_of|in_tree)([a-zA-Z0-9_-]*)$`)

// numbersOf returns the index numbers of names, without those that no provider has.
func numbersOf[N any](number func(N) index.ID, sets [][]N) [][]index.ID {
	out := make([][]index.ID, len(sets))
	for i, set := range sets {
		for _, name := range set {
			if n := number(name); n != index.Unknown {
				out[i] = append(out[i], n)
			}
		}
	}
	return out
}

// someNode reports whether a provider has at least one item of each of these sets.
func someNode(snapshot *index.Snapshot, has func(*index.Node, index.ID) bool, sets [][]index.ID) bool {
	if slices.ContainsFunc(sets, func(set []index.ID) bool { return len(set) == 0 }) {
		return false
	}
	for tree := range snapshot.Trees() {
		for i := range tree.Nodes {
			n := &tree.Nodes[i]
			if !slices.ContainsFunc(sets, func(set []index.ID) bool {
				return !slices.ContainsFunc(set, func(one index.ID) bool { return has(n, one) })
			}) {
				return true
			}
		}
	}
	return false
}

// someRoot reports whether a root has the required traits of the ask and none of the forbidden ones.
func someRoot(snapshot *index.Snapshot, ask resource.Ask) bool {
	for tree := range snapshot.Trees() {
		top := tree.Top()
		if top == nil {
			continue
		}
		without := func(t resource.Trait) bool { return !top.HasTrait(snapshot.Trait(t)) }
		forbidden := func(t resource.Trait) bool { return !without(t) }
		if !slices.ContainsFunc(ask.RootRequired, without) && !slices.ContainsFunc(ask.RootForbidden, forbidden) {
			return true
		}
	}
	return false
}
