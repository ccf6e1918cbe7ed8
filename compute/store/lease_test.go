package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/sqldb"
)

// brief is a lease that ends soon, for a holder that nobody knows to be dead.
func brief() store.LeaseOptions {
	return store.LeaseOptions{TTL: 3 * time.Second, Renew: 50 * time.Millisecond, Poll: 20 * time.Millisecond}
}

func holder(name string) store.LeaseOwner {
	return store.LeaseOwner{Instance: name, Host: "db1", PID: 4711}
}

// another opens the same database as another process would.
func another(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s, err := store.Open(t.Context(), db)
	must(t, err)
	return s
}

// keep runs Keep until the test, or what it gives, ends it.
func keep(t *testing.T, l *store.Lease) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.Keep(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return stop
}

func TestLease(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, url string)
		}{
			{"a second one is refused", secondRefused}, {"the dead are followed at once", deadFollowed},
			{"the living are given time", aliveIsGivenTime}, {"a lease ends, and its holder is fenced off", fencedOff},
			{"what was begun is finished first", begunFirst}, {"given back", givenBack}, {"many at once", manyAtOnce},
			{"work and renewal", workAndRenewal},
			{"the client's lease ends first", clientEndsFirst}, {"the database's clock jumps", clockJumps},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
		}
	})
}

