package journal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Identity is who the host is in Placement, and which agent this is.
type Identity struct {
	Host     string      // the hypervisor hostname, and the name of the root provider
	Provider provider.ID // of the root provider
	Instance string      // of the agent: as long as the journal lives, it is the same one; empty in a journal from before there were any
	Starts   int64       // how often an agent of this journal has begun; 0 in a journal from before it was counted
	Cloud    string      // whose assignments it follows; empty before the first line
	Machine  string      // machine-id(5) of the machine that wrote the journal; empty when it has none
}

// Position is the newest line of assignments that the agent has followed. The zero one precedes every line.
type Position struct {
	Epoch    int64
	EpochID  string
	Revision int64
}

func (id Identity) entry() entry {
	return entry{Kind: kindIdentity, Host: id.Host, Provider: id.Provider, Instance: id.Instance, Starts: id.Starts, Cloud: id.Cloud,
		Machine: id.Machine}
}

func (p Position) entry() entry {
	return entry{Kind: kindPosition, Epoch: p.Epoch, EpochID: p.EpochID, Revision: p.Revision}
}

// Part is one NUMA cell of a guest and where it lies. What it asks is kept too, so that what the guest uses can be told while nobody
// knows its assignment.
type GuestCell struct {
	VCPUs     []int  `json:"vcpus"`
	Dedicated []int  `json:"dedicated,omitempty"`
	Threads   string `json:"threads,omitempty"`
	MemoryMB  int    `json:"memory_mb"`
	PageKB    int    `json:"page_kb,omitempty"`  // as asked
	Emulator  int    `json:"emulator,omitempty"` // threads asked

	Node            int         `json:"node"`
	CPUs            map[int]int `json:"cpus,omitempty"`             // dedicated virtual CPU → host thread
	EmulatorThreads []int       `json:"emulator_threads,omitempty"` // of the host
	Pages           int         `json:"pages_kb,omitempty"`         // size of the pages that it has; 0: small ones
}

// Rename is that a server's entry was taken over from another one.
type Rename struct {
	Was  string
	Done bool // the hypervisor has been told
}

// Spent is that a device for one-time use has been used.
type Spent struct {
	Provider  provider.ID // where it was seen reserved in Placement; empty: nowhere yet
	Returning bool        // it has been cleaned, and what was reserved is to be given back
}

// Mark is what this agent has put on a provider and may therefore take away again: what others added stays.
type Owned struct {
	Classes []resource.Class
	Traits  []resource.Trait
}

func (m Owned) empty() bool { return len(m.Classes) == 0 && len(m.Traits) == 0 }

// State is what a journal says. It does not change.
type State struct {
	identity Identity
	position Position
	starts   []string                  // random ids of the agent's processes, from the last one that compute acknowledged on
	servers  map[string][]device.Claim // taken on; nil claims are a server without devices
	cells    map[string][]GuestCell    // where their NUMA cells lie
	gone     map[string]bool           // gone, but compute has not confirmed it
	owned    map[provider.ID]Owned
	renames  map[string]Rename // by the new name, as long as compute's line tells of it
	spent    map[pci.Address]Spent
}

// Identity is who the host is in Placement; ok is false when that is not written yet.
func (s State) Identity() (id Identity, ok bool) { return s.identity, s.identity != Identity{} }

// Position is the newest line of assignments that the agent has followed.
func (s State) Position() Position { return s.position }

// Starts lists the ids of the agent's processes, from the last one that compute acknowledged on, oldest first.
func (s State) Starts() []string { return slices.Clone(s.starts) }

// Servers lists the servers that this host has taken on, in order.
func (s State) Servers() []string { return slices.Sorted(maps.Keys(s.servers)) }

// Left lists the servers that are gone from this host without compute having confirmed it, in order.
func (s State) Gone() []string { return slices.Sorted(maps.Keys(s.gone)) }

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
func (s State) Owned() map[provider.ID]Owned { return maps.Clone(s.owned) }

// Parts are the NUMA cells of one server, by number; none when it has none.
func (s State) Cells(server string) []GuestCell { return slices.Clone(s.cells[server]) }

// Renames are the entries that were taken over from others, by their new names.
func (s State) Renames() map[string]Rename { return maps.Clone(s.renames) }

