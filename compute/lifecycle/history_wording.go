package lifecycle

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
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

// describe returns the resources, traits and devices that a server requests. The groups of one alias are one item; the
// request itself has their ids.
func describe(ask resource.Ask, requests []pci.Request) string {
	groups := map[string]string{} // by suffix
	for _, g := range ask.Groups {
		groups[g.Suffix] = describeGroup(g)
	}
	var devices []string
	for _, r := range requests {
		devices = append(devices, describeRequest(r, groups))
		for i := range r.Count {
			delete(groups, r.GroupSuffix(i))
		}
	}
	var plain, others []string
	for _, g := range ask.Groups {
		text, left := groups[g.Suffix]
		switch {
		case !left:
		case g.Suffix == "":
			plain = append(plain, text)
		default:
			others = append(others, fmt.Sprintf("group %s: %s", g.Suffix, text))
		}
	}
	parts := append(plain, list(others, "group")...)
	if ask.GroupPolicy != resource.PolicyUnset {
		parts = append(parts, "group_policy "+string(ask.GroupPolicy))
	}
	return "asks for " + strings.Join(append(parts, devices...), "; ")
}

// describeRequest returns how many devices of an alias a server requests, with the resources and traits of each.
func describeRequest(r pci.Request, groups map[string]string) string {
	text := fmt.Sprintf("%d of %s%s", r.Count, r.Name(), describeMatch(r.Match))
	each := ""
	for i := range r.Count {
		group, found := groups[r.GroupSuffix(i)]
		if !found || each != "" && each != group {
			return text
		}
		each = group
	}
	return text + prefixed(", each ", each)
}

// describeMatch returns what the devices of a request have in common, such as " (set 1, 4 times: one pcie_root each)".
func describeMatch(m *pci.Match) string {
	if m == nil {
		return ""
	}
	family, times, each := m.Family, "", ""
	if m.Whole {
		family = "whole " + family
	}
	if m.Times > 1 {
		times, each = fmt.Sprintf(", %d times", m.Times), " each"
	}
	return fmt.Sprintf(" (set %d%s: one %s%s)", m.Set, times, family, each)
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

// describeChoice returns the host of a choice and the providers of the devices.
func describeChoice(c schedule.Choice, requests []pci.Request) string {
	var devices []string
	for _, r := range requests {
		times := map[provider.ID]int{}
		var providers []provider.ID // in order of the devices
		for i := range r.Count {
			for _, id := range c.Mappings[r.GroupSuffix(i)] {
				if times[id] == 0 {
					providers = append(providers, id)
				}
				times[id]++
			}
		}
		for _, id := range providers {
			devices = append(devices, fmt.Sprintf("%d of %s from provider %s", times[id], r.Name(), id))
		}
	}
	return strings.Join(append([]string{"host " + c.Host}, list(devices, "provider")...), "; ")
}

// list returns at most maxNamed items, followed by the number of omitted ones.
func list(items []string, noun string) []string {
	if len(items) <= maxNamed {
		return items
	}
	return append(items[:maxNamed:maxNamed], fmt.Sprintf("and %s more", count(len(items)-maxNamed, noun)))
}

// requestName returns the name of the request, or its id if the request is unknown.
func requestName(requests []pci.Request, id string) string {
	for _, r := range requests {
		if r.ID == id {
			return r.Name()
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

// failureBeginnings are the beginnings of the entries that report that an action failed.
var failureBeginnings = []string{
	"No valid host was found", "The guest cannot be ", "The server failed on ", "the guest failed on ",
	"The live migration failed on ", "The server cannot be shelved", "The disk on ", "The move cannot be reverted",
	"The port cannot be attached",
}

// isFailure reports whether an entry of this text reports a failure.
func isFailure(text string) bool {
	for _, b := range failureBeginnings {
		if strings.HasPrefix(text, b) {
			return true
		}
	}
	return false
}
