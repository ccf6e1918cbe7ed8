package lifecycle

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// HostNames lists the hosts that the record names: those that texts about the server may name.
func (s Server) HostNames() []string {
	hosts := append(slices.Collect(maps.Keys(s.FailedHosts)), s.Host, s.Target)
	for _, residence := range s.Residences() {
		hosts = append(hosts, residence.Host)
	}
	for _, choice := range s.Choices {
		hosts = append(hosts, choice.Host)
	}
	if s.Move != nil {
		hosts = append(hosts, s.Move.To)
	}
	if s.Migration != nil {
		hosts = append(hosts, s.Migration.From, s.Migration.To)
	}
	slices.Sort(hosts)
	return slices.DeleteFunc(slices.Compact(hosts), func(host string) bool { return host == "" })
}

// WithoutHosts returns a text about the server without the names of hosts, which only administrators see.
func (s Server) WithoutHosts(text string) string {
	var names []string
	for _, host := range s.HostNames() {
		if strings.Contains(text, host) {
			names = append(names, regexp.QuoteMeta(host))
		}
	}
	if len(names) == 0 {
		return text
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // not a part of a longer name
	name := regexp.MustCompile(`(^|[^\w.-])(?:host )?(?:` + strings.Join(names, "|") + `)(\.?(?:[^\w.-]|$))`)
	for range 2 { // two names may share the character between them
		text = name.ReplaceAllString(text, "${1}host (hidden)${2}")
	}
	return text
}
