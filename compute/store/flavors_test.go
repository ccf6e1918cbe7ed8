package store_test

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

func flavors(t *testing.T, s *store.Store) {
	ctx := t.Context()
	small := flavor.Flavor{ID: "1", Name: "small", Description: "ü", VCPUs: 1, MemoryMB: 512, DiskGB: 1, Ephemeral: 2,
		Swap: 3, RXTXFactor: 1.5,
		Public: true, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:1", "group_policy": "none"}}
	large := flavor.Flavor{ID: "2", Name: "large", VCPUs: 64, MemoryMB: 65536, Disabled: true,
		ExtraSpecs: map[string]string{}}
	must(t, s.CreateFlavor(ctx, small))
	must(t, s.CreateFlavor(ctx, large))
	is(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "1", Name: "other"}), fault.Conflict)
	is(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "3", Name: "small"}), fault.Conflict)
	got, err := s.Flavor(ctx, "1")
	must(t, err)
	if !reflect.DeepEqual(got, small) {
		t.Errorf("got %+v", got)
	}
	must(t, s.DescribeFlavor(ctx, "1", "new"))
	small.Description = "new"
	for _, c := range []struct {
		filter store.FlavorFilter
		want   []flavor.Flavor
	}{
		{store.FlavorFilter{}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true}, []flavor.Flavor{small, large}},
		{store.FlavorFilter{All: true, Limit: 1}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true, Marker: "1"}, []flavor.Flavor{large}},
		{store.FlavorFilter{All: true, MinRAM: 1024}, []flavor.Flavor{large}},
		{store.FlavorFilter{All: true, MinDisk: 1}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true, Marker: "2"}, nil},
	} {
		got, err := s.Flavors(ctx, c.filter)
		must(t, err)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v", c.filter, got)
		}
	}
	_, err = s.Flavors(ctx, store.FlavorFilter{Marker: "none"})
	is(t, err, fault.Invalid)
	must(t, s.DeleteFlavor(ctx, "1"))
	_, err = s.Flavor(ctx, "1")
	is(t, err, fault.NotFound)
	is(t, s.DeleteFlavor(ctx, "1"), fault.NotFound)
	is(t, s.DescribeFlavor(ctx, "1", "x"), fault.NotFound)
	is(t, s.SetExtraSpecs(ctx, "1", map[string]string{"a": "b"}), fault.NotFound)
	small.ExtraSpecs = map[string]string{}
	must(t, s.CreateFlavor(ctx, small))
	if got, err := s.Flavor(ctx, "1"); err != nil || len(got.ExtraSpecs) != 0 {
		t.Errorf("extra specs remain after their flavor was deleted: %v %v", got.ExtraSpecs, err)
	}
}

func extraSpecs(t *testing.T, s *store.Store) {
	ctx := t.Context()
	must(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "1", Name: "small", ExtraSpecs: map[string]string{"a": "1", "b": "2"}}))
	must(t, s.SetExtraSpecs(ctx, "1", map[string]string{"b": "two", "c": "3"}))
	must(t, s.DeleteExtraSpec(ctx, "1", "a"))
	is(t, s.DeleteExtraSpec(ctx, "1", "a"), fault.NotFound)
	is(t, s.DeleteExtraSpec(ctx, "2", "b"), fault.NotFound)
	got, err := s.Flavor(ctx, "1")
	must(t, err)
	if want := map[string]string{"b": "two", "c": "3"}; !reflect.DeepEqual(got.ExtraSpecs, want) {
		t.Errorf("got %v", got.ExtraSpecs)
	}
}
