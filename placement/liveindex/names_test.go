package liveindex

import (
	"context"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

// lateReads is a store whose answers about names arrive after something else has happened.
type lateReads struct {
	Store
	meanwhile func()
}

func (s lateReads) Class(ctx context.Context, name resource.Class) (store.Class, error) {
	defer s.meanwhile()
	return s.Store.Class(ctx, name)
}

func (s lateReads) Traits(ctx context.Context, filter store.TraitFilter) ([]store.Trait, error) {
	defer s.meanwhile()
	return s.Store.Traits(ctx, filter)
}

// A name that is deleted while a query reads it is unknown to later queries.
func TestNameDeletedWhileItIsRead(t *testing.T) {
	ctx, w := t.Context(), newWorldOn(t, databases.SQLite(t))
	_, err := w.store.EnsureClass(ctx, "CUSTOM_A")
	must(t, err)
	_, _, err = w.store.EnsureTrait(ctx, "CUSTOM_A")
	must(t, err)
	for what, g := range map[string]resource.Group{
		"class": {Resources: resource.Amounts{"CUSTOM_A": 1}}, "trait": {Forbidden: []resource.Trait{"CUSTOM_A"}}} {
		w.names.store = lateReads{w.store, func() {
			w.names.store = w.store
			if what == "class" {
				must(t, w.store.DeleteClass(ctx, "CUSTOM_A"))
				w.names.Forget("CUSTOM_A", "")
			} else {
				must(t, w.store.DeleteTrait(ctx, "CUSTOM_A"))
				w.names.Forget("", "CUSTOM_A")
			}
		}}
		must(t, w.names.Check(ctx, []resource.Group{g}))
		if err := w.names.Check(ctx, []resource.Group{g}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a deleted %s: %v", what, err)
		}
	}
}
