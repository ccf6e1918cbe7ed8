package store_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// residencesDuringMove moves a server and checks its residences, the owners of its consumers, its migration, and the
// declarations of dead hosts.
func residencesDuringMove(t *testing.T, s *store.Store) {
	ctx := t.Context()
	must(t, s.Create(ctx, serverOn("aaaaaaaa-bbbb-1", "h"), server("aaaaaaaa-bbbb-2", 1), server("aaaaaaaa-cccc-1", 1)))
	const id = "aaaaaaaa-bbbb-1"
	change := func(next func(s *lifecycle.Server)) {
		t.Helper()
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	expect := func(what, want string) {
		t.Helper()
		out := ""
		for _, host := range []string{"h", "g"} {
			a, err := s.Assignments(ctx, host)
			must(t, err)
			staying, err := s.IDsOnHost(ctx, host)
			must(t, err)
			out += fmt.Sprintf("%s: %s (%d) ", host, guestsOf(a), len(staying))
		}
		if out != want {
			t.Errorf("%s: %q, want %q", what, out, want)
		}
	}
	expect("before the move", "h: aaaaaaaa-bbbb-1 (1) g:  (0) ")
	change(func(s *lifecycle.Server) {
		s.Migration = &lifecycle.Migration{ID: "m", Kind: lifecycle.Resizing, Status: "accepted", From: "h"}
		s.Move = &lifecycle.Move{Kind: lifecycle.Resizing, Phase: lifecycle.SpawningDestination, Consumer: "m",
			From: lifecycle.Residence{Consumer: "m", PreviousConsumer: s.ID, Host: "h", Requests: s.Requests}}
		s.State, s.Host = lifecycle.Moving, "g"
	})
	expect("during the move", "h: m (1) g: aaaaaaaa-bbbb-1 (1) ")
	change(func(s *lifecycle.Server) {
		m := *s.Migration
		m.Status, m.To = "confirmed", "g"
		s.Migration = &m
		s.Leftovers, s.Move, s.State = []lifecycle.Residence{s.Move.From}, nil, lifecycle.Active
	})
	expect("with a leftover", "h: -m (1) g: aaaaaaaa-bbbb-1 (1) ")
	for consumer, want := range map[string]string{id: id, "m": id} {
		if owner, err := s.ServerOfConsumer(ctx, consumer); err != nil || owner != want {
			t.Errorf("the owner of %s: %q %v", consumer, owner, err)
		}
	}
	_, err := s.ServerOfConsumer(ctx, "unknown")
	is(t, err, fault.NotFound)
	change(func(s *lifecycle.Server) { s.Leftovers = nil })
	expect("after the move", "h:  (0) g: aaaaaaaa-bbbb-1 (1) ")
	if owner, err := s.ServerOfConsumer(ctx, "m"); err != nil || owner != id { // an agent may report it later
		t.Errorf("%q %v", owner, err)
	}
	list, err := s.Migrations(ctx, store.MigrationFilter{Server: id, Host: "g", Status: "confirmed", Kind: "resize"})
	if err != nil || len(list) != 1 || list[0].ID != "m" || list[0].Number != 1 || list[0].Server != id ||
		list[0].To != "g" {
		t.Errorf("%+v %v", list, err)
	}
	ofRequest, err := s.ByReservation(ctx, id[:13])
	if err != nil || serverIDs(ofRequest) != "aaaaaaaa-bbbb-1 aaaaaaaa-bbbb-2" {
		t.Errorf("%s %v", serverIDs(ofRequest), err)
	}
	is(t, s.SetDead(ctx, "h", true, noon), fault.NotFound) // the host had servers, but no agent has reported
	must(t, s.PutReport(ctx, schedule.Host{Name: "h", Provider: "root-h", Seen: noon}, admitted))
	for _, dead := range []bool{true, true, false, false} {
		must(t, s.SetDead(ctx, "h", dead, noon))
		if hosts, err := s.Dead(ctx); err != nil || (fmt.Sprint(hosts) == "[h]") != dead {
			t.Errorf("%v %v", hosts, err)
		}
	}
	is(t, s.SetDead(ctx, "nowhere", true, noon), fault.NotFound)
	is(t, s.SetDead(ctx, "nowhere", false, noon), fault.NotFound)
	if hosts, err := s.Dead(ctx); err != nil || len(hosts) != 0 {
		t.Errorf("an unknown host is stored as dead: %v %v", hosts, err)
	}
}
