package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// fakeJournal is the agent's journal on disk; each change of it is one write.
type fakeJournal struct {
	servers map[string][]device.Claim
	parts   map[string]place
	left    map[string]bool
	renames map[string]rename
	marks   heal.OwnedSet
	spent   map[pci.Address]spent

	identity identity
	position host.Position // of the newest line that was followed
	starts   []string      // ids of the agent's processes, from the last one that compute acknowledged on
	followed stamp         // oracle: the state of compute's database of which that line was
}

// identity is whose journal it is. The zero one is that of a journal that has just been made.
type identity struct {
	instance string
	starts   int64  // how often an agent of this journal has begun
	cloud    string // whose assignments it follows; empty before the first line
	install  string // machine-id of the machine that wrote it
}

// place is where the NUMA cells of a guest lie.
type place struct {
	parts  []numa.GuestCell
	placed []numa.Placed
}

type rename struct {
	was  string
	done bool
}

type spent struct {
	in        provider.ID // where it was seen reserved
	returning bool
}

func newJournal() fakeJournal {
	return fakeJournal{servers: map[string][]device.Claim{}, parts: map[string]place{}, left: map[string]bool{},
		renames: map[string]rename{}, marks: heal.OwnedSet{}, spent: map[pci.Address]spent{}}
}

// clone returns a copy that shares nothing that changes.
func (b fakeJournal) clone() fakeJournal {
	b.servers, b.parts = maps.Clone(b.servers), maps.Clone(b.parts)
	b.left, b.renames = maps.Clone(b.left), maps.Clone(b.renames)
	b.marks, b.spent, b.starts = maps.Clone(b.marks), maps.Clone(b.spent), slices.Clone(b.starts)
	return b
}

// vacate is the journal's word for what stands no more.
func (b *fakeJournal) vacate(id string) {
	delete(b.servers, id)
	delete(b.parts, id)
}

// leave records that nothing of a server is on the host and that compute does not know it yet.
func (b *fakeJournal) leave(id string) {
	b.vacate(id)
	b.left[id] = true
}

// forget drops a server.
func (b *fakeJournal) forget(id string) {
	b.vacate(id)
	delete(b.left, id)
}

// owed says whether an entry has yet to take over from another.
func (b *fakeJournal) owed(w want) bool {
	r := b.renames[w.id]
	return w.was != "" && w.was != w.id && (r.was != w.was || !r.done)
}

// rename is one write.
func (b *fakeJournal) rename(was, id string) {
	b.renames[id] = rename{was: was}
	if b.renames[was].was == id { // there and back again
		delete(b.renames, was)
	}
	if claims, there := b.servers[was]; there {
		claims = slices.Clone(claims)
		for i := range claims {
			claims[i].Holder = resource.ConsumerID(id)
		}
		b.servers[id] = claims
		delete(b.left, id)
		if delete(b.parts, id); len(b.parts[was].parts) > 0 {
			b.parts[id] = b.parts[was]
		}
		b.vacate(was)
	}
}

// standing lists all whom the journal or the hypervisor knows, in order.
func (m *simHost) standing() []string {
	all := map[string]bool{}
	for id := range m.journal.servers {
		all[id] = true
	}
	for id := range m.journal.left {
		all[id] = true
	}
	for id := range m.guests {
		all[id] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// standsAs is the id under which a guest stands that was about to be renamed.
func (m *simHost) standsAs(id string) string {
	for now, r := range m.journal.renames {
		if r.was == id && !r.done {
			return now
		}
	}
	return id
}
