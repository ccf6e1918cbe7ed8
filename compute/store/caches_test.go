package store_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// A store returns the same servers and hosts as one that has just been opened on the same database, after any change.
func TestCachesHoldWhatTheDatabaseHolds(t *testing.T) {
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	open := func() *store.Store {
		s, err := store.Open(t.Context(), db)
		must(t, err)
		return s
	}
	warm, rng := open(), rand.New(rand.NewPCG(3, 4))
	w := cacheWorld{Store: warm, t: t, rng: rng}
	for step := range 200 {
		what := w.change()
		if fresh := open(); !w.same(what, fresh) {
			t.Fatalf("step %d", step)
		}
	}
	if w.done["report"] < 15 || w.done["delete"] < 3 || w.done["devices change"] < 15 || w.done["forget"] < 2 {
		t.Errorf("the test shows little: %v", w.done)
	}
}

// cacheWorld changes a store at random.
type cacheWorld struct {
	*store.Store
	t    *testing.T
	rng  *rand.Rand
	ids  []string
	done map[string]int
}

var cacheHosts = []string{"a", "b", "c"}

// change makes one change and returns its name.
func (w *cacheWorld) change() (what string) {
	w.t.Helper()
	ctx, host := w.t.Context(), cacheHosts[w.rng.IntN(len(cacheHosts))]
	switch n := w.rng.IntN(10); {
	case n < 2 || len(w.ids) == 0:
		what = "create"
		w.ids = append(w.ids, fmt.Sprint("s", len(w.ids)))
		must(w.t, w.Create(ctx, serverOn(w.ids[len(w.ids)-1], host)))
	case n < 5:
		what = "report"
		h := report(host)
		for fn := range uint8(3) {
			holder, state := resource.ConsumerID(""), pci.Available
			if w.rng.IntN(2) == 0 {
				holder, state = resource.ConsumerID(w.ids[w.rng.IntN(len(w.ids))]), pci.Allocated
			}
			h.Devices = append(h.Devices, device(fn, state, holder))
		}
		if w.rng.IntN(4) == 0 {
			h.Provider = provider.ID("other-root-" + host)
		}
		must(w.t, w.PutReport(ctx, h, admitted))
	case n < 8:
		what = "devices change"
		_, err := w.Change(ctx, w.ids[w.rng.IntN(len(w.ids))], func(s lifecycle.Server) lifecycle.Server {
			if s.State != lifecycle.Active {
				return s
			}
			s.Host = host
			s.Devices = []schedule.Picked{{RequestID: s.Requests[0].ID, Address: fmt.Sprintf("10000:3b:00.%d", w.rng.IntN(3))}}
			s.History = append(s.History, lifecycle.HistoryEntry{At: noon, Text: host, Times: w.rng.IntN(100)})
			return s
		})
		must(w.t, err)
	case n < 9:
		what = "delete"
		_, err := w.Change(ctx, w.ids[w.rng.IntN(len(w.ids))], func(s lifecycle.Server) lifecycle.Server {
			s, _ = lifecycle.Next(s, lifecycle.DeleteRequested{}, noon)
			s, _ = lifecycle.Next(s, lifecycle.GuestGone{Host: s.Host, Consumer: s.ID}, noon)
			s, _ = lifecycle.Next(s, lifecycle.Released{}, noon)
			return s
		})
		must(w.t, err)
	default:
		what = "forget"
		if err := w.Forget(ctx, host); err != nil && !fault.Is(err, fault.Conflict) {
			w.t.Fatal(err)
		}
	}
	if w.done == nil {
		w.done = map[string]int{}
	}
	w.done[what]++
	return what
}

// same compares what both stores return.
func (w *cacheWorld) same(what string, fresh *store.Store) bool {
	w.t.Helper()
	ctx, ok := w.t.Context(), true
	compare := func(of string, read func(s *store.Store) (any, error)) {
		w.t.Helper()
		got, err := read(w.Store)
		want, wantErr := read(fresh)
		if !reflect.DeepEqual(got, want) || fault.KindOf(err) != fault.KindOf(wantErr) {
			ok = false
			w.t.Errorf("after %s, %s: got\n%+v (%v)\nwant\n%+v (%v)", what, of, got, err, want, wantErr)
		}
	}
	var roots []provider.ID
	for _, host := range cacheHosts {
		roots = append(roots, provider.ID("root-"+host), provider.ID("other-root-"+host))
		compare("host "+host, func(s *store.Store) (any, error) { return s.Host(ctx, host) })
		compare("servers on "+host, func(s *store.Store) (any, error) { return s.OnHost(ctx, host) })
		compare("assignments of "+host, func(s *store.Store) (any, error) { return s.Assignments(ctx, host) })
	}
	compare("reports", func(s *store.Store) (any, error) { return s.Reports(ctx, roots) })
	compare("list", func(s *store.Store) (any, error) { return s.Servers(ctx, store.ServerFilter{}) })
	for _, id := range w.ids {
		compare("server "+id, func(s *store.Store) (any, error) { return s.Read(ctx, id) })
		compare("consumer "+id, func(s *store.Store) (any, error) { return s.ServerOfConsumer(ctx, id) })
	}
	return ok
}
