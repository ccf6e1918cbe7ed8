package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
)

// epochs checks that each start of compute begins an epoch, and that the database has the last revision of each host in
// it.
func epochs(t *testing.T, s *store.Store) {
	ctx := t.Context()
	var past []store.Epoch
	begin := func() {
		t.Helper()
		must(t, s.BeginEpoch(ctx))
		p, err := s.Position(ctx, "h")
		must(t, err)
		past = append(past, p.Epoch)
	}
	ends := func(want ...string) {
		t.Helper()
		var got []string
		for _, e := range past {
			revision, known, err := s.EpochEnd(ctx, "h", e)
			must(t, err)
			got = append(got, fmt.Sprint(revision, known))
		}
		if !slices.Equal(got, want) {
			t.Errorf("epochs ended at %v, want %v", got, want)
		}
	}
	change := func(id, host string) {
		t.Helper()
		_, err := s.Change(ctx, id,
			func(s lifecycle.Server) lifecycle.Server { s.State, s.Host = lifecycle.Spawning, host; return s })
		must(t, err)
	}
	begin()
	must(t, s.Create(ctx, server("a", 0)))
	must(t, s.Create(ctx, server("b", 0)))
	change("a", "h")
	begin()
	begin() // nothing has changed
	change("b", "h")
	begin()
	ends("1 true", "1 true", "2 true", "2 true")
	if now, err := s.Position(ctx, "h"); err != nil || now.Revision != 2 || now.Epoch.Number != 4 || now.Epoch != past[3] {
		t.Errorf("%+v %v", now, err)
	}
	if a, err := s.Assignments(ctx, "h"); err != nil || a.Epoch != past[3] {
		t.Errorf("%+v %v", a.Epoch, err)
	}
	for _, e := range []store.Epoch{{Number: 2, ID: "another"}, {Number: 9, ID: past[0].ID}} {
		if _, known, err := s.EpochEnd(ctx, "h", e); err != nil || known {
			t.Errorf("%+v is a known epoch: %v", e, err)
		}
	}
	ids := map[string]bool{}
	for _, e := range past {
		ids[e.ID] = true
	}
	if len(ids) != 4 {
		t.Errorf("epochs share ids: %+v", past)
	}
}
