package journal

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// State is the content of a journal. It is immutable.
type State struct {
	identity Identity
	position Position
	starts   []string                  // ids of the agent's processes since the last acknowledged one
	servers  map[string][]device.Claim // of this host; nil claims: a server without devices
	cells    map[string][]GuestCell    // NUMA cells of the servers
	built    map[string]int            // servers whose guest was built here, with its number of rebuilds
	gone     map[string]bool           // removed, and compute has not confirmed it
	ended    map[string]int64          // Unix times at which servers were removed and confirmed, for a day
	owned    map[provider.ID]Owned
	renames  map[string]Rename // by the new id, as long as compute's assignments mention it
	spent    map[device.ID]Spent
	devices  deviceHealth
}

// Identity returns the host's identity in Placement; ok is false when none is recorded.
func (s State) Identity() (id Identity, ok bool) { return s.identity, s.identity != Identity{} }

// Position returns the position of the newest assignments that the agent has followed.
func (s State) Position() Position { return s.position }

// Starts lists the ids of the agent's processes since the last one that compute acknowledged, oldest first.
func (s State) Starts() []string { return slices.Clone(s.starts) }

// Servers lists the servers of this host, in order.
func (s State) Servers() []string { return slices.Sorted(maps.Keys(s.servers)) }

// Gone lists the servers that were removed from this host without compute having confirmed it, in order.
func (s State) Gone() []string { return slices.Sorted(maps.Keys(s.gone)) }

// All iterates over Servers and Gone in no order, and without a list of all of them.
func (s State) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := range s.servers {
			if !yield(id) {
				return
			}
		}
		for id := range s.gone {
			if !yield(id) {
				return
			}
		}
	}
}

// Of lists the claims of one server, by address; ok is false when the host does not have the server.
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

// Owned returns what this agent has written to each provider.
func (s State) Owned() map[provider.ID]Owned { return maps.Clone(s.owned) }

// Cells returns the NUMA cells of one server, by number; none when it has none.
func (s State) Cells(server string) []GuestCell { return slices.Clone(s.cells[server]) }

// Renames returns the renames by their new ids.
func (s State) Renames() map[string]Rename { return maps.Clone(s.renames) }

// Spent returns the devices that have been used once and are not yet available again.
func (s State) Spent() map[device.ID]Spent { return maps.Clone(s.spent) }

// Built returns the number of rebuilds of the guest of a server; ok is false if none was built here.
func (s State) Built(server string) (build int, ok bool) {
	build, ok = s.built[server]
	return build, ok
}

// Ended reports whether the guest of a server was removed here during the last day, and none was claimed since.
func (s State) Ended(server string) bool {
	_, ended := s.ended[server]
	return ended
}

// Has reports whether the journal has an entry of a server.
func (s State) Has(server string) bool {
	_, present := s.servers[server]
	return present || s.gone[server]
}

// emptyState returns the state of a journal without entries. Its maps are not nil, as those of a state that was
// emptied.
func emptyState() State {
	return State{servers: map[string][]device.Claim{}, cells: map[string][]GuestCell{}, gone: map[string]bool{},
		built: map[string]int{}, ended: map[string]int64{}, owned: map[provider.ID]Owned{}, renames: map[string]Rename{},
		spent: map[device.ID]Spent{}, devices: emptyHealth()}
}

// cloneFor returns a state with its own copies of what entries of these kinds change. The rest is shared.
func (s State) cloneFor(entries []Entry) State {
	changes := func(kinds ...string) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return slices.Contains(kinds, e.Kind) })
	}
	if changes(kindServer, kindGone, kindRemoved, kindRenamed) {
		s.servers, s.cells, s.gone = cloned(s.servers), cloned(s.cells), cloned(s.gone)
		s.built, s.ended = cloned(s.built), cloned(s.ended)
	}
	if changes(kindBuilt, kindUnbuilt) {
		s.built = cloned(s.built)
	}
	if changes(kindRenamed, kindUnrenamed) {
		s.renames = cloned(s.renames)
	}
	if changes(kindSpent, kindCleaned) {
		s.spent = cloned(s.spent)
	}
	if changes(kindDisabled, kindEnabled, kindReserved, kindErrors, kindVFs) {
		s.devices = s.devices.clone()
	}
	if changes(kindOwned) {
		s.owned = cloned(s.owned)
	}
	return s
}

// cloned returns a copy that is never nil.
func cloned[M ~map[K]V, K comparable, V any](m M) M {
	out := make(M, len(m)+1)
	maps.Copy(out, m)
	return out
}

// With returns the state after further entries.
func (s State) With(entries ...Entry) State {
	n := s.cloneFor(entries)
	for _, e := range entries {
		n.apply(e)
	}
	return n
}

