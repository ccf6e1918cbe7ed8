package events

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The kinds of objects.
const (
	Provider   = "provider"
	Inventory  = "inventory"
	Allocation = "allocation" // what one consumer has of one provider
)

// Kinds lists the kinds of objects.
func Kinds() []string { return []string{Provider, Inventory, Allocation} }

const (
	keptChanges = 1 << 16
	interval    = 100 * time.Millisecond // at which the index is compared with what the Log has
	retryWait   = time.Second            // after an error of the database
	unwatched   = 5 * time.Minute        // after which the Log is dropped
)

// Source is what a Follower reads. placement/store implements the first method, the live index the second.
type Source struct {
	Shares   func(ctx context.Context, roots ...provider.ID) ([]store.Share, error)
	Snapshot func() *index.Snapshot
}

// Follower keeps a Log equal to the database, from the first client on until a while after the last one has left. It
// compares snapshots of the live index, which follows the writes of all processes, and reads the allocations of the
// trees that differ.
type Follower struct {
	source  Source
	log     *slog.Logger
	keep    time.Duration // how long a Log without clients is kept
	arrived chan struct{} // a client has come since Run looked last

	mu        sync.Mutex
	following *following // nil: no client has come
	clients   int
	left      time.Time            // when the last client left
	touched   map[provider.ID]bool // roots of trees that this process has written
}

// following is a Log and what its changes are found with.
type following struct {
	events *Log
	ready  chan struct{} // closed when the Log has the state of the database

	// Used by Run only.
	seen  *index.Snapshot
	owner map[Key]provider.ID // the root of the tree that each object is in
	keys  map[provider.ID]map[Key]bool
}

// NewFollower returns a Follower. Nothing happens before Run and a call of Log.
func NewFollower(source Source, log *slog.Logger) *Follower {
	return &Follower{source: source, log: log, keep: unwatched, arrived: make(chan struct{}, 1),
		touched: map[provider.ID]bool{}}
}

// Log returns the Log as soon as it has the state of the database. The client calls leave once when it no longer reads
// it. Log returns the error of ctx if that takes longer.
func (f *Follower) Log(ctx context.Context) (l *Log, leave func(), err error) {
	now := f.enter()
	select {
	case <-now.ready:
		return now.events, f.leave, nil
	case <-ctx.Done():
		f.leave()
		return nil, nil, ctx.Err()
	}
}

// enter counts a client, and begins to follow for the first one.
func (f *Follower) enter() *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients++
	if f.following == nil {
		f.following = &following{events: New(keptChanges), ready: make(chan struct{}), seen: index.Build(nil),
			owner: map[Key]provider.ID{}, keys: map[provider.ID]map[Key]bool{}}
	}
	select {
	case f.arrived <- struct{}{}:
	default:
	}
	return f.following
}

func (f *Follower) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
	f.left = time.Now()
}

// Touch says that this process has written to trees. Their allocations may have changed without their usage.
func (f *Follower) Touch(roots ...provider.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.following == nil {
		return // nothing has been read that could be out of date
	}
	for _, root := range roots {
		f.touched[root] = true
	}
}

