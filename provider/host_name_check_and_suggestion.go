package provider

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// MaxHostName is the largest length of a host name in characters: that of hypervisor_hostname in OpenStack.
const MaxHostName = 255

// CheckHostName returns nil if name can be the name of a host (OpenStack's hypervisor hostname, and the name of the
// host's root provider), else a fault of kind Invalid. A name has 1 to MaxHostName printable characters, none of them a
// space or a path separator, and is not "." or "..". Names come from the network and become parts of paths, URLs and
// log lines.
func CheckHostName(name string) error {
	if why := hostNameProblem(name); why != "" {
		return fault.New(fault.Invalid, "%q is not a valid host name: %s; give the name that `berth host list` shows, "+
			"or set [DEFAULT] host to a name of 1 to %d printable characters without spaces and slashes",
			shorten(name), why, MaxHostName)
	}
	return nil
}

func hostNameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case name == "." || name == "..":
		return "it is a relative path"
	case !utf8.ValidString(name):
		return "it is not valid UTF-8"
	case utf8.RuneCountInString(name) > MaxHostName:
		return fmt.Sprintf("it has %d characters, at most %d are allowed", utf8.RuneCountInString(name), MaxHostName)
	}
	for _, r := range name {
		switch {
		case r == '/' || r == '\\':
			return fmt.Sprintf("it contains the path separator %q", r)
		case unicode.IsSpace(r):
			return "it contains a space"
		case !unicode.IsPrint(r):
			return fmt.Sprintf("it contains the character %U, which is not printable", r)
		}
	}
	return ""
}

// shorten truncates a text for a message.
func shorten(text string) string {
	const longest = 64
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// UnknownHost returns the fault, of kind NotFound, for the name of a host that no agent has reported for. It names up
// to three of the known hosts whose names are similar.
func UnknownHost(name string, known []string) error {
	return fault.New(fault.NotFound, "no agent has reported for host %s; %s", name, SuggestHost(name, known))
}

// SuggestHost returns what to do about an unknown host name, as the end of a message.
func SuggestHost(name string, known []string) string {
	if similar := similarHosts(name, known); len(similar) > 0 {
		return fmt.Sprintf("did you mean %s?", strings.Join(similar, " or "))
	}
	return "`berth host list` shows the known hosts"
}

// similarHosts compares whole names, and the first labels where only one of two names is fully qualified.
func similarHosts(name string, known []string) []string {
	const most = 3
	var found []string
	label, _, qualified := strings.Cut(name, ".")
	for _, k := range known {
		if l, _, q := strings.Cut(k, "."); q != qualified && strings.EqualFold(l, label) {
			found = append(found, k)
		}
	}
	for _, k := range fault.Similar(name, known, max(2, len(name)/4)) {
		if !slices.Contains(found, k) {
			found = append(found, k)
		}
	}
	return found[:min(len(found), most)]
}
