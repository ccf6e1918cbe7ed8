package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// concurrent is the code of a conflict that is solved by reading again.
const concurrent = "placement.concurrent_update"

// fakePlacement implements Placement's rules in memory; it is simple rather than fast.
type fakePlacement struct {
	providers map[provider.ID]*provider.Provider
	trees     map[provider.ID][]provider.ID // by root, the root first
	uses      map[provider.ID]map[resource.ConsumerID]resource.Amounts
	sums      map[provider.ID]resource.Amounts // of uses
	consumers map[resource.ConsumerID]consumer
	snapshot  *index.Snapshot
	stale     map[provider.ID]bool // roots whose tree the snapshot does not show as it is
	touched   func(root provider.ID)
	lenient   bool // breaks the rule of capacity on purpose
	misses    []string
	cleaned   map[provider.ID]bool // reserved may sink: an operator has had the device cleaned
}

// consumer is what one consumer holds.
type consumer struct {
	holds      resource.Allocation
	generation int // 0: it does not exist
}

func newLedger(touched func(provider.ID)) *fakePlacement {
	return &fakePlacement{providers: map[provider.ID]*provider.Provider{}, trees: map[provider.ID][]provider.ID{},
		uses: map[provider.ID]map[resource.ConsumerID]resource.Amounts{}, consumers: map[resource.ConsumerID]consumer{},
		sums: map[provider.ID]resource.Amounts{}, snapshot: index.Build(nil), stale: map[provider.ID]bool{}, touched: touched,
		cleaned: map[provider.ID]bool{}}
}

func (l *fakePlacement) touch(p *provider.Provider) {
	l.stale[p.Root] = true
	l.touched(p.Root)
}

// see is the fleet as it is now.
func (l *fakePlacement) see() *index.Snapshot {
	for _, root := range slices.Sorted(maps.Keys(l.stale)) {
		var rows []index.Row
		for _, id := range l.trees[root] {
			rows = append(rows, index.Row{Provider: *l.providers[id], Used: l.used(id)})
		}
		l.snapshot = l.snapshot.Replace(root, rows)
	}
	clear(l.stale)
	return l.snapshot
}

// tree is one tree as it is now.
func (l *fakePlacement) tree(root provider.ID) provider.Tree {
	var t provider.Tree
	for _, id := range l.trees[root] {
		t.Providers = append(t.Providers, *l.providers[id])
	}
	return t
}

// used is how much of a provider is taken: what write counts, as recount proves at each rest.
func (l *fakePlacement) used(id provider.ID) resource.Amounts { return l.sums[id] }

func (l *fakePlacement) recount(id provider.ID) resource.Amounts {
	sum := resource.Amounts{}
	for _, amounts := range l.uses[id] {
		for class, n := range amounts {
			sum[class] += n
		}
	}
	return sum
}

// at finds a provider as it was seen.
func (l *fakePlacement) at(id provider.ID, generation int) (*provider.Provider, error) {
	p := l.providers[id]
	switch {
	case p == nil:
		return nil, fault.New(fault.NotFound, "ledger", "there is no provider %s", id)
	case p.Generation != generation:
		return nil, fault.New(fault.Conflict, "ledger", "provider %s has generation %d, not %d", p.Name, p.Generation,
			generation).WithCode(concurrent)
	}
	return p, nil
}

func (l *fakePlacement) createProvider(id provider.ID, name string, parent provider.ID) {
	if l.providers[id] != nil {
		return
	}
	p := &provider.Provider{ID: id, Name: name, Parent: parent, Root: id}
	if parent != "" {
		p.Root = l.providers[parent].Root
	}
	l.providers[id], l.trees[p.Root] = p, append(l.trees[p.Root], id)
	l.touch(p)
}

func (l *fakePlacement) deleteProvider(id provider.ID) error {
	p := l.providers[id]
	if p == nil {
		return nil
	}
	if len(l.uses[id]) > 0 {
		return fault.New(fault.Conflict, "ledger", "provider %s is in use", p.Name)
	}
	delete(l.providers, id)
	l.trees[p.Root] = slices.DeleteFunc(l.trees[p.Root], func(o provider.ID) bool { return o == id })
	l.touch(p)
	return nil
}

func (l *fakePlacement) putTraits(id provider.ID, generation int, traits []resource.Trait) (int, error) {
	p, err := l.at(id, generation)
	if err != nil {
		return 0, err
	}
	p.Traits, p.Generation = slices.Clone(traits), p.Generation+1
	l.touch(p)
	return p.Generation, nil
}

