package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// How says in what way a part of two answers is held against each other, where that is not to the letter.
type how string

const (
	exact   how = ""
	ignore  how = "ignore"  // not at all
	present how = "present" // both give it, and neither gives nothing, or neither does
	set     how = "set"     // a header's items without their order and case
	more    how = "more"    // Berth may give it where the original does not; of a list in a body: more items
	number  how = "number"  // a number by its value: 2.0 is 2
	sums    how = "sums"    // of candidates: without amounts where the original's do not add up; see totals.go
	alive   how = "alive"   // of the whole answer: Berth's status is only not one of a failure (under 500)
)

// Rule is one exception from comparing to the letter.
type Rule struct {
	Part    string         // answer (the whole), status, header:<name>, body, or body.<path> with * for any one step
	How     how            //
	Request *regexp.Regexp // matches "METHOD target status media/type", of the original's answer; nil: every request
	Reason  string
	part    *regexp.Regexp
}

// Rules are all exceptions. The first that fits counts.
type Rules []Rule

// ParseRules reads exceptions: lines of `part | how | request | reason`, with request a regular expression or *.
func ParseRules(file, text string) (Rules, error) {
	var rules Rules
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " | ", 4)
		if len(fields) != 4 || strings.TrimSpace(fields[3]) == "" {
			return nil, fmt.Errorf("%s:%d: want part | how | request | reason", file, i+1)
		}
		rule := Rule{Part: strings.TrimSpace(fields[0]), How: how(strings.TrimSpace(fields[1])),
			Reason: strings.TrimSpace(fields[3])}
		if !slices.Contains([]how{ignore, present, set, more, number, sums, alive}, rule.How) {
			return nil, fmt.Errorf("%s:%d: %q is none of ignore, present, set, more, number, sums, alive", file, i+1, rule.How)
		}
		var err error
		if request := strings.TrimSpace(fields[2]); request != "*" {
			if rule.Request, err = regexp.Compile(request); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(rule.Part), `\*`, `[^.]+`) + "$"
		if rule.part, err = regexp.Compile(pattern); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// how finds the rule for a part of an answer.
func (r Rules) how(ask Ask, theirs Answer, part string) how {
	media, _, _ := strings.Cut(theirs.Header.Get("Content-Type"), ";")
	call := strings.Join([]string{ask.Method, ask.Target, strconv.Itoa(theirs.Status), media}, " ")
	for _, rule := range r {
		if rule.part.MatchString(part) && (rule.Request == nil || rule.Request.MatchString(call)) {
			return rule.How
		}
	}
	return exact
}
