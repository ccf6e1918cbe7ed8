// Package condition describes the problems of hosts as objects: what kind of problem, how bad, of what, since when, and
// what to do.
package condition

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Condition is one problem of a host.
type Condition struct {
	Kind  Kind  `json:"kind"`
	Level Level `json:"level"`
	// Subject is what of the host it concerns: the address of a device, the id of a guest, a consumer, an image or a
	// network, the path of a file, the name of a provider, an interface or a domain. Absent: the host, or several of its
	// parts.
	Subject string `json:"subject,omitempty"`
	// Server is the name of the server that Subject is the id of, if compute has it.
	Server string `json:"server,omitempty"`
	// Since is when compute first saw it; absent: not known. A change of the text does not change it.
	Since time.Time `json:"since,omitzero"`
	Text  string    `json:"text"` // one sentence, with the remedy
	// Remedy is the last clause of Text, which says what to do or what follows; absent: the text has one clause.
	Remedy string `json:"remedy,omitempty"`
}

// New returns a condition with the level of its kind. Texts have the form `<what failed>: <why>; <what to do>`.
func New(kind Kind, subject, text string) Condition {
	c := Condition{Kind: kind, Level: kind.Level(), Subject: subject, Text: text}
	if i := strings.LastIndex(text, clause); i >= 0 {
		c.Remedy = text[i+len(clause):]
	}
	return c
}

// clause separates the clauses of a text.
const clause = "; "

// At returns the condition with the time at which it was first seen; zero: not known.
func (c Condition) At(since time.Time) Condition {
	c.Since = since.UTC().Truncate(time.Second)
	if since.IsZero() {
		c.Since = time.Time{}
	}
	return c
}

// Problem returns the text without the remedy.
func (c Condition) Problem() string {
	return strings.TrimSuffix(strings.TrimSuffix(c.Text, c.Remedy), clause)
}

// Texts returns the texts of conditions.
func Texts(list []Condition) []string {
	texts := []string{}
	for _, c := range list {
		texts = append(texts, c.Text)
	}
	return texts
}

// Sorted returns conditions by text and subject, each once.
func Sorted(list []Condition) []Condition {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Condition) int {
		return cmp.Or(strings.Compare(a.Text, b.Text), strings.Compare(a.Subject, b.Subject))
	})
	return slices.Compact(list)
}

// Worst returns the highest level of conditions; empty: there is none.
func Worst(list []Condition) (worst Level) {
	for _, c := range list {
		if c.Level.Compare(worst) > 0 {
			worst = c.Level
		}
	}
	return worst
}

// Dated returns conditions with the times at which they were first seen: that of the same condition before, or now. The
// same condition has the same kind and subject and, if several have, the same text or else the same place among them.
func Dated(list, before []Condition, now time.Time) []Condition {
	list, before = slices.Clone(list), slices.Clone(before)
	found := make([]bool, len(list))
	for _, sameText := range []bool{true, false} {
		for i, c := range list {
			at := slices.IndexFunc(before, func(b Condition) bool {
				return b.Kind == c.Kind && b.Subject == c.Subject && (!sameText || b.Text == c.Text)
			})
			if found[i] || at < 0 {
				continue
			}
			list[i], found[i] = c.At(before[at].Since), true
			before = slices.Delete(before, at, at+1)
		}
	}
	for i, c := range list {
		if !found[i] {
			list[i] = c.At(now)
		}
	}
	return list
}
