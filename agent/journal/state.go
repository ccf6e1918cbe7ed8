package journal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Identity is who the host is in Placement, and which agent this is.
type Identity struct {
	Host     string      // the hypervisor hostname, and the name of the root provider
	Provider provider.ID // of the root provider
	Instance string      // of the agent: as long as the journal lives, it is the same one; empty in a journal from before there were any
}

// Mark is what this agent has put on a provider and may therefore take away again: what others added stays.
type Mark struct {
	Classes []resource.Class
	Traits  []resource.Trait
}

func (m Mark) empty() bool { return len(m.Classes) == 0 && len(m.Traits) == 0 }

// State is what a journal says. It does not change.
type State struct {
	identity Identity
	servers  map[string][]device.Claim // taken on; nil claims are a server without devices
	left     map[string]bool           // gone, but compute has not confirmed it
	marks    map[provider.ID]Mark
}

// Identity is who the host is in Placement; ok is false when that is not written yet.
func (s State) Identity() (id Identity, ok bool) { return s.identity, s.identity != Identity{} }

// Servers lists the servers that this host has taken on, in order.
func (s State) Servers() []string { return slices.Sorted(maps.Keys(s.servers)) }

// Left lists the servers that are gone from this host without compute having confirmed it, in order.
func (s State) Left() []string { return slices.Sorted(maps.Keys(s.left)) }

// Of lists the claims of one server, by address; ok is false when the host has not taken it on.
func (s State) Of(server string) (claims []device.Claim, ok bool) {
	claims, ok = s.servers[server]
	return slices.Clone(claims), ok
}

// Claims lists all claims, by server and address.
func (s State) Claims() []device.Claim {
	var all []device.Claim
	for _, server := range s.Servers() {
		all = append(all, s.servers[server]...)
	}
	return all
}

// Marks is what this agent has put on each provider.
func (s State) Marks() map[provider.ID]Mark { return maps.Clone(s.marks) }

func (s State) has(server string) bool {
	_, taken := s.servers[server]
	return taken || s.left[server]
}

func (s State) clone() State {
	return State{identity: s.identity, servers: cloned(s.servers), left: cloned(s.left), marks: cloned(s.marks)}
}

// cloned is never nil, so that it can be written to.
func cloned[M ~map[K]V, K comparable, V any](m M) M {
	out := make(M, len(m)+1)
	maps.Copy(out, m)
	return out
}

// with is the state after one more entry.
func (s State) with(e entry) State {
	n := s.clone()
	n.apply(e)
	return n
}

func (s *State) apply(e entry) {
	switch e.Kind {
	case kindIdentity:
		s.identity = Identity{Host: e.Host, Provider: e.Provider, Instance: e.Instance}
	case kindServer:
		delete(s.left, e.Server)
		s.servers[e.Server] = fromWire(e.Server, e.Claims)
	case kindLeft:
		delete(s.servers, e.Server)
		s.left[e.Server] = true
	case kindRemoved:
		delete(s.servers, e.Server)
		delete(s.left, e.Server)
	case kindMark:
		if m := (Mark{Classes: e.Classes, Traits: e.Traits}); m.empty() {
			delete(s.marks, e.Provider)
		} else {
			s.marks[e.Provider] = m
		}
	}
}

// entries says the whole state as the shortest list of entries.
func (s State) entries() []entry {
	list := []entry{{Kind: kindFormat, Version: version}}
	if id, ok := s.Identity(); ok {
		list = append(list, entry{Kind: kindIdentity, Host: id.Host, Provider: id.Provider, Instance: id.Instance})
	}
	for _, id := range slices.Sorted(maps.Keys(s.marks)) {
		list = append(list, entry{Kind: kindMark, Provider: id, Classes: s.marks[id].Classes, Traits: s.marks[id].Traits})
	}
	for _, server := range s.Servers() {
		list = append(list, entry{Kind: kindServer, Server: server, Claims: toWire(s.servers[server])})
	}
	for _, server := range s.Left() {
		list = append(list, entry{Kind: kindLeft, Server: server})
	}
	return list
}

// size is how many lines the state needs.
func (s State) size() int { return len(s.entries()) }

func sortClaims(claims []device.Claim) {
	slices.SortFunc(claims, func(a, b device.Claim) int {
		return cmp.Or(a.Device.Address.Compare(b.Device.Address), cmp.Compare(a.Request, b.Request))
	})
}
