package store_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// zonesDuringClaims tests that a server that is being claimed counts on its host, and that it is recorded with the zone
// that the host has then.
func zonesDuringClaims(t *testing.T, s *store.Store) {
	ctx := t.Context()
	s.SetDefaultZone("nova")
	a, err := s.CreateAggregate(ctx, store.Aggregate{UUID: "u1", Name: "n", Created: noon,
		Metadata: map[string]string{schedule.ZoneKey: "z"}})
	must(t, err)
	found := lifecycle.Chosen{Candidates: 1, Choices: []schedule.Choice{{Host: "h1", Zone: "nova"}}}
	choose := func(id string) lifecycle.Server {
		t.Helper()
		must(t, s.Create(ctx, lifecycle.Server{ID: id, State: lifecycle.Scheduling, Created: noon, Updated: noon}))
		one, err := s.Change(ctx, id, func(one lifecycle.Server) lifecycle.Server {
			one, _ = lifecycle.Next(one, found, noon)
			return one
		})
		must(t, err)
		return one
	}
	if one := choose("a"); one.ClaimedHost() != "h1" {
		t.Fatalf("%s on %q", one.State, one.ClaimedHost())
	}
	_, err = s.ChangeAggregate(ctx, a.ID, noon, func(a *store.Aggregate, _ []store.Aggregate,
		servers map[string]int) error {
		if servers["h1"] != 1 || servers["h2"] != 0 {
			t.Errorf("%v", servers)
		}
		a.Hosts = []string{"h1"} // no handler does that with a server there
		return nil
	})
	must(t, err)
	if one := choose("b"); one.ClaimedHost() != "" || one.State != lifecycle.Scheduling {
		t.Errorf("%s on %q", one.State, one.ClaimedHost())
	}
}

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

// aggregatesOfClients lets 16 clients create aggregates at the same time, which have nothing in common, and lets a
// client add a host to an aggregate that another one deletes.
func aggregatesOfClients(t *testing.T, s *store.Store) {
	ctx := t.Context()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if _, err := s.CreateAggregate(ctx, store.Aggregate{UUID: fmt.Sprint("u", i), Name: fmt.Sprint("n", i),
				Created: noon}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := s.Aggregates(ctx); err != nil || len(list) != 16 {
		t.Errorf("%d aggregates of 16, %v", len(list), err)
	}
	for i := range 20 {
		name := fmt.Sprint("deleted", i)
		a, err := s.CreateAggregate(ctx, store.Aggregate{UUID: name, Name: name, Created: noon})
		must(t, err)
		var added, deleted error
		all.Go(func() {
			_, added = s.ChangeAggregate(ctx, a.ID, noon, func(a *store.Aggregate, _ []store.Aggregate,
				_ map[string]int) error {
				a.Hosts = []string{"h1"}
				return nil
			})
		})
		all.Go(func() { deleted = s.DeleteAggregate(ctx, a.ID) })
		all.Wait()
		if (added == nil) == (deleted == nil) {
			t.Fatalf("the host is added: %v; the aggregate is deleted: %v", added, deleted)
		}
		if deleted == nil {
			is(t, added, fault.NotFound)
		} else {
			is(t, deleted, fault.Invalid)
		}
		next, err := s.CreateAggregate(ctx, store.Aggregate{UUID: name + "x", Name: name + "x", Created: noon})
		must(t, err)
		list, err := s.Aggregates(ctx)
		must(t, err)
		for _, one := range list {
			if one.ID == next.ID && len(one.Hosts) > 0 {
				t.Fatalf("the new aggregate %d has hosts of a deleted one: %v", one.ID, one.Hosts)
			}
		}
	}
}