// Spent are the devices that have been used once and are not back.
func (s State) Spent() map[pci.Address]Spent { return maps.Clone(s.spent) }

func (s State) has(server string) bool {
	_, taken := s.servers[server]
	return taken || s.gone[server]
}

func (s State) clone() State {
	return State{identity: s.identity, position: s.position, starts: s.starts, servers: cloned(s.servers), cells: cloned(s.cells), gone: cloned(s.gone), owned: cloned(s.owned),
		renames: cloned(s.renames), spent: cloned(s.spent)}
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
		s.identity = Identity{Host: e.Host, Provider: e.Provider, Instance: e.Instance, Starts: e.Starts, Cloud: e.Cloud, Machine: e.Machine}
	case kindPosition:
		s.position = Position{Epoch: e.Epoch, EpochID: e.EpochID, Revision: e.Revision}
	case kindStarts:
		s.starts = e.StartIDs
	case kindServer:
		delete(s.gone, e.Server)
		s.put(e.Server, fromWire(e.Server, e.Claims), e.Cells)
	case kindGone:
		s.drop(e.Server)
		s.gone[e.Server] = true
	case kindRemoved:
		s.drop(e.Server)
		delete(s.gone, e.Server)
	case kindRenamed:
		s.rename(e)
	case kindUnrenamed:
		delete(s.renames, e.Server)
	case kindSpent:
		s.spent[pci.Address(*e.Address)] = Spent{Provider: e.Provider, Returning: e.Returning}
	case kindCleaned:
		delete(s.spent, pci.Address(*e.Address))
	case kindOwned:
		if m := (Owned{Classes: e.Classes, Traits: e.Traits}); m.empty() {
			delete(s.owned, e.Provider)
		} else {
			s.owned[e.Provider] = m
		}
	}
}

func (s *State) put(server string, claims []device.Claim, parts []GuestCell) {
	s.servers[server] = claims
	if delete(s.cells, server); len(parts) > 0 {
		s.cells[server] = parts
	}
}

func (s *State) drop(server string) {
	delete(s.servers, server)
	delete(s.cells, server)
}

// rename moves what one entry has to another, once; told again it only notes how far it is.
func (s *State) rename(e entry) {
	if s.renames[e.Server].Was != e.Was {
		if claims, there := s.servers[e.Was]; there {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Holder = resource.ConsumerID(e.Server)
			}
			s.put(e.Server, claims, s.cells[e.Was])
			s.drop(e.Was)
			delete(s.gone, e.Server)
		}
	}
	s.renames[e.Server] = Rename{Was: e.Was, Done: e.Done}
	if s.renames[e.Was].Was == e.Server { // there and back again
		delete(s.renames, e.Was)
	}
}

// entries says the whole state as the shortest list of entries.
func (s State) entries() []entry {
	list := []entry{{Kind: kindFormat, Version: version}}
	if id, ok := s.Identity(); ok {
		list = append(list, id.entry())
	}
	if s.position != (Position{}) {
		list = append(list, s.position.entry())
	}
	if len(s.starts) > 0 {
		list = append(list, entry{Kind: kindStarts, StartIDs: s.starts})
	}
	for _, id := range slices.Sorted(maps.Keys(s.owned)) {
		list = append(list, entry{Kind: kindOwned, Provider: id, Classes: s.owned[id].Classes, Traits: s.owned[id].Traits})
	}
	for _, id := range slices.Sorted(maps.Keys(s.renames)) { // before the servers, as there is nothing to move then
		list = append(list, entry{Kind: kindRenamed, Server: id, Was: s.renames[id].Was, Done: s.renames[id].Done})
	}
	for _, at := range slices.SortedFunc(maps.Keys(s.spent), pci.Address.Compare) {
		list = append(list, entry{Kind: kindSpent, Address: (*address)(&at), Provider: s.spent[at].Provider, Returning: s.spent[at].Returning})
	}
	for _, server := range s.Servers() {
		list = append(list, entry{Kind: kindServer, Server: server, Claims: toWire(s.servers[server]), Cells: s.cells[server]})
	}
	for _, server := range s.Gone() {
		list = append(list, entry{Kind: kindGone, Server: server})
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
