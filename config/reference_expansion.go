package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	maxReferences = 1000    // references that one value may follow, including nested ones
	maxText       = 1 << 20 // bytes that these may add
)

// reference matches the text after a dollar sign: another one, name, {name}. A name may be group.name.
var reference = regexp.MustCompile(`\$(?:\$|([A-Za-z_][A-Za-z0-9_.]*)|\{([A-Za-z_][A-Za-z0-9_.]*)\})`)

// expand replaces the references in an entry's value. A name without a group is searched in the group of the option,
// and then in DEFAULT. A reference that cannot be replaced stays, and Check returns the reason.
func (c *Config) expand(entry Entry, group string) Entry {
	if !strings.Contains(entry.Value, "$") {
		return entry
	}
	x := expansion{config: c}
	entry.Value = x.text(entry.Value, group, []Name{{groupKey(group), entry.Option}})
	entry.dangling = x.wrong
	return entry
}

// expansion is the state of the expansion of one value.
type expansion struct {
	config *Config
	count  int    // references followed
	bytes  int    // bytes added
	wrong  string // the first reason why a reference cannot be replaced
}

// text replaces the references in text. path holds the options that lead here, to detect a cycle.
func (x *expansion) text(text, group string, path []Name) string {
	text = strings.ReplaceAll(text, `\$`, "$$")
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		value, wrong := x.follow(strings.Trim(found, "${}"), group, path)
		if wrong == "" {
			return value
		}
		if x.wrong == "" {
			x.wrong = wrong
		}
		return found
	})
}

// follow returns the text of the option that a reference names, or the reason why there is none.
func (x *expansion) follow(name, group string, path []Name) (value, wrong string) {
	target := Name{groupKey(group), name}
	if before, after, ok := strings.Cut(name, "."); ok {
		target = Name{groupKey(before), after}
	}
	entry, found := x.config.find([]Name{target})
	if !found {
		target = Name{"DEFAULT", name}
		entry, found = x.config.find([]Name{target})
	}
	if !found {
		return "", fmt.Sprintf("$%s names an option that no file sets; set it, or write $$ for a dollar sign", name)
	}
	if slices.Contains(path, target) {
		return "", fmt.Sprintf("$%s leads back to the option itself", name)
	}
	x.count++
	x.bytes += len(entry.Value)
	if x.count > maxReferences || x.bytes > maxText {
		return "", fmt.Sprintf("the value follows more than %d references or grows beyond %d "+
			"bytes", maxReferences, maxText)
	}
	return x.text(entry.Value, target.Group, append(slices.Clip(path), target)), ""
}
