package lifecycle

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// hostDead is what history says of a host that will never return.
const hostDead = "declared dead by an operator"

const (
	maxText  = 2000 // bytes of one history entry
	maxNamed = 8    // groups named in one entry
)

// shorten cuts a text to maxText bytes.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " …"
}

// describe returns the resources, traits and devices that a server requests.
func describe(ask resource.Ask, requests []pci.Request) string {
	var plain, groups []string
	for _, g := range ask.Groups {
		text := describeGroup(g)
		if g.Suffix == "" {
			plain = append(plain, text)
		} else {
			groups = append(groups, fmt.Sprintf("group %s: %s", g.Suffix, text))
		}
	}
	parts := append(plain, list(groups, "group")...)
	if ask.GroupPolicy != resource.PolicyUnset {
		parts = append(parts, "group_policy "+string(ask.GroupPolicy))
	}
	for _, r := range requests {
		parts = append(parts, fmt.Sprintf("request %s: %d of alias %s", r.ID, r.Count, r.Alias))
	}
	return "asks for " + strings.Join(parts, "; ")
}

// describeGroup returns the resources and traits of one request group.
func describeGroup(g resource.Group) string {
	parts := []string{g.Resources.String()}
	for _, any := range g.Required {
		names := make([]string, len(any))
		for i, t := range any {
			names[i] = string(t)
		}
		parts = append(parts, "with "+strings.Join(names, " or "))
	}
	for _, t := range g.Forbidden {
		parts = append(parts, "without "+string(t))
	}
	return strings.Join(parts, " ")
}

// describeChoice returns the host of a choice and the provider of each device.
func describeChoice(c schedule.Choice, requests []pci.Request) string {
	var groups []string
	for _, r := range requests {
		for i := range r.Count {
			for _, id := range c.Mappings[r.GroupSuffix(i)] {
				groups = append(groups, fmt.Sprintf("%s of alias %s from provider %s", r.GroupSuffix(i), r.Alias, id))
			}
		}
	}
	return strings.Join(append([]string{"host " + c.Host}, list(groups, "group")...), "; ")
}

// list returns at most maxNamed items, followed by the number of omitted ones.
func list(items []string, noun string) []string {
	if len(items) <= maxNamed {
		return items
	}
	return append(items[:maxNamed:maxNamed], fmt.Sprintf("and %s more", count(len(items)-maxNamed, noun)))
}

// requestName returns the alias of the request, or its id if the request is unknown.
func requestName(requests []pci.Request, id string) string {
	for _, r := range requests {
		if r.ID == id {
			return "alias " + r.Alias
		}
	}
	return "request " + id
}

// count returns a number with its noun in singular or plural.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// prefixed returns lead followed by text, or an empty string if text is empty.
func prefixed(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

// trimStop returns the text without its final full stop.
func trimStop(text string) string { return strings.TrimRight(text, ". ") }
