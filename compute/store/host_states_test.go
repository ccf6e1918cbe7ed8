package store_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// forgetHost removes all data of a host without servers, and nothing of a host with a server.
func forgetHost(t *testing.T, s *store.Store) {
	ctx := t.Context()
	must(t, s.Create(ctx, serverOn("here", "h")))
	for _, name := range []string{"h", "g"} {
		must(t, s.PutReport(ctx, schedule.Host{Name: name, Provider: provider.ID("root-" + name), Seen: noon}, admitted))
		must(t, s.SetDead(ctx, name, true, noon))
		must(t, s.RequestClean(ctx, store.CleanRequest{Host: name, Address: pci.Address{Bus: 1}, Asked: noon}))
	}
	aggregate, err := s.CreateAggregate(ctx, store.Aggregate{UUID: "u", Name: "n", Created: noon})
	must(t, err)
	_, err = s.ChangeAggregate(ctx, aggregate.ID, noon, func(a *store.Aggregate, _ []store.Aggregate,
		_ map[string]int) error {
		a.Hosts = []string{"g", "h"}
		return nil
	})
	must(t, err)
	is(t, s.Forget(ctx, "h"), fault.Conflict)
	must(t, s.Forget(ctx, "g"))
	must(t, s.Forget(ctx, "g")) // and again
	hosts, err := s.Hosts(ctx)
	must(t, err)
	dead, err := s.Dead(ctx)
	must(t, err)
	wanted, err := s.CleanRequests(ctx)
	must(t, err)
	if len(hosts) != 1 || hosts[0].Name != "h" || len(dead) != 1 || dead[0] != "h" || len(wanted) != 1 ||
		wanted[0].Host != "h" {
		t.Errorf("hosts %v, dead %v, clean requests %v", hosts, dead, wanted)
	}
	if a, err := s.Assignments(ctx, "h"); err != nil || len(a.Entries) != 1 {
		t.Errorf("%+v %v", a, err)
	}
	if list, err := s.Aggregates(ctx); err != nil || len(list) != 1 || !slices.Equal(list[0].Hosts, []string{"h"}) {
		t.Errorf("%+v %v", list, err) // a host that returns counts as a new one
	}
	if left, err := s.AggregateRemovals(ctx); err != nil || !slices.Equal(left["g"], []string{"u"}) || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

// TestDeadDeclarationOfUnknownHostIsWithdrawn withdraws a declaration for a host that does not exist; earlier releases
// recorded such declarations.
func TestDeadDeclarationOfUnknownHostIsWithdrawn(t *testing.T) {
	ctx, url := t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db")
	s := open(t, url)
	db, err := sqldb.Open(ctx, url)
	must(t, err)
	defer db.Close()
	must(t, db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO compute_dead (host, since) VALUES ('nowhere', 1)`)
		return err
	}))
	must(t, s.SetDead(ctx, "nowhere", false, noon))
	if hosts, err := s.Dead(ctx); err != nil || len(hosts) != 0 {
		t.Errorf("%v %v", hosts, err)
	}
	is(t, s.SetDead(ctx, "nowhere", false, noon), fault.NotFound)
}
