package events

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s, err := store.Open(t.Context(), db)
	must(t, err)
	return s
}

func quiet(string) Observed { return Observed{} }

// begun returns a Source that reads at each call.
func begun(s Store, observe func(string) Observed) *Source {
	source := NewSource(s, observe)
	at := noon
	source.now = func() time.Time { at = at.Add(foreignAfter); return at }
	source.Begin()
	return source
}

// replica is the state of a client that gets all changes.
type replica map[eventstream.Key]string

// apply applies the changes of a source, as a client does that reads a Log.
func (r replica) apply(t *testing.T, s *Source) {
	t.Helper()
	changes, err := s.Changes(t.Context())
	must(t, err)
	for key, o := range changes {
		if o == nil {
			delete(r, key)
			continue
		}
		text, err := json.Marshal([]any{o.Data, o.Own, o.Host, o.Project, o.Classes})
		must(t, err)
		r[key] = string(text)
	}
}

// TestChangesOfTwoProcesses changes servers, hosts and devices at random through two stores on one database. Whenever
// changes were read, the client has what a new Source on a third store returns, and after a change nothing else.
func TestChangesOfTwoProcesses(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url := fresh(t)
		w := &world{t: t, chance: rand.New(rand.NewPCG(5, 6)), stores: []*store.Store{open(t, url), open(t, url)},
			done: map[string]int{}}
		third := open(t, url)
		source, seen := begun(w.stores[0], quiet), replica{}
		for range 300 {
			w.change()
			if w.chance.IntN(3) > 0 {
				continue
			}
			seen.apply(t, source)
			want := replica{}
			want.apply(t, begun(third, quiet))
			if !reflect.DeepEqual(seen, want) {
				t.Fatalf("the client has\n%v\nthe database\n%v", seen, want)
			}
		}
		for _, what := range []string{"create", "move", "delete", "report", "forget", "disable", "enable", "dead", "device"} {
			if w.done[what] < 3 {
				t.Errorf("%s happened %d times", what, w.done[what])
			}
		}
	})
}

// world changes a database at random.
type world struct {
	t      *testing.T
	chance *rand.Rand
	stores []*store.Store
	ids    []string
	n      int
	done   map[string]int
}