func (s *State) apply(e Entry) {
	switch e.Kind {
	case kindIdentity:
		s.identity = Identity{Host: e.Host, Provider: e.Provider, Instance: e.Instance, Starts: e.Starts, Cloud: e.Cloud,
			Machine: e.Machine}
	case kindPosition:
		s.position = Position{Epoch: e.Epoch, EpochID: e.EpochID, Revision: e.Revision}
	case kindStarts:
		s.starts = e.StartIDs
	case kindServer:
		delete(s.gone, e.Server)
		delete(s.ended, e.Server)
		s.put(e.Server, fromWire(e.Server, e.Claims), e.Cells)
	case kindGone:
		s.drop(e.Server)
		delete(s.ended, e.Server)
		s.gone[e.Server] = true
	case kindRemoved:
		s.drop(e.Server)
		delete(s.gone, e.Server)
		s.end(e.Server, e.At)
	case kindBuilt:
		s.built[e.Server] = e.Build
	case kindUnbuilt:
		delete(s.built, e.Server)
	case kindRenamed:
		s.rename(e)
	case kindUnrenamed:
		delete(s.renames, e.Server)
	case kindSpent:
		s.spent[*e.Device] = Spent{Provider: e.Provider, Returning: e.Returning}
	case kindCleaned:
		delete(s.spent, *e.Device)
	case kindDisabled, kindEnabled, kindReserved, kindErrors, kindVFs:
		s.devices.apply(e)
	case kindOwned:
		if owned := (Owned{Classes: e.Classes, Traits: e.Traits}); owned.empty() {
			delete(s.owned, e.Provider)
		} else {
			s.owned[e.Provider] = owned
		}
	}
}

func (s *State) put(server string, claims []device.Claim, cells []GuestCell) {
	s.servers[server] = claims
	if delete(s.cells, server); len(cells) > 0 {
		s.cells[server] = cells
	}
}

func (s *State) drop(server string) {
	delete(s.servers, server)
	delete(s.cells, server)
	delete(s.built, server)
}

// The limits of what is kept of removed servers.
const (
	endedSeconds = 24 * 60 * 60
	endedServers = 1000
)

// end keeps that a server has ended, and forgets those of more than a day before the newest, and the oldest of too
// many.
func (s *State) end(server string, at int64) {
	if at <= 0 {
		return
	}
	s.ended[server] = at
	newest := slices.Max(slices.Collect(maps.Values(s.ended)))
	maps.DeleteFunc(s.ended, func(_ string, then int64) bool { return newest-then > endedSeconds })
	if ids := s.endedInOrder(); len(ids) > endedServers {
		delete(s.ended, ids[0])
	}
}

// endedInOrder lists the servers that have ended, oldest first.
func (s State) endedInOrder() []string {
	return slices.SortedFunc(maps.Keys(s.ended), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ended[a], s.ended[b]), cmp.Compare(a, b))
	})
}

// rename moves the claims and cells of one id to another, once; a repetition only updates Done.
func (s *State) rename(e Entry) {
	if s.renames[e.Server].Was != e.Was {
		if claims, exists := s.servers[e.Was]; exists {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Holder = resource.ConsumerID(e.Server)
			}
			build, built := s.built[e.Was]
			s.put(e.Server, claims, s.cells[e.Was])
			s.drop(e.Was)
			delete(s.gone, e.Server)
			delete(s.ended, e.Server)
			if delete(s.built, e.Server); built {
				s.built[e.Server] = build
			}
		}
	}
	s.renames[e.Server] = Rename{Was: e.Was, Done: e.Done}
	if s.renames[e.Was].Was == e.Server { // the reverse of an earlier rename
		delete(s.renames, e.Was)
	}
}

// entries returns the whole state as the shortest list of entries.
func (s State) entries() []Entry {
	list := []Entry{{Kind: kindFormat, Version: version}}
	if id, ok := s.Identity(); ok {
		list = append(list, id.Entry())
	}
	if s.position != (Position{}) {
		list = append(list, s.position.Entry())
	}
	if len(s.starts) > 0 {
		list = append(list, Entry{Kind: kindStarts, StartIDs: s.starts})
	}
	for _, id := range slices.Sorted(maps.Keys(s.owned)) {
		list = append(list, Entry{Kind: kindOwned, Provider: id, Classes: s.owned[id].Classes, Traits: s.owned[id].Traits})
	}
	for _, id := range slices.Sorted(maps.Keys(s.renames)) { // before the servers, so that replaying them moves nothing
		list = append(list, Entry{Kind: kindRenamed, Server: id, Was: s.renames[id].Was, Done: s.renames[id].Done})
	}
	for _, id := range slices.SortedFunc(maps.Keys(s.spent), device.ID.Compare) {
		list = append(list, Entry{Kind: kindSpent, Device: &id, Provider: s.spent[id].Provider,
			Returning: s.spent[id].Returning})
	}
	list = append(list, s.devices.entries()...)
	for _, server := range s.Servers() {
		list = append(list, Entry{Kind: kindServer, Server: server, Claims: toWire(s.servers[server]),
			Cells: s.cells[server]})
	}
	for _, server := range s.Gone() {
		list = append(list, Entry{Kind: kindGone, Server: server})
	}
	for _, server := range s.endedInOrder() {
		list = append(list, Entry{Kind: kindRemoved, Server: server, At: s.ended[server]})
	}
	for _, server := range slices.Sorted(maps.Keys(s.built)) { // last, because the others delete them
		list = append(list, Built(server, s.built[server]))
	}
	return list
}

// size returns the number of lines that the state needs: the length of entries.
func (s State) size() int {
	n := 1 + len(s.owned) + len(s.renames) + len(s.spent) + len(s.servers) + len(s.gone) +
		len(s.built) + len(s.ended) + s.devices.size()
	if _, ok := s.Identity(); ok {
		n++
	}
	if s.position != (Position{}) {
		n++
	}
	if len(s.starts) > 0 {
		n++
	}
	return n
}