// Run follows the database while there are clients, until ctx ends. Call it once.
func (f *Follower) Run(ctx context.Context) {
	for {
		select {
		case <-f.arrived:
			f.follow(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// follow follows the database until ctx ends or the last client has left a while ago.
func (f *Follower) follow(ctx context.Context) {
	failing, ready := false, false
	for now := f.current(); now != nil; now = f.current() {
		err := f.step(ctx, now)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !ready:
			ready = true
			close(now.ready)
		case err != nil && !failing:
			f.log.Warn("events not read, will retry", "error", err)
		}
		wait := interval
		if failing = err != nil; failing {
			wait = retryWait
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// current returns what follows the database. It drops that, and returns nil, if the last client has left a while ago.
func (f *Follower) current() *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients == 0 && time.Since(f.left) >= f.keep {
		f.following, f.touched = nil, map[provider.ID]bool{}
	}
	return f.following
}

// step applies what has changed since the last step. If it fails, the next step repeats it.
func (f *Follower) step(ctx context.Context, now *following) error {
	f.mu.Lock()
	roots := f.touched
	f.touched = map[provider.ID]bool{}
	f.mu.Unlock()
	snapshot := f.source.Snapshot()
	taken := slices.Collect(maps.Keys(roots))
	if snapshot != now.seen {
		differing(now.seen, snapshot, roots)
		differing(snapshot, now.seen, roots)
	}
	if len(roots) == 0 {
		return nil
	}
	shares, err := f.source.Shares(ctx, slices.Sorted(maps.Keys(roots))...)
	if err != nil {
		f.Touch(taken...)
		return err
	}
	now.events.Apply(now.merge(roots, objectsOf(snapshot, roots, shares)))
	now.seen = snapshot
	return nil
}

// differing adds the roots of trees of a snapshot that another one does not have, or has differently.
func differing(one, other *index.Snapshot, roots map[provider.ID]bool) {
	for t := range one.Trees() {
		if other.Lookup(t.Root) != t {
			roots[t.Root] = true
		}
	}
}

// merge records the objects of trees, and adds nil for those that are in no tree any more. An object may have moved to
// another tree, in this step or before.
func (f *following) merge(roots map[provider.ID]bool, found map[provider.ID]map[Key]*Object) map[Key]*Object {
	all := map[Key]*Object{}
	for root := range roots {
		for key, o := range found[root] {
			all[key] = o
			f.owner[key] = root
		}
	}
	for root := range roots {
		for key := range f.keys[root] {
			if _, still := found[root][key]; !still && f.owner[key] == root {
				all[key] = nil
				delete(f.owner, key)
			}
		}
		f.keys[root] = map[Key]bool{}
		for key := range found[root] {
			f.keys[root][key] = true
		}
		if len(found[root]) == 0 {
			delete(f.keys, root)
		}
	}
	return all
}

// The JSON documents of the objects.
type (
	providerDoc struct {
		UUID       provider.ID            `json:"uuid"`
		Name       string                 `json:"name"`
		Parent     provider.ID            `json:"parent_provider_uuid,omitempty"`
		Root       provider.ID            `json:"root_provider_uuid"`
		Traits     []resource.Trait       `json:"traits"`
		Aggregates []resource.AggregateID `json:"aggregates"`
	}
	inventoryDoc struct {
		Provider provider.ID    `json:"provider"`
		Class    resource.Class `json:"resource_class"`
		Total    int            `json:"total"`
		Reserved int            `json:"reserved"`
		MinUnit  int            `json:"min_unit"`
		MaxUnit  int            `json:"max_unit"`
		StepSize int            `json:"step_size"`
		Ratio    float64        `json:"allocation_ratio"`
		Used     int            `json:"used"`
	}
	allocationDoc struct {
		Consumer  resource.ConsumerID `json:"consumer"`
		Provider  provider.ID         `json:"provider"`
		Resources resource.Amounts    `json:"resources"`
		Project   string              `json:"project_id"`
		User      string              `json:"user_id"`
		Type      string              `json:"consumer_type"`
	}
)

// objectsOf returns the objects of some trees by their roots.
func objectsOf(s *index.Snapshot, roots map[provider.ID]bool,
	shares []store.Share) map[provider.ID]map[Key]*Object {
	found := map[provider.ID]map[Key]*Object{}
	host := map[provider.ID]string{}
	for root := range roots {
		found[root] = map[Key]*Object{}
		for _, row := range s.Tree(root) {
			if row.ID == root {
				host[root] = row.Name
			}
			found[root][Key{Provider, string(row.ID)}] = &Object{Host: host[root], Data: providerDoc{row.ID, row.Name,
				row.Parent, row.Root, append([]resource.Trait{}, row.Traits...),
				append([]resource.AggregateID{}, row.Aggregates...)}}
			for class, inv := range row.Inventories {
				found[root][Key{Inventory, string(row.ID) + "/" + string(class)}] = &Object{Host: host[root],
					Classes: []string{string(class)}, Data: inventoryDoc{row.ID, class, inv.Total, inv.Reserved, inv.MinUnit,
						inv.MaxUnit, inv.StepSize, inv.AllocationRatio, row.Used[class]}}
			}
		}
	}
	for _, share := range shares {
		var classes []string
		for _, class := range share.Amounts.Sorted() {
			classes = append(classes, string(class))
		}
		found[share.Root][Key{Allocation, string(share.Consumer) + "/" + string(share.Provider)}] = &Object{
			Host: host[share.Root], Project: share.Project, Classes: classes, Data: allocationDoc{share.Consumer,
				share.Provider, share.Amounts, share.Project, share.User, share.ConsumerType}}
	}
	return found
}
