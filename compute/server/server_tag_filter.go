package server

import (
	"net/url"
	"slices"
	"strings"
)

// tagFilter is the part of a list's filter that concerns tags (2.26). Nil: not given.
type tagFilter struct{ all, any, notAll, notAny []string }

func readTagFilter(q url.Values) (f tagFilter) {
	for key, into := range map[string]*[]string{"tags": &f.all, "tags-any": &f.any, "not-tags": &f.notAll,
		"not-tags-any": &f.notAny} {
		if text := q.Get(key); text != "" {
			*into = strings.Split(text, ",")
		}
	}
	return f
}

// isEmpty reports whether every server passes the filter.
func (f tagFilter) isEmpty() bool {
	return f.all == nil && f.any == nil && f.notAll == nil && f.notAny == nil
}

// keeps reports whether a server with these tags passes the filter.
func (f tagFilter) keeps(tags []string) bool {
	has := func(tag string) bool { return slices.Contains(tags, tag) }
	hasNot := func(tag string) bool { return !has(tag) }
	return !slices.ContainsFunc(f.all, hasNot) &&
		(f.any == nil || slices.ContainsFunc(f.any, has)) &&
		(f.notAll == nil || slices.ContainsFunc(f.notAll, hasNot)) &&
		!slices.ContainsFunc(f.notAny, has)
}
