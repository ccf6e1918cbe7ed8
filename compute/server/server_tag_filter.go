package server

import (
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
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

var tagText = regexp.MustCompile(`^[^,/]{1,60}$`)

// reservationOf returns the reservation and the launch index that a server's id contains.
func reservationOf(id string) (reservation string, index int) {
	u, err := uuid.Parse(id)
	if err != nil {
		return "", 0
	}
	if u.Version() == 8 {
		index = int(u[6]&0x0f)<<8 | int(u[7])
	}
	return "r-" + hex.EncodeToString(u[:6]), index
}
