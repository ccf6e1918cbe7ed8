package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// A store returns the same servers and hosts as one that has just been opened on the same database, after any change:
// without a lease, and with one, which permits it to answer from memory.
func TestCachesHoldWhatTheDatabaseHolds(t *testing.T) {
	t.Run("without a lease", func(t *testing.T) { compareCaches(t, 200, func(*store.Store) {}) })
	t.Run("with a lease", func(t *testing.T) {
		compareCaches(t, 400, func(s *store.Store) {
			terms := shortOptions()
			terms.Doubt = doubt
			l, err := s.Hold(t.Context(), owner("warm"), terms)
			must(t, err)
			go l.Keep(t.Context())
		})
	})
}

// doubt is how long the store of the test asks the database after a write with an unknown end.
const doubt = time.Second

func compareCaches(t *testing.T, steps int, prepare func(*store.Store)) {
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	open := func() *store.Store {
		s, err := store.Open(t.Context(), db)
		must(t, err)
		return s
	}
	warm, rng := open(), rand.New(rand.NewPCG(3, 4))
	prepare(warm)
	w := cacheWorld{Store: warm, db: db, t: t, rng: rng, done: map[string]int{}}
	for step := range steps {
		what := w.change()
		if fresh := open(); !w.same(what, fresh) {
			t.Fatalf("step %d", step)
		}
	}
	if w.done["unknown end"] < 3 || w.done["purge"] < 5 || w.done["settings"] < 15 {
		t.Errorf("the test shows little: %v", w.done)
	}
	if w.done["report"] < 15 || w.done["delete"] < 3 || w.done["devices change"] < 15 || w.done["forget"] < 2 {
		t.Errorf("the test shows little: %v", w.done)
	}
}

// TestClaimsOnCachedHosts claims devices on hosts in memory, which are not read again, and changes these servers and
// hosts in other ways. They are always those that a store has read which has just been opened on the same database.
func TestClaimsOnCachedHosts(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(5, 6))
	db, err := sqldb.Open(ctx, "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	warm, err := store.Open(ctx, db)
	must(t, err)
	l, err := warm.Hold(ctx, owner("warm"), shortOptions())
	must(t, err)
	go l.Keep(ctx)
	w := cacheWorld{Store: warm, db: db, t: t, rng: rng}
	ended, end := context.WithCancel(ctx)
	end()
	roots := []provider.ID{"root-a", "root-b"}
	put := func(host string, holder string) {
		h := report(host, device(0, pci.Available, ""), device(1, pci.Available, ""))
		h.Devices = append(h.Devices, device(2, pci.Allocated, resource.ConsumerID(holder)))
		must(t, w.PutReport(ctx, h, admitted))
	}
	put("a", "other")
	put("b", "other")
	for n := range 150 {
		id, host := fmt.Sprintf("s%d", rng.IntN(1e6)), []string{"a", "b"}[rng.IntN(2)]
		if n == 30 {
			put(host, id)
		}
		_, err = w.Reports(ctx, roots)
		must(t, err)
		must(t, w.Create(ctx, server(id, 0)))
		w.ids = append(w.ids, id)
		claim(t, warm, id, host)
		if _, err := w.Reports(ended, roots); err != nil != (n == 30) {
			t.Fatalf("the hosts after claim %d: %v; they are read again only if the report has the server", n, err)
		}
		switch n % 5 {
		case 1:
			put(host, w.anyServer())
		case 2:
			_, err = w.Change(ctx, w.anyServer(), func(s lifecycle.Server) lifecycle.Server {
				s.Devices = []schedule.Picked{{RequestID: "R", Address: fmt.Sprintf("10000:3b:00.%d", rng.IntN(3))}}
				return s
			})
			must(t, err)
		case 3:
			_, err = w.Change(ctx, w.anyServer(), func(s lifecycle.Server) lifecycle.Server {
				s.State, s.Host = lifecycle.Error, ""
				return s
			})
			must(t, err)
		}
		fresh, err := store.Open(ctx, db)
		must(t, err)
		if !w.same(fmt.Sprint("claim ", n), fresh) {
			t.FailNow()
		}
	}
}

// claim has a server begin the claim of a device on a host.
func claim(t *testing.T, s *store.Store, id, host string) {
	t.Helper()
	_, err := s.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.State, s.Host = lifecycle.Active, host
		s.Requests = []pci.Request{{ID: "R", Alias: "x", Count: 1}}
		return s
	})
	must(t, err)
}

// cacheWorld changes a store at random.
type cacheWorld struct {
	*store.Store
	db   *sqldb.DB
	t    *testing.T
	rng  *rand.Rand
	made int
	ids  []string // of servers that may be purged
	done map[string]int
}

var cacheHosts = []string{"a", "b", "c"}

