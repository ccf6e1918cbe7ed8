package store

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// twoStores opens a database twice. The second store has no subscribers, so it reads all assignments.
func twoStores(t *testing.T) (cached, plain *Store) {
	t.Helper()
	url := databases.SQLite(t)
	open := func() *Store {
		db, err := sqldb.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s, err := Open(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return open(), open()
}

// placedOn returns a server in a random state on a host; an empty host: on none.
func placedOn(id, host string, state lifecycle.State, revision int64) lifecycle.Server {
	s := lifecycle.Server{ID: id, Name: fmt.Sprint(id, " ", revision), State: state, Host: host, Revision: revision}
	if host != "" {
		s.Choices = []schedule.Choice{{Host: host, Root: "root", Allocation: resource.Allocation{"root": {"VCPU": 1}}}}
	}
	return s
}

// What a store with subscribers returns after any changes is what the database has.
func TestCachedAssignmentsAreThoseOfTheDatabase(t *testing.T) {
	cached, plain := twoStores(t)
	hosts := []string{"a", "b", "c"}
	for _, host := range hosts {
		report := schedule.Host{Name: host, Provider: provider.ID("root-" + host), Seen: time.Now()}
		if err := cached.PutReport(t.Context(), report, func(schedule.Host) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range hosts[:2] {
		_, stop := cached.Subscribe(host)
		defer stop()
	}
	r := rand.New(rand.NewPCG(1, 2))
	states := []lifecycle.State{lifecycle.Spawning, lifecycle.Active, lifecycle.DeletingGuest, lifecycle.Failing,
		lifecycle.Deleted, lifecycle.Scheduling}
	entries, removals := 0, 0
	for n := range 400 {
		id, host, state := fmt.Sprintf("s%02d", r.IntN(12)), append(hosts, "")[r.IntN(4)], states[r.IntN(len(states))]
		if _, err := cached.Read(t.Context(), id); err != nil {
			if err := cached.Create(t.Context(), placedOn(id, "", lifecycle.Preparing, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cached.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			return placedOn(id, host, state, s.Revision)
		}); err != nil {
			t.Fatal(err)
		}
		if r.IntN(20) == 0 {
			if err := cached.SetDead(t.Context(), hosts[r.IntN(3)], r.IntN(2) == 0, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(3) > 0 {
			continue // several changes between two readings
		}
		for _, host := range hosts {
			got, err := cached.Assignments(t.Context(), host)
			want, wantErr := plain.Assignments(t.Context(), host)
			if err != nil || wantErr != nil {
				t.Fatal(err, wantErr)
			}
			if len(got.Entries)+len(want.Entries) == 0 {
				got.Entries, want.Entries = nil, nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("after %d changes, host %s:\n%+v\nwant\n%+v", n, host, got, want)
			}
			entries, removals = entries+len(got.Entries), removals+len(got.Removals)
		}
	}
	if entries < 100 || removals < 20 {
		t.Errorf("only %d entries and %d removals were compared", entries, removals)
	}
}

// While servers change at the same time, a subscriber that reads after each notification has the last assignments.
func TestNoChangeIsMissed(t *testing.T) {
	cached, plain := twoStores(t)
	changed, stop := cached.Subscribe("a")
	defer stop()
	const servers, changes = 8, 150
	for n := range servers {
		if err := cached.Create(t.Context(), placedOn(fmt.Sprint("s", n), "", lifecycle.Preparing, 1)); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(chan Assignments, 1)
	ended := make(chan struct{})
	go func() {
		now, err := cached.Assignments(t.Context(), "a")
		for finished := false; err == nil; {
			select {
			case <-changed:
			default:
				if finished {
					seen <- now
					return
				}
				select {
				case <-changed:
				case <-ended:
					finished = true
				}
			}
			var next Assignments
			if next, err = cached.Assignments(t.Context(), "a"); next.Revision != now.Revision { // as the stream does
				now = next
			}
		}
		t.Error(err)
		seen <- now
	}()
	var running sync.WaitGroup
	for n := range servers {
		running.Go(func() {
			id := fmt.Sprint("s", n)
			for i := range changes {
				host := []string{"a", ""}[i%2]
				if i == changes-1 && n%2 == 0 {
					host = "a"
				}
				if _, err := cached.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
					return placedOn(id, host, lifecycle.Active, s.Revision)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	close(ended)
	got := <-seen
	want, err := plain.Assignments(t.Context(), "a")
	if err != nil || len(want.Entries) != servers/2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v %v", got, want, err)
	}
}

// A recorded removal under the former id of a guest is left out, as in lifecycle.RemovalsAt.
func TestRecordedRemovalsOfFormerIDs(t *testing.T) {
	from := lifecycle.Residence{Consumer: "m", PreviousConsumer: "s", Host: "a"}
	for name, server := range map[string]lifecycle.Server{
		"assigned": {ID: "s", State: lifecycle.Moving,
			Move: &lifecycle.Move{Phase: lifecycle.AwaitingSourceAck, Consumer: "m", From: from}},
		"to be removed": {ID: "s", State: lifecycle.DeletedAwaitingCleanup, Leftovers: []lifecycle.Residence{from}},
	} {
		h := (&hostAssignments{}).with("a", server)
		if len(h.entries)+len(h.removals) != 1 {
			t.Fatalf("%s: %+v", name, h)
		}
		want := append(h.removalsWith("a", nil), lifecycle.Removal{Host: "a", Consumer: "t"})
		if got := h.removalsWith("a", []string{"s", "t"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A change during a reading is read again, also if the last subscriber left and another one came meanwhile.
func TestForgottenDuringAReading(t *testing.T) {
	c := newAssignmentCache()
	c.keep("a")
	known, done := c.read("a")
	server := placedOn("s", "a", lifecycle.Active, 1)
	c.begin(lifecycle.Server{}, server)()
	c.forget("a")
	c.keep("a")
	done(&hostAssignments{revision: 1}) // without the server
	if next, _ := c.read("a"); known.known || next.known {
		t.Errorf("the reading is used: %+v", next)
	}
}
