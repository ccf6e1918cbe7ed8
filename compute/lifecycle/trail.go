package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

const (
	maxTrail  = 64   // marks kept; of a longer trail the beginning and the end
	trailHead = 8    // how many from the beginning
	maxText   = 2000 // bytes of one mark
	maxNamed  = 8    // groups written out in one mark
)

// mark adds a line to the trail. The same line again only counts up, so that an hour of waiting does not push out how it began.
func addHistory(s Server, now time.Time, text string) Server {
	text = shorten(text)
	s.Updated = now
	s.History = slices.Clone(s.History)
	if n := len(s.History); n > 0 && s.History[n-1].Text == text {
		s.History[n-1].Times++
		s.History[n-1].At = now
		return s
	}
	s.History = append(s.History, HistoryEntry{At: now, Text: text, Times: 1})
	if len(s.History) > maxTrail {
		s.History = slices.Delete(s.History, trailHead, trailHead+len(s.History)-maxTrail)
	}
	return s
}

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " …"
}

// describe says what a server asks for.
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

// describeChoice says where the groups go.
func describeChoice(c schedule.Choice, requests []pci.Request) string {
	var groups []string
	for _, r := range requests {
		for i := range r.Count {
			for _, id := range c.Mappings[r.GroupSuffix(i)] {
				groups = append(groups, fmt.Sprintf("%s of alias %s from provider %s", r.GroupSuffix(i), r.Alias, id))
			}
		}
	}
	return strings.Join(append([]string{"a place on " + c.Host}, list(groups, "group")...), "; ")
}

// list cuts a long list and says how many are left out.
func list(items []string, noun string) []string {
	if len(items) <= maxNamed {
		return items
	}
	return append(items[:maxNamed:maxNamed], fmt.Sprintf("and %s more", count(len(items)-maxNamed, noun)))
}

func requestName(requests []pci.Request, id string) string {
	for _, r := range requests {
		if r.ID == id {
			return "alias " + r.Alias
		}
	}
	return "request " + id
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// also writes a sentence with what leads to it, or nothing.
func also(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}
