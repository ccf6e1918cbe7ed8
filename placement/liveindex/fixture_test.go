package liveindex

import (
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/placement/liveindex/indextest"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// world is a store with its index.
type world struct {
	t     testing.TB
	store *store.Store
	*Index
	names  *Names
	syncer *Syncer
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openStore opens the store of a database and creates its schema.
func openStore(t testing.TB, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	s, err := store.Open(t.Context(), db)
	must(t, err)
	must(t, s.Sync(t.Context()))
	return s
}

// newWorldOn returns a store with an index that has read it.
func newWorldOn(t testing.TB, url string) *world {
	t.Helper()
	s := openStore(t, url)
	w := &world{t: t, store: s, Index: New(s), names: NewNames(s)}
	var err error
	w.syncer, err = NewSyncer(t.Context(), s, w.Index, w.names)
	must(t, err)
	must(t, w.Reload(t.Context()))
	return w
}

// compare compares the whole index with the database.
func (w *world) compare() {
	w.t.Helper()
	indextest.Compare(w.t, w.Snapshot(), w.store)
}

// createHost creates a host with VCPU and a child provider with VFs, and refreshes the index.
func (w *world) createHost(name string) (host, nic provider.ID) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.store.EnsureClass(ctx, "CUSTOM_VF")
	must(w.t, err)
	host, nic = provider.ID(uuid.NewString()), provider.ID(uuid.NewString())
	_, _, err = w.store.CreateProvider(ctx, host, name, "")
	must(w.t, err)
	_, _, err = w.store.CreateProvider(ctx, nic, name+"_nic", host)
	must(w.t, err)
	for id, class := range map[provider.ID]resource.Class{host: "VCPU", nic: "CUSTOM_VF"} {
		_, err := w.store.ReplaceInventories(ctx, id, 0, map[resource.Class]resource.Inventory{class: resource.Whole(4)})
		must(w.t, err)
	}
	must(w.t, w.Refresh(ctx, host))
	return host, nic
}