// change makes one change and returns its name.
func (w *cacheWorld) change() (what string) {
	w.t.Helper()
	ctx, host := w.t.Context(), cacheHosts[w.rng.IntN(len(cacheHosts))]
	switch n := w.rng.IntN(13); {
	case n < 2 || len(w.ids) == 0:
		what = "create"
		w.create(host)
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
		_, err := w.Change(ctx, w.anyServer(), func(s lifecycle.Server) lifecycle.Server {
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
		_, err := w.Change(ctx, w.anyServer(), func(s lifecycle.Server) lifecycle.Server {
			s, _ = lifecycle.Next(s, lifecycle.DeleteRequested{}, noon)
			s, _ = lifecycle.Next(s, lifecycle.GuestGone{Host: s.Host, Consumer: s.ID}, noon)
			s, _ = lifecycle.Next(s, lifecycle.Released{}, noon)
			return s
		})
		must(w.t, err)
	case n < 10:
		what = "settings"
		w.changeSettings(host)
	case n < 11:
		what = "purge"
		must(w.t, w.Purge(ctx, noon.Add(time.Hour), w.rng.IntN(4)))
	case n < 12:
		what = "late"
		w.changeLate()
	default:
		what = "forget"
		if err := w.Forget(ctx, host); err != nil && !fault.Is(err, fault.Conflict) {
			w.t.Fatal(err)
		}
	}
	w.done[what]++
	return what
}

func (w *cacheWorld) create(host string) {
	w.t.Helper()
	id := fmt.Sprint("s", w.made)
	w.made++
	w.ids = append(w.ids, id)
	must(w.t, w.Create(w.t.Context(), serverOn(id, host)))
}

// anyServer returns the id of a server that is not purged.
func (w *cacheWorld) anyServer() string {
	for {
		id := w.ids[w.rng.IntN(len(w.ids))]
		if _, err := w.Read(w.t.Context(), id); err == nil {
			return id
		}
		w.ids = slices.DeleteFunc(w.ids, func(other string) bool { return other == id })
		if len(w.ids) == 0 {
			w.create(cacheHosts[0])
		}
	}
}

// changeSettings changes what operators set, on a host, for a project or in a flavor.
func (w *cacheWorld) changeSettings(host string) {
	w.t.Helper()
	ctx, one := w.t.Context(), fmt.Sprint(w.rng.IntN(2))
	var err error
	switch w.rng.IntN(10) {
	case 0:
		err = w.CreateFlavor(ctx, flavor.Flavor{ID: one, Name: one, ExtraSpecs: map[string]string{}})
	case 1:
		err = w.DeleteFlavor(ctx, one)
	case 2:
		err = w.SetExtraSpecs(ctx, one, map[string]string{"a": fmt.Sprint(w.rng.Uint64())})
	case 3:
		err = w.DescribeFlavor(ctx, one, fmt.Sprint(w.rng.Uint64()))
	case 4:
		err = w.DeleteExtraSpec(ctx, one, "a")
	case 5:
		err = w.SetLimits(ctx, store.QuotaOwner{Project: one}, quota.Amounts{"cores": w.rng.IntN(100)})
	case 6:
		err = w.ResetLimits(ctx, one, "")
	case 7:
		err = w.SetDead(ctx, host, w.rng.IntN(2) == 0, noon)
	case 8:
		err = w.DisableHost(ctx, host, fmt.Sprint(w.rng.Uint64()), noon)
	case 9:
		err = w.EnableHost(ctx, host)
	}
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		w.t.Fatal(err)
	}
}

// changeLate changes a server, and its time ends before the change is committed, because another write is in the same
// transaction. The server is read before the commit, and sometimes when the doubt is over.
func (w *cacheWorld) changeLate() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Millisecond)
	defer cancel()
	id, read, other, begin := w.anyServer(), make(chan struct{}), make(chan error, 1), sync.Once{}
	entries := 0
	_, changed := w.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server {
		begin.Do(func() {
			go func() { other <- w.db.Write(w.t.Context(), func(*sqldb.Tx) error { <-read; return nil }) }()
			time.Sleep(3 * time.Millisecond)
		})
		s.History = append(s.History, lifecycle.HistoryEntry{At: noon, Text: "late", Times: w.rng.IntN(1 << 40)})
		entries = len(s.History)
		return s
	})
	begin.Do(func() { other <- nil }) // the turn came too late
	switch {
	case sqldb.IsUnknown(changed):
		w.done["unknown end"]++
	case changed != nil && !fault.Is(changed, fault.Unavailable):
		w.t.Fatal(changed)
	}
	_, err := w.Read(w.t.Context(), id)
	close(read)
	must(w.t, err)
	must(w.t, <-other) // committed
	if sqldb.IsUnknown(changed) && w.done["unknown end"] <= 2 {
		time.Sleep(doubt)
	}
	// before anything else reads it
	if got, err := w.Read(w.t.Context(), id); err != nil || sqldb.IsUnknown(changed) && len(got.History) != entries {
		w.t.Errorf("a late change is missing: %d of %d entries (%v)", len(got.History), entries, err)
	}
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
	for _, one := range []string{"0", "1"} {
		compare("flavor "+one, func(s *store.Store) (any, error) { return s.Flavor(ctx, one) })
		compare("limits of "+one, func(s *store.Store) (any, error) { return s.Limits(ctx, one, "") })
	}
	compare("dead hosts", func(s *store.Store) (any, error) { return s.Dead(ctx) })
	compare("disabled hosts", func(s *store.Store) (any, error) { return s.DisabledHosts(ctx) })
	compare("reports", func(s *store.Store) (any, error) { return s.Reports(ctx, roots) })
	compare("list", func(s *store.Store) (any, error) { return s.Servers(ctx, store.ServerFilter{}) })
	for _, id := range w.ids {
		compare("server "+id, func(s *store.Store) (any, error) { return s.Read(ctx, id) })
		compare("consumer "+id, func(s *store.Store) (any, error) { return s.ServerOfConsumer(ctx, id) })
	}
	return ok
}
