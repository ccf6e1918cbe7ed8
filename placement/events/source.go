// Package events finds the changes of Placement, for clients that watch: GET /berth/v1/events. It is the source of an
// eventstream.Feed.
package events

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/openberth/berth/api/eventstream"
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

// Key and Object are those of the stream.
type (
	Key    = eventstream.Key
	Object = eventstream.Object
)

// Kinds lists the kinds of objects.
func Kinds() []string { return []string{Provider, Inventory, Allocation} }

// Reads are what a Source reads. placement/store implements the first method, the live index the second.
type Reads struct {
	Shares   func(ctx context.Context, roots ...provider.ID) ([]store.Share, error)
	Snapshot func() *index.Snapshot
}

// Source finds the changes of Placement. It compares snapshots of the live index, which follows the writes of all
// processes, and reads the allocations of the trees that differ. It implements eventstream.Source.
type Source struct {
	reads Reads

	mu      sync.Mutex
	touched map[provider.ID]bool // roots of trees that this process has written; nil: nothing has been read

	// used between Begin and End, by one goroutine
	seen  *index.Snapshot
	owner map[Key]provider.ID // the root of the tree that each object is in
	keys  map[provider.ID]map[Key]bool
}

// NewSource returns a Source.
func NewSource(reads Reads) *Source { return &Source{reads: reads} }

// Begin implements eventstream.Source.
func (s *Source) Begin() {
	s.seen, s.owner, s.keys = index.Build(nil), map[Key]provider.ID{}, map[provider.ID]map[Key]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = map[provider.ID]bool{}
}

// End implements eventstream.Source.
func (s *Source) End() {
	s.seen, s.owner, s.keys = nil, nil, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = nil
}

// Touch says that this process has written to trees. Their allocations may have changed without their usage.
func (s *Source) Touch(roots ...provider.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.touched == nil {
		return // nothing has been read that could be out of date
	}
	for _, root := range roots {
		s.touched[root] = true
	}
}

// Changes implements eventstream.Source.
func (s *Source) Changes(ctx context.Context) (map[Key]*Object, error) {
	s.mu.Lock()
	roots := s.touched
	s.touched = map[provider.ID]bool{}
	s.mu.Unlock()
	snapshot := s.reads.Snapshot()
	taken := slices.Collect(maps.Keys(roots))
	if snapshot != s.seen {
		differing(s.seen, snapshot, roots)
		differing(snapshot, s.seen, roots)
	}
	if len(roots) == 0 {
		return nil, nil
	}
	shares, err := s.reads.Shares(ctx, slices.Sorted(maps.Keys(roots))...)
	if err != nil {
		s.Touch(taken...)
		return nil, err
	}
	s.seen = snapshot
	return s.merge(roots, objectsOf(snapshot, roots, shares)), nil
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
func (s *Source) merge(roots map[provider.ID]bool, found map[provider.ID]map[Key]*Object) map[Key]*Object {
	all := map[Key]*Object{}
	for root := range roots {
		for key, o := range found[root] {
			all[key] = o
			s.owner[key] = root
		}
	}
	for root := range roots {
		for key := range s.keys[root] {
			if _, still := found[root][key]; !still && s.owner[key] == root {
				all[key] = nil
				delete(s.owner, key)
			}
		}
		s.keys[root] = map[Key]bool{}
		for key := range found[root] {
			s.keys[root][key] = true
		}
		if len(found[root]) == 0 {
			delete(s.keys, root)
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
			found[root][Key{Kind: Provider, ID: string(row.ID)}] = &Object{Host: host[root], Data: providerDoc{row.ID, row.Name,
				row.Parent, row.Root, append([]resource.Trait{}, row.Traits...),
				append([]resource.AggregateID{}, row.Aggregates...)}}
			for class, inv := range row.Inventories {
				found[root][Key{Kind: Inventory, ID: string(row.ID) + "/" + string(class)}] = &Object{Host: host[root],
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
		found[share.Root][Key{Kind: Allocation, ID: string(share.Consumer) + "/" + string(share.Provider)}] = &Object{
			Host: host[share.Root], Project: share.Project, Classes: classes, Data: allocationDoc{share.Consumer,
				share.Provider, share.Amounts, share.Project, share.User, share.ConsumerType}}
	}
	return found
}
