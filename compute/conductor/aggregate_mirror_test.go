package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// providerAggregates are the aggregates of one provider, of which another client changes the generation once.
type providerAggregates struct {
	doc       placement.AggregatesDoc
	conflicts int
	failures  int
}

func (p *providerAggregates) Aggregates(_ context.Context, id provider.ID) (placement.AggregatesDoc, error) {
	switch {
	case id != "root-a":
		return placement.AggregatesDoc{}, fault.New(fault.NotFound, "no provider %s", id)
	case p.failures > 0:
		p.failures--
		return placement.AggregatesDoc{}, fault.New(fault.Unavailable, "no answer")
	}
	return placement.AggregatesDoc{Generation: p.doc.Generation, Aggregates: slices.Clone(p.doc.Aggregates)}, nil
}

func (p *providerAggregates) PutAggregates(_ context.Context, _ provider.ID, doc placement.AggregatesDoc) error {
	if p.conflicts > 0 {
		p.conflicts--
		p.doc.Generation++
	}
	if doc.Generation != p.doc.Generation {
		return fault.New(fault.Conflict, "generation %d", p.doc.Generation)
	}
	p.doc.Generation, p.doc.Aggregates = doc.Generation+1, doc.Aggregates
	return nil
}

// Placement's aggregates follow those of hosts, also after errors and conflicts, and those of others stay.
func TestMirroredAggregates(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	in := &providerAggregates{doc: placement.AggregatesDoc{Aggregates: []resource.AggregateID{"other"}}, conflicts: 1,
		failures: 1}
	config := quiet(t)
	config.Aggregates = in
	conductor := New(c.store, c.placement, config)
	ctx := t.Context()
	made, err := c.store.CreateAggregate(ctx, store.Aggregate{UUID: "mine", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, hosts := range [][]string{{"a", "b"}, {"b"}} {
		if _, err := c.store.ChangeAggregate(ctx, made.ID, time.Now(), func(a *store.Aggregate, _ []store.Aggregate,
			_ map[string]int) error {
			a.Hosts = hosts
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for conductor.mirrorAll(ctx, c.store, false) != nil {
			if in.failures < 0 {
				t.Fatal("it fails forever")
			}
		}
		want := []resource.AggregateID{"other"}
		if hosts[0] == "a" {
			want = []resource.AggregateID{"mine", "other"}
		}
		if !slices.Equal(in.doc.Aggregates, want) {
			t.Errorf("hosts %v: %v, want %v", hosts, in.doc.Aggregates, want)
		}
	}
	if left, err := c.store.AggregateRemovals(ctx); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// refusedRoot refuses the aggregates of one provider, and has those of another one.
type refusedRoot struct {
	providerAggregates
	refused provider.ID
}

func (r *refusedRoot) Aggregates(ctx context.Context, id provider.ID) (placement.AggregatesDoc, error) {
	if id == r.refused {
		return placement.AggregatesDoc{}, fault.New(fault.Forbidden, "%s is another's", id)
	}
	return r.providerAggregates.Aggregates(ctx, "root-a")
}

// A host whose provider refuses its aggregates does not keep those after it from theirs.
func TestRefusedHostDoesNotStopTheMirror(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	in := &refusedRoot{refused: "root-a"}
	config := quiet(t)
	config.Aggregates = in
	made, err := c.store.CreateAggregate(t.Context(), store.Aggregate{UUID: "mine", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.store.ChangeAggregate(t.Context(), made.ID, time.Now(), func(a *store.Aggregate, _ []store.Aggregate,
		_ map[string]int) error {
		a.Hosts = []string{"a", "b"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err = New(c.store, c.placement, config).mirrorAll(t.Context(), c.store, false)
	if err == nil || !strings.Contains(err.Error(), "host a: ") || !slices.Equal(in.doc.Aggregates,
		[]resource.AggregateID{"mine"}) {
		t.Errorf("%v, of b %v", err, in.doc.Aggregates)
	}
}

// A database that was restored from before an aggregate was created, or a host was added to it, does not leave the
// membership in Placement. Aggregates of other clients stay.
func TestMembershipsAfterRestoredDatabase(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	lost, kept := store.NewAggregateUUID(), store.NewAggregateUUID()
	in := &providerAggregates{doc: placement.AggregatesDoc{Aggregates: []resource.AggregateID{resource.AggregateID(lost),
		resource.AggregateID(kept), "other"}}}
	config := quiet(t)
	config.Aggregates = in
	conductor := New(c.store, c.placement, config)
	for _, every := range []bool{false, true} {
		if err := conductor.mirrorAll(t.Context(), c.store, every); err != nil {
			t.Fatal(err)
		}
		if left := len(in.doc.Aggregates); every != (left == 1) || in.doc.Aggregates[left-1] != "other" {
			t.Errorf("all hosts are read: %t, and left are %v", every, in.doc.Aggregates)
		}
	}
	made, err := c.store.CreateAggregate(t.Context(), store.Aggregate{UUID: kept, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	in.doc.Aggregates = []resource.AggregateID{resource.AggregateID(kept)}
	if err := conductor.mirrorAll(t.Context(), c.store, true); err != nil || len(in.doc.Aggregates) != 0 {
		t.Errorf("the host is not in %s: %v %v", made.Name, in.doc.Aggregates, err)
	}
}
