// Package placementtest is a Placement service in memory, for tests and for internal/sim.
//
// A Placement has the methods of *placement.Client that the agent and compute call, and the rules of the real service
// that they depend on: generations of providers and consumers, capacity, the codes of conflicts, and the candidates of
// package placement/candidate. A test in placement/server runs the same calls against both and compares the answers.
//
// Differences: there are no aggregates; each class and trait without the prefix CUSTOM_ exists; an empty list of
// candidates has no reason; the search for candidates is breadth-first.
package placementtest

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is one client of a Placement service in memory. It is safe for concurrent use, and deterministic. Returned
// maps and slices belong to the caller unless the method states otherwise.
type Placement struct {
	// Fail is called before each call of a method with a context, without a lock; nil: no call fails. If it returns
	// before, the call returns this error and has no effect. If it returns after, the call has its effect and returns
	// this error instead of its answer. Set it before the first call.
	Fail func(Call) (before, after error)

	// NoTreeStates makes TreeAllocations return no state and only the root, like OpenStack's Placement.
	NoTreeStates bool

	*database
}

// Call is one call of a method with a context.
type Call struct {
	Op       string                // name of the method
	Provider provider.ID           // that the call names, or empty
	Consumer []resource.ConsumerID // that the call names, sorted
}

// Writes reports whether the call can change anything.
func (c Call) Writes() bool {
	switch c.Op {
	case "ProviderByName", "Tree", "ProviderAllocations", "TreeAllocations", "Allocation", "Inventories", "Usages",
		"Candidates":
		return false
	}
	return true
}

// database is what the clients of one service share. Inventories, traits and allocations in it are never modified, only
// replaced, so that copies can share them.
type database struct {
	mu        sync.Mutex
	providers map[provider.ID]*provider.Provider
	trees     map[provider.ID][]provider.ID // by root, in the order of creation
	consumers map[resource.ConsumerID]consumer
	holders   map[provider.ID]map[resource.ConsumerID]resource.Amounts
	used      map[provider.ID]resource.Amounts // the sums of holders
	classes   map[resource.Class]bool          // custom ones
	traits    map[resource.Trait]bool          // custom ones
	snapshot  *index.Snapshot
	stale     map[provider.ID]bool // roots of trees that have changed since the snapshot
	restores  int                  // of the whole content
	writes    map[provider.ID]treeWrites
	changed   func(root provider.ID)
	older     bool // see RefuseOverCapacity
}

// treeWrites counts the writes of allocations on the providers of one tree.
type treeWrites struct{ removals, additions int }

// consumer is a consumer with an allocation.
type consumer struct {
	allocation          resource.Allocation
	generation          int // from 1
	project, user, kind string
}

// New returns an empty service. changed is called with the root of each tree that changes, while the service is locked;
// nil: nothing is called.
func New(changed func(root provider.ID)) *Placement {
	if changed == nil {
		changed = func(provider.ID) {}
	}
	return &Placement{database: &database{
		providers: map[provider.ID]*provider.Provider{}, trees: map[provider.ID][]provider.ID{},
		consumers: map[resource.ConsumerID]consumer{},
		holders:   map[provider.ID]map[resource.ConsumerID]resource.Amounts{}, used: map[provider.ID]resource.Amounts{},
		classes: map[resource.Class]bool{}, traits: map[resource.Trait]bool{},
		snapshot: index.Build(nil), stale: map[provider.ID]bool{}, changed: changed,
		writes: map[provider.ID]treeWrites{},
	}}
}

// RefuseOverCapacity makes the service refuse each claim after which a class is used above its capacity, also if the
// claim does not make that worse, like OpenStack's Placement before 14.0.0.
func (p *Placement) RefuseOverCapacity() { p.setOlder(true) }

// AcceptOverCapacity is the reverse of RefuseOverCapacity, and the default.
func (p *Placement) AcceptOverCapacity() { p.setOlder(false) }

func (p *Placement) setOlder(older bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.older = older
}

// Client returns another client of the same service, with its own Fail.
func (p *Placement) Client(fail func(Call) (before, after error)) *Placement {
	return &Placement{Fail: fail, database: p.database}
}

// Clone returns a service with the same content, as a backup of its database.
func (p *Placement) Clone() *Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := New(nil)
	out.copyFrom(p.database)
	return out
}

// Restore replaces the content of the service by that of another one, as from a backup of its database. The other one
// does not change.
func (p *Placement) Restore(from *Placement) {
	from.mu.Lock()
	saved := New(nil)
	saved.copyFrom(from.database)
	from.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	roots := slices.Concat(slices.Collect(maps.Keys(p.trees)), slices.Collect(maps.Keys(saved.trees)))
	p.copyFrom(saved.database)
	p.restores++
	slices.Sort(roots)
	for _, root := range slices.Compact(roots) {
		p.touch(root)
	}
}

// copyFrom replaces the content by a copy of another database's content.
func (d *database) copyFrom(from *database) {
	d.providers = make(map[provider.ID]*provider.Provider, len(from.providers))
	for id, p := range from.providers {
		next := *p
		d.providers[id] = &next
	}
	d.trees = make(map[provider.ID][]provider.ID, len(from.trees))
	for root, list := range from.trees {
		d.trees[root] = slices.Clone(list)
	}
	d.consumers = maps.Clone(from.consumers)
	d.holders = make(map[provider.ID]map[resource.ConsumerID]resource.Amounts, len(from.holders))
	d.used = make(map[provider.ID]resource.Amounts, len(from.used))
	for id, all := range from.holders {
		d.holders[id], d.used[id] = maps.Clone(all), maps.Clone(from.used[id])
	}
	d.classes, d.traits = maps.Clone(from.classes), maps.Clone(from.traits)
	d.snapshot, d.stale = from.snapshot, maps.Clone(from.stale)
}

// do runs one call: the injected fault before it, its effect under the lock, and the injected fault after it.
func (p *Placement) do(call Call, effect func() error) error {
	var before, after error
	if p.Fail != nil {
		if before, after = p.Fail(call); before != nil {
			return before
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(after, effect())
}

// touch notes that a tree has changed.
func (d *database) touch(root provider.ID) {
	d.stale[root] = true
	d.changed(root)
}

// find returns a provider; fault.NotFound if it does not exist.
func (d *database) find(id provider.ID) (*provider.Provider, error) {
	if p := d.providers[id]; p != nil {
		return p, nil
	}
	return nil, refuse(fault.NotFound, "No resource provider with uuid %s is known", id)
}

// findAt returns a provider of a generation; fault.NotFound or a concurrent update.
func (d *database) findAt(id provider.ID, generation int) (*provider.Provider, error) {
	p, err := d.find(id)
	if err == nil && p.Generation != generation {
		err = concurrent("the resource provider %s has generation %d now, not %d", id, p.Generation, generation)
	}
	return p, err
}

// refuse returns an error as the client returns it for an answer with an error status.
func refuse(kind fault.Kind, format string, args ...any) *fault.Error {
	return fault.New(kind, format, args...).WithCode(placement.CodeUndefined)
}

func concurrent(format string, args ...any) error {
	return refuse(fault.Conflict, format, args...).WithCode(placement.CodeConcurrentUpdate)
}
