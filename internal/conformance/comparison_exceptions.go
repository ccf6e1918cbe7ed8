package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mode is how a part of two answers is compared.
type mode string

const (
	exact     mode = ""
	ignore    mode = "ignore"  // not compared
	present   mode = "present" // both answers have a value that is not empty, or neither has
	set       mode = "set"     // the items of a header, without order and case; of a list in a body: without order
	mayAdd    mode = "more"    // only Berth may have it; of a list in a body: Berth may have more items
	number    mode = "number"  // the value of a number: 2.0 equals 2
	sums      mode = "sums"    // of candidates: without amounts if the original's are wrong; see original_wrong_amounts.go
	notFailed mode = "alive"   // of the whole answer: Berth's status must be below 500
)

// Rule is one exception from exact comparison.
type Rule struct {
	Part    string         // answer (the whole), status, header:<name>, body, or body.<path> with * for any one element
	Mode    mode           //
	Request *regexp.Regexp // matches "METHOD target status media/type", of the original's answer; nil: every request
	Reason  string
	part    *regexp.Regexp
}

// Rules lists all exceptions. The first one that matches applies.
type Rules []Rule

// ParseRules parses exceptions: lines of `part | mode | request | reason`. request is a regular expression or *.
func ParseRules(file, text string) (Rules, error) {
	var rules Rules
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " | ", 4)
		if len(fields) != 4 || strings.TrimSpace(fields[3]) == "" {
			return nil, fmt.Errorf("%s:%d: want part | mode | request | reason", file, i+1)
		}
		rule := Rule{Part: strings.TrimSpace(fields[0]), Mode: mode(strings.TrimSpace(fields[1])),
			Reason: strings.TrimSpace(fields[3])}
		if !slices.Contains([]mode{ignore, present, set, mayAdd, number, sums, notFailed}, rule.Mode) {
			return nil, fmt.Errorf("%s:%d: mode %q is not one of ignore, present, set, more, number, sums, alive", file, i+1,
				rule.Mode)
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

// modeOf returns the mode for a part of an answer.
func (r Rules) modeOf(ask Request, theirs Answer, part string) mode {
	media, _, _ := strings.Cut(theirs.Header.Get("Content-Type"), ";")
	call := strings.Join([]string{ask.Method, ask.Target, strconv.Itoa(theirs.Status), media}, " ")
	for _, rule := range r {
		if rule.part.MatchString(part) && (rule.Request == nil || rule.Request.MatchString(call)) {
			return rule.Mode
		}
	}
	return exact
}
