package store_test

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
)

// removals checks that the guests of a host that is declared dead must be destroyed if the host returns, until its
// agent reports them gone.
func removals(t *testing.T, s *store.Store) {
	ctx := t.Context()
	expect := func(host, want string) {
		t.Helper()
		a, err := s.Assignments(ctx, host)
		must(t, err)
		if got := guestsOf(a); got != want {
			t.Errorf("%s has %q, want %q", host, got, want)
		}
	}
	change := func(id string, next func(s *lifecycle.Server)) {
		t.Helper()
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	must(t, s.PutReport(ctx, schedule.Host{Name: "h", Provider: "root-h", Seen: noon}, admitted))
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.Create(ctx, serverOn(id, "h")))
	}
	change("c", func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation }) // its guest is gone
	expect("h", "a b")
	must(t, s.SetDead(ctx, "h", true, noon))
	change("a", func(s *lifecycle.Server) { s.State, s.Host = lifecycle.Spawning, "g" }) // evacuated
	change("b", func(s *lifecycle.Server) { s.State = lifecycle.DeletingGuest })
	expect("h", "-a -b")
	change("b", func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation })
	expect("h", "-a -b")
	expect("g", "a")
	must(t, s.SetDead(ctx, "h", false, noon))
	expect("h", "-a -b")
	hosts, err := s.RemovalHosts(ctx, "a")
	if must(t, err); !slices.Equal(hosts, []string{"h"}) {
		t.Errorf("%v", hosts)
	}
	changed, stop := s.Subscribe("h")
	defer stop()
	must(t, s.RemovalDone(ctx, "h", "a"))
	must(t, s.RemovalDone(ctx, "h", "a")) // twice
	must(t, s.RemovalDone(ctx, "h", "never"))
	select {
	case <-changed:
	default:
		t.Error("the subscriber was not notified")
	}
	expect("h", "-b")
	must(t, s.Forget(ctx, "h"))
	expect("h", "")
	if p, err := s.Position(ctx, "h"); err != nil || p.Revision == 0 {
		t.Errorf("a host that was forgotten has revision %d (%v)", p.Revision, err)
	}
}
