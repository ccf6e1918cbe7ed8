package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
)

// guestsOf returns the consumers of assignments; removals have a "-".
func guestsOf(a store.Assignments) string {
	var ids []string
	for _, e := range a.Entries {
		ids = append(ids, e.Consumer)
	}
	for _, r := range a.Removals {
		ids = append(ids, "-"+r.Consumer)
	}
	return strings.Join(ids, " ")
}

func assignments(t *testing.T, s *store.Store) {
	ctx := t.Context()
	expect := func(host, want string) {
		t.Helper()
		got, err := s.Assignments(ctx, host)
		must(t, err)
		if is := fmt.Sprintf("%d: %s", got.Revision, guestsOf(got)); is != want {
			t.Errorf("%s has %q, want %q", host, is, want)
		}
	}
	change := func(id string, next func(s *lifecycle.Server)) {
		t.Helper()
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	expect("h", "0: ")
	must(t, s.Create(ctx, server("a", 0)))
	must(t, s.Create(ctx, server("b", 0)))
	expect("h", "0: ")
	change("b", func(s *lifecycle.Server) { s.State, s.Host = lifecycle.Spawning, "h" })
	change("a", func(s *lifecycle.Server) { s.State, s.Host = lifecycle.Spawning, "h" })
	expect("h", "2: a b")
	must(t, s.PutReport(ctx, report("h"), admitted))
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.Active }) // nothing new for the agent
	expect("h", "2: a b")
	change("a", func(s *lifecycle.Server) { s.Requests = []pci.Request{{ID: "R"}} })
	expect("h", "3: a b")
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.DeletingGuest })
	expect("h", "4: b -a")
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation })
	expect("h", "5: b")
	change("b", func(s *lifecycle.Server) { s.Host = "g" })
	expect("h", "6: ")
	expect("g", "1: b")
}