// One that renews is alive: the second hears who it is, soon, and the first works on.
func secondRefused(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	l, err := first.Hold(t.Context(), holder("first"), brief())
	must(t, err)
	keep(t, l)
	_, err = second.Hold(t.Context(), holder("second"), brief())
	is(t, err, fault.Conflict)
	for _, word := range []string{"process 4711 on host db1, since " + time.Now().UTC().Format("2006-01-02"),
		"end that one first", "[database] connection"} {
		if !strings.Contains(fault.TextOf(err), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
	must(t, first.Create(t.Context(), server("s", 1)))
}

// Who is known to run, but short of time, has twice as long as others before he is followed.
func aliveIsGivenTime(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	short := brief()
	short.TTL = time.Millisecond
	l, err := first.Hold(t.Context(), holder("first"), short)
	must(t, err)
	time.Sleep(10 * time.Millisecond) // it has ended, by any clock
	terms := brief()
	terms.TTL = 20 * time.Second
	terms.Alive = func(h store.LeaseOwner) bool { return h.Instance == "first" }
	terms.Waiting = func(_ store.LeaseOwner, longest time.Duration) {
		if longest != 2*terms.TTL {
			t.Errorf("it waits %s", longest)
		}
		keep(t, l)
	}
	_, err = second.Hold(t.Context(), holder("second"), terms)
	is(t, err, fault.Conflict)
}

// A holder that does not renew its lease stops acting before another process can take it.
func clientEndsFirst(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	l, err := first.Hold(t.Context(), holder("first"), brief())
	must(t, err)
	must(t, l.Check())
	bound, stop := l.Bind(t.Context())
	defer stop()
	var ended time.Time
	var watching sync.WaitGroup
	watching.Go(func() { <-bound.Done(); ended = time.Now() })
	_, err = second.Hold(t.Context(), holder("second"), brief())
	taken := time.Now()
	must(t, err)
	watching.Wait()
	if !ended.Before(taken) {
		t.Errorf("calls of the first were cancelled %s after the second had the database", ended.Sub(taken))
	}
	is(t, l.Check(), fault.Unavailable)
	cause := context.Cause(bound)
	if !strings.Contains(fault.TextOf(cause), "has not confirmed the lease of this process") {
		t.Errorf("the calls were cancelled because of %v", cause)
	}
	is(t, first.Create(t.Context(), server("late", 1)), fault.Unavailable)
	late, stop := l.Bind(t.Context())
	defer stop()
	<-late.Done()
}

// A lease that has expired only because the database's clock was set forward is not taken over: its holder renews it.
func clockJumps(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	terms := brief()
	terms.Renew = 500 * time.Millisecond
	l, err := first.Hold(t.Context(), holder("first"), terms)
	must(t, err)
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE compute_lease SET expiry = 1`)
		return err
	}))
	keep(t, l)
	_, err = second.Hold(t.Context(), holder("second"), brief())
	is(t, err, fault.Conflict)
	must(t, first.Create(t.Context(), server("s", 1)))
}

// A dead connection costs one renewal: the next one uses another connection.
func TestLeaseOutlivesAConnection(t *testing.T) {
	servers := map[string]func(testing.TB, ...string) *databases.Server{
		"MariaDB": databases.MariaDB, "PostgreSQL": databases.PostgreSQL}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			db := start(t)
			url, proxy := db.Database(t), databases.NewProxy(t, db.Addr)
			first, second := another(t, proxy.URL(url)), another(t, url)
			terms := brief()
			terms.TTL = 6 * time.Second
			l, err := first.Hold(t.Context(), holder("first"), terms)
			must(t, err)
			keep(t, l)
			proxy.Break(databases.Cut{Stall: true})
			time.Sleep(terms.TTL)
			if proxy.Broken() != 1 {
				t.Fatalf("%d connections were cut", proxy.Broken())
			}
			must(t, l.Check())
			_, err = second.Hold(t.Context(), holder("second"), brief())
			is(t, err, fault.Conflict)
		})
	}
}

func deadFollowed(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	forever := brief()
	forever.TTL = time.Hour
	_, err := first.Hold(t.Context(), holder("first"), forever)
	must(t, err)
	terms := brief()
	terms.Dead = func(h store.LeaseOwner) bool { return h.Instance == "first" && h.Host == "db1" && h.PID == 4711 }
	terms.Waiting = func(h store.LeaseOwner, _ time.Duration) { t.Errorf("there is nobody to wait for, but %s", h) }
	_, err = second.Hold(t.Context(), holder("second"), terms)
	must(t, err)
}

// A holder that stopped renewing is waited for, then followed. When it wakes up it can neither write nor read, and
// hears who has taken over.
func fencedOff(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	l, err := first.Hold(t.Context(), holder("first"), brief())
	must(t, err)
	must(t, first.Create(t.Context(), server("s", 1)))
	terms, waited := brief(), 0
	terms.Waiting = func(store.LeaseOwner, time.Duration) { waited++ }
	_, err = second.Hold(t.Context(), holder("second"), terms)
	must(t, err)
	if waited != 1 {
		t.Errorf("it was told %d times that somebody is waited for", waited)
	}
	err = first.Create(t.Context(), server("late", 1))
	is(t, err, fault.Unavailable)
	if !strings.Contains(fault.TextOf(err), "taken over compute's database (process 4711 on host db1") {
		t.Errorf("the refusal does not say who has it: %v", err)
	}
	_, err = first.Read(t.Context(), "s")
	is(t, err, fault.Unavailable)
	is(t, l.Keep(t.Context()), fault.Unavailable)
	must(t, l.Release(t.Context())) // which takes nothing from the second
	_, err = second.Read(t.Context(), "s")
	must(t, err)
	_, err = second.Read(t.Context(), "late")
	is(t, err, fault.NotFound)
}

// A write that saw the lease is kept before anybody else has it.
func begunFirst(t *testing.T, url string) {
	first, second, third := another(t, url), another(t, url), another(t, url)
	_, err := first.Hold(t.Context(), holder("first"), brief())
	must(t, err)
	must(t, first.Create(t.Context(), server("s", 1)))
	begun, finish, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		begin := sync.OnceFunc(func() { close(begun) })
		_, err := first.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
			begin()
			<-finish
			s.Name = "renamed"
			return s
		})
		written <- err
	}()
	<-begun
	terms, held := brief(), make(chan error, 1)
	terms.Dead = func(store.LeaseOwner) bool { return true }
	short := terms
	short.TakeoverTimeout = time.Second
	_, err = third.Hold(t.Context(), holder("third"), short)
	is(t, err, fault.Unavailable)
	if !strings.Contains(fault.TextOf(err), "still waits for a transaction of process 4711 on host db1") {
		t.Errorf("the fault does not name the process that it waited for: %v", err)
	}
	go func() {
		_, err := second.Hold(t.Context(), holder("second"), terms)
		held <- err
	}()
	select {
	case err := <-held:
		t.Errorf("the lease was taken in the middle of a write: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(finish)
	must(t, <-written)
	must(t, <-held)
	got, err := second.Read(t.Context(), "s")
	must(t, err)
	if got.Name != "renamed" {
		t.Errorf("the write is lost: %q", got.Name)
	}
}

func givenBack(t *testing.T, url string) {
	first, second := another(t, url), another(t, url)
	l, err := first.Hold(t.Context(), holder("first"), brief())
	must(t, err)
	must(t, keep(t, l)())
	must(t, l.Release(t.Context()))
	terms := brief()
	terms.Waiting = func(h store.LeaseOwner, _ time.Duration) { t.Errorf("it was given back, and %s is waited for", h) }
	_, err = second.Hold(t.Context(), holder("second"), terms)
	must(t, err)
}

// Of many that start at the same moment one works, and the others name it.
func manyAtOnce(t *testing.T, url string) {
	const many = 6
	var stores []*store.Store
	for range many {
		stores = append(stores, another(t, url))
	}
	var all sync.WaitGroup
	errs := make([]error, many)
	for i, s := range stores {
		all.Go(func() {
			var l *store.Lease
			if l, errs[i] = s.Hold(t.Context(), holder(fmt.Sprint(i)), brief()); errs[i] == nil {
				keep(t, l)
			}
		})
	}
	all.Wait()
	held := 0
	for _, err := range errs {
		if err == nil {
			held++
			continue
		}
		is(t, err, fault.Conflict)
	}
	if held != 1 {
		t.Errorf("%d hold the database: %v", held, errs)
	}
}

// Renewing and working do not hinder each other, whatever each database thinks of rows that are locked.
func workAndRenewal(t *testing.T, url string) {
	s := another(t, url)
	terms := brief()
	terms.Renew = time.Millisecond
	l, err := s.Hold(t.Context(), holder("first"), terms)
	must(t, err)
	stop := keep(t, l)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 10 {
				if err := s.Create(t.Context(), server(fmt.Sprintf("s-%d-%d", i, n), 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	must(t, stop())
}