func (l *fakePlacement) putInventories(id provider.ID, generation int,
	all map[resource.Class]resource.Inventory) (int, error) {
	p, err := l.at(id, generation)
	if err != nil {
		return 0, err
	}
	used := l.used(id)
	for class := range p.Inventories {
		if _, still := all[class]; !still && used[class] > 0 {
			return 0, fault.New(fault.Conflict, "ledger", "%s of %s is in use", class, p.Name)
		}
	}
	for class, inv := range all {
		if was := p.Inventories[class]; inv.Reserved < min(was.Reserved, inv.Total) && p.Parent != "" && !l.cleaned[id] {
			l.misses = append(l.misses, fmt.Sprintf("reserved: %s of %s sinks from %d to %d, and nobody has cleaned the device",
				class, p.Name, was.Reserved, inv.Reserved))
		} else if was.Reserved > 0 && inv.Reserved == 0 {
			delete(l.cleaned, id)
		}
	}
	p.Inventories, p.Generation = maps.Clone(all), p.Generation+1
	l.touch(p)
	return p.Generation, nil
}

// claim is what a consumer shall hold, as its caller saw it.
type claim struct {
	holds      resource.Allocation
	generation int
}

// put is PUT and POST /allocations: all or nothing, each consumer as it was seen.
func (l *fakePlacement) put(claims map[resource.ConsumerID]claim) error {
	names := slices.Sorted(maps.Keys(claims))
	before := map[resource.ConsumerID]consumer{}
	for _, c := range names {
		if l.consumers[c].generation != claims[c].generation {
			return fault.New(fault.Conflict, "ledger", "consumer %s has changed", c).WithCode(concurrent)
		}
		before[c] = l.consumers[c]
	}
	for _, c := range names {
		l.write(c, consumer{generation: before[c].generation})
	}
	for _, c := range names {
		err := l.fits(c, claims[c].holds)
		if err != nil {
			for _, c := range names {
				l.write(c, before[c])
			}
			return err
		}
		l.write(c, consumer{holds: claims[c].holds, generation: before[c].generation + 1})
	}
	return nil
}

func (l *fakePlacement) fits(c resource.ConsumerID, holds resource.Allocation) error {
	for _, id := range slices.Sorted(maps.Keys(holds)) {
		p := l.providers[id]
		if p == nil {
			return fault.New(fault.Invalid, "ledger", "there is no provider %s", id)
		}
		used := l.used(id)
		for _, class := range holds[id].Sorted() {
			inv, offered := p.Inventories[class]
			if no := inv.Shape; !l.lenient && (!offered || !no(holds[id][class]) || !inv.Fits(used[class], holds[id][class])) {
				return fault.New(fault.Conflict, "ledger", "%s of %s does not fit for %s: %d of %d are taken", class, p.Name, c,
					used[class], inv.Capacity())
			}
		}
	}
	return nil
}

// write makes a consumer hold this and no more. One that holds nothing is no more. Providers written to have another
// generation.
func (l *fakePlacement) write(c resource.ConsumerID, now consumer) {
	for id, amounts := range l.consumers[c].holds {
		delete(l.uses[id], c)
		for class, n := range amounts {
			if l.sums[id][class] -= n; l.sums[id][class] == 0 {
				delete(l.sums[id], class)
			}
		}
		if p := l.providers[id]; p != nil {
			l.touch(p)
		}
	}
	for id, amounts := range now.holds {
		if l.uses[id] == nil {
			l.uses[id], l.sums[id] = map[resource.ConsumerID]resource.Amounts{}, resource.Amounts{}
		}
		l.uses[id][c] = amounts
		for class, n := range amounts {
			l.sums[id][class] += n
		}
		if p := l.providers[id]; p != nil {
			p.Generation++
			l.touch(p)
		}
	}
	if len(now.holds) == 0 {
		delete(l.consumers, c)
		return
	}
	l.consumers[c] = now
}

// drop takes everything from a consumer. It raises no generation.
func (l *fakePlacement) drop(c resource.ConsumerID) { l.write(c, consumer{}) }

// reshape writes inventories and allocations in one.
func (l *fakePlacement) reshape(stocks map[provider.ID]map[resource.Class]resource.Inventory,
	generations map[provider.ID]int,
	claims map[resource.ConsumerID]claim) error {
	for _, id := range slices.Sorted(maps.Keys(stocks)) {
		if _, err := l.at(id, generations[id]); err != nil {
			return err
		}
	}
	before := map[provider.ID]map[resource.Class]resource.Inventory{}
	for _, id := range slices.Sorted(maps.Keys(stocks)) {
		before[id] = l.providers[id].Inventories
		l.providers[id].Inventories = maps.Clone(stocks[id])
	}
	err := l.put(claims)
	for id, was := range before {
		l.providers[id].Generation++
		l.touch(l.providers[id])
		if err != nil {
			l.providers[id].Inventories = was
		}
	}
	return err
}
