package schedule

import (
	"slices"
	"strings"
)

// The filters of the hints same_host and different_host.
const (
	FilterSameHost      Filter = "SameHostFilter"
	FilterDifferentHost Filter = "DifferentHostFilter"
)

// HostHints is what the scheduler hints same_host and different_host of a server require of its host, as it was when
// the host was searched. A nil *HostHints requires nothing.
type HostHints struct {
	Same      []string // ids of servers; the host must have one of them
	Different []string // ids of servers; the host must have none of them
	Hosts     map[string][]string
}

// has returns the servers of a list that a host has.
func (h *HostHints) has(host string, servers []string) (there []string) {
	for _, id := range servers {
		if slices.Contains(h.Hosts[id], host) {
			there = append(there, id)
		}
	}
	return there
}

// Refuse returns why the server must not be on a host; the reason is empty if it may.
func (h *HostHints) Refuse(host string) (filter Filter, reason string) {
	if h == nil {
		return "", ""
	}
	if len(h.Same) > 0 && len(h.has(host, h.Same)) == 0 {
		return FilterSameHost, "the hint same_host requires a host of " + strings.Join(h.Same, ", ")
	}
	if there := h.has(host, h.Different); len(there) > 0 {
		return FilterDifferentHost, "the hint different_host excludes the host of " + strings.Join(there, ", ")
	}
	return "", ""
}

// OnlyHost returns the only host that same_host permits; empty: there is no such restriction.
func (h *HostHints) OnlyHost() string {
	if h == nil || len(h.Same) == 0 {
		return ""
	}
	only := ""
	for _, id := range h.Same {
		for _, host := range h.Hosts[id] {
			if only != "" && only != host {
				return ""
			}
			only = host
		}
	}
	return only
}
