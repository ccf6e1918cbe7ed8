package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/openberth/berth/fault"
)

// Entry is one value with its place in a file.
type Entry struct {
	File   string
	Line   int    // of the option's name, from 1
	Group  string // as written in the file
	Option string
	Value  string // continuation lines are joined by "\n"

	dangling string // why a reference in Value could not be replaced
}

// named reports whether the entry has this name.
func (e Entry) named(name Name) bool {
	return e.Option == name.Option && groupKey(e.Group) == groupKey(name.Group)
}

// Place returns the file and line of the entry: "berth.conf:12".
func (e Entry) Place() string { return fmt.Sprintf("%s:%d", e.File, e.Line) }

// Fault returns an Invalid fault about the entry: its place, its name, its text, what is wrong and what to do:
//
//	berth.conf:12: [pci] device_spec = {"vendor_id": "8o86"}: vendor_id is not hexadecimal; write 4 digits such as 8086
//
// Long text is truncated; passwords are hidden.
func (e Entry) Fault(format string, args ...any) error {
	about := fmt.Sprintf("%s: [%s] %s = %s: ", e.Place(), e.Group, e.Option, e.shown())
	return fault.New(fault.Invalid, strings.ReplaceAll(about, "%", "%%")+format, args...)
}

// Check returns a fault if the value refers to an option that does not exist or to itself; Value then still contains
// the reference.
func (e Entry) Check() error {
	if e.dangling == "" {
		return nil
	}
	return e.Fault("%s", e.dangling)
}

// shown returns the value for a message: one line, truncated, without secrets.
func (e Entry) shown() string {
	const longest = 160
	if e.Value == "" {
		return `""`
	}
	// token_cache_time and service_token_roles are settings of tokens, not secrets
	if regexp.MustCompile(`(?i)password|passwd|passphrase|secret|token|private_key|api_key`).MatchString(e.Option) &&
		!regexp.MustCompile(`(?i)(_time|_roles|_roles_required)$`).MatchString(e.Option) { // settings, not secrets
		return "***"
	}
	// scheme://user:password@host, where the password may contain any character except @ and blanks
	text := regexp.MustCompile(`(://[^:/@\s]*):[^@\s]*@`).ReplaceAllString(e.Value, "$1:***@")
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > longest {
		text = string(letters[:longest]) + "…"
	}
	return text
}

// Name is an option's full name. As an option's deprecated name, an empty part means "as the option itself".
type Name struct{ Group, Option string }

// groupKey returns a group's name for comparison in lower case, except DEFAULT.
func groupKey(group string) string {
	if group == "DEFAULT" || group == "" {
		return "DEFAULT"
	}
	return strings.ToLower(group)
}
