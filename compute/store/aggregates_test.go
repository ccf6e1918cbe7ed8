package store_test

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// aggregates tests aggregates, and what Placement must remove.
func aggregates(t *testing.T, s *store.Store) {
	ctx := t.Context()
	a, err := s.CreateAggregate(ctx, store.Aggregate{UUID: "u1", Name: "n", Created: noon,
		Metadata: map[string]string{schedule.ZoneKey: "z"}})
	must(t, err)
	_, err = s.CreateAggregate(ctx, store.Aggregate{UUID: "u2", Name: "n"})
	is(t, err, fault.Conflict)
	must(t, s.Create(ctx, serverOn("b", "h1")))
	change := func(hosts ...string) {
		t.Helper()
		_, err := s.ChangeAggregate(ctx, a.ID, noon, func(a *store.Aggregate, all []store.Aggregate,
			servers map[string]int) error {
			if len(all) != 1 || servers["h1"] != 1 {
				t.Errorf("%+v %v", all, servers)
			}
			a.Hosts = hosts
			return nil
		})
		must(t, err)
	}
	change("h1", "h2")
	is(t, s.DeleteAggregate(ctx, a.ID), fault.Invalid)
	of, err := s.HostAggregates(ctx)
	zone := schedule.Aggregates{OfHost: of, DefaultZone: "nova"}
	if err != nil || zone.Zone("h2") != "z" || zone.Zone("h3") != "nova" {
		t.Errorf("%+v %v", of, err)
	}
	_, err = s.ChangeAggregate(ctx, a.ID, noon, func(*store.Aggregate, []store.Aggregate, map[string]int) error {
		return fault.New(fault.Conflict, "no")
	})
	is(t, err, fault.Conflict)
	change("h2")
	if got, err := s.AggregateRemovals(ctx); err != nil || !reflect.DeepEqual(got, map[string][]string{"h1": {"u1"}}) {
		t.Errorf("%v %v", got, err)
	}
	change("h1")
	must(t, s.AggregateRemovalDone(ctx, "h2", "u1"))
	if got, err := s.AggregateRemovals(ctx); err != nil || len(got) > 0 { // h1 is a member again
		t.Errorf("%v %v", got, err)
	}
	change()
	must(t, s.DeleteAggregate(ctx, a.ID))
	is(t, s.DeleteAggregate(ctx, a.ID), fault.NotFound)
	if list, err := s.Aggregates(ctx); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}
