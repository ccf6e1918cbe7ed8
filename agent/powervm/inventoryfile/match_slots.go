package inventoryfile

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/resource"
)

// Matches reports whether a slot meets all conditions of the paragraph. A property that the system does not report
// meets no condition (C12).
func (p Paragraph) Matches(s ioslot.Slot) bool { return p.failed(s) == "" }

// failed describes the first condition that a slot does not meet; "" when it meets all.
func (p Paragraph) failed(s ioslot.Slot) string {
	for _, c := range p.Conditions {
		value, ok := s.Property(c.Key)
		if !ok {
			return fmt.Sprintf("its %s is not reported, not %s", c.Key, c.Value)
		}
		if !glob(c.Value, value) {
			return fmt.Sprintf("its %s is %s, not %s", c.Key, value, c.Value)
		}
	}
	return ""
}

// ClassOr returns the paragraph's class, or the default.
func (p Paragraph) ClassOr(byDefault resource.Class) resource.Class {
	if p.Class == "" {
		return byDefault
	}
	return p.Class
}

// glob reports whether a whole text matches a pattern, in which * is any text and ? any one character.
func glob(pattern, text string) bool {
	star, retry := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			retry++
			p, t = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Decision is what the files say about one slot.
type Decision struct {
	Slot     ioslot.Slot
	Allowing []Paragraph // that match it; more than one is a problem
	Denying  []Paragraph // with allow: false that match it
}

// Allowed returns the paragraph by which guests may have the slot.
func (d Decision) Allowed() (Paragraph, bool) {
	if len(d.Allowing) != 1 || len(d.Denying) > 0 || d.Slot.WhyNoDevice() != "" {
		return Paragraph{}, false
	}
	return d.Allowing[0], true
}

// Decide applies the paragraphs to one slot.
func (r Rules) Decide(s ioslot.Slot) Decision {
	d := Decision{Slot: s}
	for _, p := range r.Paragraphs {
		switch {
		case !p.Matches(s):
		case p.Deny:
			d.Denying = append(d.Denying, p)
		default:
			d.Allowing = append(d.Allowing, p)
		}
	}
	return d
}

// DecideAll applies the paragraphs to all slots of a system. A device that two paragraphs allow is a problem, also if a
// third paragraph denies it (R16): then no decision may be used.
func (r Rules) DecideAll(slots []ioslot.Slot) (list []Decision, problems []Problem) {
	for _, s := range slots {
		d := r.Decide(s)
		if len(d.Allowing) > 1 && s.WhyNoDevice() == "" {
			problems = append(problems, Problem{At: d.Allowing[1].At, Sentence: fmt.Sprintf(
				"the slot %s is allowed by two paragraphs, %s and %s; narrow the identification of one", s, d.Allowing[0],
				d.Allowing[1])})
		}
		list = append(list, d)
	}
	return list, problems
}
