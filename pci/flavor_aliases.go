package pci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// AliasCount is one `alias:count` of a flavor.
type AliasCount struct {
	Name  string
	Count int // at least 1
}

// String formats the value as `alias:count`.
func (c AliasCount) String() string { return fmt.Sprintf("%s:%d", c.Name, c.Count) }

// MaxCount is the maximum of one `alias:count`; no guest has slots for more devices.
const MaxCount = 256

// ParseFlavorAliases parses the flavor extra spec `pci_passthrough:alias`, such as "gpu:2,nic:1". Blanks around
// names and counts are ignored; order and repetition are kept.
func ParseFlavorAliases(text string) ([]AliasCount, error) {
	var list []AliasCount
	for item := range strings.SplitSeq(text, ",") {
		name, count, counted := strings.Cut(item, ":")
		name, count = strings.TrimSpace(name), strings.TrimSpace(count)
		if name == "" || !counted || strings.Contains(count, ":") {
			return nil, refuse("pci_passthrough:alias %q: %q must be an alias, a colon and a count, such as "+
				"\"gpu:1\"", clip(text), strings.TrimSpace(item))
		}
		n, err := strconv.ParseUint(count, 10, 31)
		if err != nil || n < 1 || n > MaxCount {
			return nil, refuse("pci_passthrough:alias %q: the count %q of %q must be a whole number from 1 to "+
				"%d", clip(text), count, name, MaxCount)
		}
		list = append(list, AliasCount{Name: name, Count: int(n)})
	}
	return list, nil
}

// Requests returns the device requests of a flavor in the order of text, the value of `pci_passthrough:alias`: one for
// each `alias:count`, or one for each member of an alias with members, in the order of their names. newID returns a new
// UUID for the id of each request. An empty text results in no requests.
func (as Aliases) Requests(text string, newID func() string) ([]Request, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	counts, err := ParseFlavorAliases(text)
	if err != nil {
		return nil, err
	}
	var list []Request
	sets := 0
	for _, c := range counts {
		a, known := as[c.Name]
		if !known {
			return nil, refuse("pci_passthrough:alias %q: no alias %q is configured; %s", clip(text), c.Name,
				suggest(c.Name, slices.Sorted(maps.Keys(as))))
		}
		if a.Match == "" {
			list = append(list, a.request(c.Count, newID()))
			continue
		}
		sets++
		for _, r := range as.matched(a, c.Count, sets, newID) {
			if r.Count > MaxCount {
				return nil, refuse("pci_passthrough:alias %q: %s are %d devices of alias %q; a server has at most %d",
					clip(text), c, r.Count, r.Alias, MaxCount)
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func (w Requirement) clone() Requirement {
	w.Required, w.Forbidden = slices.Clone(w.Required), slices.Clone(w.Forbidden)
	return w
}