// change makes one change through one of the stores.
func (w *world) change() {
	w.t.Helper()
	s, host, ctx := w.stores[w.chance.IntN(2)], fmt.Sprint("h", w.chance.IntN(3)), w.t.Context()
	w.n++
	serverHost := fmt.Sprint("h", w.chance.IntN(2)) // so that the third one can be forgotten
	var what string
	var err error
	switch n := w.chance.IntN(16); {
	case n < 3 || len(w.ids) == 0:
		what = "create"
		id := fmt.Sprint("s", w.n)
		w.ids = append(w.ids, id)
		err = s.Create(ctx, lifecycle.Server{ID: id, Name: "n" + id, Project: "p", User: "u", State: lifecycle.Active,
			Host: serverHost, Reported: true, Created: noon, Launched: noon})
	case n < 6:
		what = "move"
		err = w.update(ctx, s, func(v lifecycle.Server) lifecycle.Server {
			if v.State == lifecycle.Active {
				v.Host, v.Updated = serverHost, noon.Add(time.Duration(w.n)*time.Second)
			}
			return v
		})
	case n < 8:
		what = "delete"
		err = w.update(ctx, s, func(v lifecycle.Server) lifecycle.Server {
			v, _ = lifecycle.Next(v, lifecycle.DeleteRequested{}, noon)
			v, _ = lifecycle.Next(v, lifecycle.GuestGone{Host: v.Host, Consumer: v.ID}, noon)
			v, _ = lifecycle.Next(v, lifecycle.Released{}, noon)
			return v
		})
	default:
		what, err = w.changeHost(ctx, s, host)
	}
	if err == nil {
		w.done[what]++
	} else if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// update changes one of the servers.
func (w *world) update(ctx context.Context, s *store.Store, next func(lifecycle.Server) lifecycle.Server) error {
	_, err := s.Change(ctx, w.ids[w.chance.IntN(len(w.ids))], next)
	return err
}

// changeHost changes what is known of a host.
func (w *world) changeHost(ctx context.Context, s *store.Store, host string) (what string, err error) {
	switch w.chance.IntN(6) {
	case 0:
		return "forget", s.Forget(ctx, host)
	case 1:
		return "disable", s.DisableHost(ctx, host, fmt.Sprint("reason ", w.n), noon)
	case 2:
		return "enable", s.EnableHost(ctx, host)
	case 3:
		return "dead", s.SetDead(ctx, host, w.chance.IntN(2) == 0, noon)
	case 4:
		at := pci.Address{Bus: 1, Func: uint8(w.chance.IntN(3))}
		return "device", s.DisableDevice(ctx, store.DisabledDevice{Host: host, Disablement: pci.Disablement{
			ID: fmt.Sprint("d", w.n), Address: at, Since: noon}})
	}
	h := schedule.Host{Name: host, Provider: provider.ID("root-" + host), Conditions: conditions(fmt.Sprint(w.n)),
		Seen: noon.Add(time.Duration(w.n) * time.Second)}
	for i := range w.chance.IntN(4) {
		holder, state := resource.ConsumerID(""), pci.Available
		if w.chance.IntN(2) == 0 {
			holder, state = "s1", pci.Allocated
		}
		h.Devices = append(h.Devices, pci.Offered{Device: pci.Device{Address: pci.Address{Bus: 1, Func: uint8(i)},
			Vendor: "8086", Product: "1515", Type: pci.Plain}, ResourceClass: "CUSTOM_X", State: state, Holder: holder,
			Gone: holder != "" && w.chance.IntN(3) == 0})
	}
	return "report", s.PutReport(ctx, h, func(schedule.Host) error { return nil })
}

// conditions returns conditions with these texts, seen at noon.
func conditions(texts ...string) (list []condition.Condition) {
	for _, text := range texts {
		list = append(list, condition.New(condition.Sync, "", text).At(noon))
	}
	return list
}

// TestObserved returns a host again when what compute observes of it changes.
func TestObserved(t *testing.T) {
	s := open(t, databases.SQLite(t))
	must(t, s.PutReport(t.Context(), schedule.Host{Name: "h", Provider: "r", Seen: noon, Conditions: conditions("one")},
		func(schedule.Host) error { return nil }))
	var observed Observed
	source := begun(s, func(string) Observed { return observed })
	for _, c := range []struct {
		observed Observed
		want     hostDoc
	}{
		{Observed{}, hostDoc{State: "up", Conditions: conditions("one")}},
		{Observed{Silent: true}, hostDoc{State: "down", Conditions: conditions("one")}},
		{Observed{Behind: true, Conditions: conditions("two")},
			hostDoc{State: "up", NotFollowing: true, Conditions: conditions("one", "two")}},
	} {
		observed = c.observed
		changes, err := source.Changes(t.Context())
		must(t, err)
		c.want.Host, c.want.Provider, c.want.Status, c.want.Reports = "h", "r", "enabled", 1
		if got := changes[eventstream.Key{Kind: Host, ID: "h"}]; got == nil || !reflect.DeepEqual(got.Data, c.want) {
			t.Errorf("%+v: %+v", c.observed, got)
		}
	}
}

// countedStore counts how often the versions are read, and fails on request.
type countedStore struct {
	*store.Store
	read int
	fail bool
}

func (c *countedStore) Versions(ctx context.Context) (store.Versions, error) {
	c.read++
	return c.Store.Versions(ctx)
}

func (c *countedStore) ReadServers(ctx context.Context, ids []string) ([]lifecycle.Server, error) {
	if c.fail {
		return nil, fault.New(fault.Unavailable, "no database")
	}
	return c.Store.ReadServers(ctx, ids)
}

// TestReadsOnlyAfterWrites reads the versions after a write of this process at once, otherwise once a second, and
// repeats what it could not read.
func TestReadsOnlyAfterWrites(t *testing.T) {
	s := &countedStore{Store: open(t, databases.SQLite(t))}
	source := NewSource(s, quiet)
	now := noon
	source.now = func() time.Time { return now }
	source.Begin()
	seen := replica{}
	for range 5 {
		seen.apply(t, source)
	}
	must(t, s.Create(t.Context(), lifecycle.Server{ID: "a", State: lifecycle.Active, Host: "h"}))
	s.fail = true
	if _, err := source.Changes(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v", err)
	}
	s.fail = false
	for range 5 {
		seen.apply(t, source)
	}
	now = now.Add(foreignAfter)
	for range 5 {
		seen.apply(t, source)
	}
	if s.read != 4 || len(seen) != 1 {
		t.Errorf("read %d times, seen %v", s.read, seen)
	}
}

// TestHiddenFromUsers has no host in the documents for callers of a project.
func TestHiddenFromUsers(t *testing.T) {
	o := serverObject(lifecycle.Server{ID: "a", Name: "n", Project: "p", State: lifecycle.Active, Host: "h"})
	text, err := json.Marshal(o.Own)
	must(t, err)
	if want := `{"id":"a","name":"n","project_id":"p","user_id":"","flavor":"","status":"ACTIVE","vm_state":"active",` +
		`"task_state":""}`; string(text) != want {
		t.Errorf("got %s", text)
	}
	if o.Host != "h" || o.Project != "p" {
		t.Errorf("got %+v", o)
	}
}
