package conductor

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// forest is the providers of one host, as Placement keeps them.
type forest struct {
	tree provider.Tree
	held map[provider.ID]map[resource.ConsumerID]resource.Amounts
}

func (f *forest) Tree(_ context.Context, id provider.ID) (provider.Tree, error) {
	if _, there := f.tree.ByID(id); !there {
		return provider.Tree{}, fault.New(fault.NotFound, "", "no provider %s", id)
	}
	return provider.Tree{Providers: slices.Clone(f.tree.Providers)}, nil
}

func (f *forest) ProviderAllocations(_ context.Context,
	id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	return f.held[id], nil
}

func (f *forest) DeleteProvider(_ context.Context, id provider.ID) error {
	if slices.ContainsFunc(f.tree.Providers, func(p provider.Provider) bool { return p.Parent == id }) ||
		len(f.held[id]) > 0 {
		return fault.New(fault.Conflict, "", "%s cannot be deleted", id)
	}
	f.tree.Providers = slices.DeleteFunc(f.tree.Providers, func(p provider.Provider) bool { return p.ID == id })
	return nil
}

// A host is forgotten when it is silent or dead, and nothing stands on it; what others made below its provider stays,
// with what it stands on.
func TestHostForget(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 0})
	c.start(t.Context(), c.store, c.ledger)
	ours := []resource.Trait{managed}
	f := &forest{held: map[provider.ID]map[resource.ConsumerID]resource.Amounts{},
		tree: provider.Tree{Providers: []provider.Provider{
			{ID: "root-a", Name: "a"},
			{ID: "pf-a", Name: "a_0000:3B:00.0", Parent: "root-a", Traits: ours},
			{ID: "gpu-a", Name: "a_0000:3C:00.0", Parent: "root-a", Traits: ours},
			{ID: "agent", Name: "a:NIC Switch agent", Parent: "root-a"},
		}}}
	c.conductor().Providers = f
	forget := func() ([]string, []string, error) { return c.conductor().HostForget(context.Background(), "a") }
	refused := func(what string, words ...string) {
		t.Helper()
		before := len(f.tree.Providers)
		_, _, err := forget()
		for _, word := range words {
			if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), word) {
				t.Errorf("%s: %v, want %q", what, err, word)
			}
		}
		if _, err := c.store.Host(context.Background(), "a"); err != nil || len(f.tree.Providers) != before {
			t.Errorf("%s: refused, and yet something is gone (%v)", what, err)
		}
	}
	c.create("s")
	c.settled()
	refused("its agent reports", "may still be alive: its agent has been silent for", "berth host down a")
	if err := c.conductor().HostDown(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	refused("a server stands there", "servers are placed on host a", "(s)")
	c.deleteAll()
	f.held["pf-a"] = map[resource.ConsumerID]resource.Amounts{"somebody": {"CUSTOM_VF": 2}}
	refused("somebody holds a device", "somebody has 2 CUSTOM_VF of a_0000:3B:00.0")
	f.held = nil

	removed, kept, err := forget()
	if err != nil || !reflect.DeepEqual(removed, []string{"a_0000:3B:00.0", "a_0000:3C:00.0"}) ||
		!reflect.DeepEqual(kept, []string{"a:NIC Switch agent", "a"}) {
		t.Errorf("removed %v, kept %v: %v", removed, kept, err)
	}
	if _, _, err := forget(); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is known still: %v", err)
	}
	c.reportAt("a", time.Now().Add(-time.Hour)) // it was set up again, and has died since
	if err := c.conductor().HostDown(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	f.tree = provider.Tree{Providers: []provider.Provider{{ID: "root-a", Name: "a"}}}
	if removed, kept, err := forget(); err != nil || !reflect.DeepEqual(removed, []string{"a"}) || len(kept) != 0 ||
		len(f.tree.Providers) != 0 {
		t.Errorf("removed %v, kept %v: %v", removed, kept, err)
	}
}
