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
	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

// shortOptions are the options of a lease that ends soon, for an owner that is not known to be dead.
func shortOptions() lease.Options {
	return lease.Options{TTL: 3 * time.Second, Renew: 50 * time.Millisecond, Poll: 20 * time.Millisecond}
}

// owner returns a lease owner with this instance.
func owner(name string) lease.Owner {
	return lease.Owner{Instance: name, Host: "db1", PID: 4711}
}

// openAgain opens the database as another process would.
func openAgain(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s, err := store.Open(t.Context(), db)
	must(t, err)
	return s
}

// keepRenewing runs Keep until the end of the test, or until stop is called, which returns the error of Keep.
func keepRenewing(t *testing.T, l *lease.Lease) (stop func() error) {
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

func TestLeaseOnEveryDatabase(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, url string)
		}{
			{"a second process is rejected", secondProcessRejected}, {"a dead owner is replaced at once", deadOwnerReplaced},
			{"a running owner has more time", runningOwnerHasMoreTime}, {"a former owner is fenced", formerOwnerFenced},
			{"a takeover waits for a transaction", takeoverWaitsForTransaction},
			{"a released lease is acquired at once", releasedLeaseAcquired},
			{"concurrent acquisition", concurrentAcquisition},
			{"writes during renewal", writesDuringRenewal},
			{"the client's lease ends first", clientLeaseEndsFirst}, {"the database's clock jumps", databaseClockJumps},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
		}
	})
}

// secondProcessRejected checks that a second process gets an error that names the owner, if the owner renews its lease.
func secondProcessRejected(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	l, err := first.Hold(t.Context(), owner("first"), shortOptions())
	must(t, err)
	keepRenewing(t, l)
	_, err = second.Hold(t.Context(), owner("second"), shortOptions())
	is(t, err, fault.Conflict)
	for _, word := range []string{"process 4711 on host db1, since " + time.Now().UTC().Format("2006-01-02"),
		"end that one first", "[database] connection"} {
		if !strings.Contains(fault.TextOf(err), word) {
			t.Errorf("the error lacks %q: %v", word, err)
		}
	}
	must(t, first.Create(t.Context(), server("s", 1)))
}

// runningOwnerHasMoreTime checks that an owner that is known to run has twice the TTL before it loses the lease.
func runningOwnerHasMoreTime(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	short := shortOptions()
	short.TTL = time.Millisecond
	l, err := first.Hold(t.Context(), owner("first"), short)
	must(t, err)
	time.Sleep(10 * time.Millisecond) // the lease has ended
	terms := shortOptions()
	terms.TTL = testenv.Patience / 2 // a busy machine renews late
	terms.Alive = func(h lease.Owner) bool { return h.Instance == "first" }
	terms.Waiting = func(_ lease.Owner, longest time.Duration) {
		if longest != 2*terms.TTL {
			t.Errorf("it waits at most %s, want %s", longest, 2*terms.TTL)
		}
		keepRenewing(t, l)
	}
	_, err = second.Hold(t.Context(), owner("second"), terms)
	is(t, err, fault.Conflict)
}

// clientLeaseEndsFirst checks that an owner that does not renew its lease stops before another process can acquire it.
func clientLeaseEndsFirst(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	l, err := first.Hold(t.Context(), owner("first"), shortOptions())
	must(t, err)
	must(t, l.Check())
	bound, stop := l.Bind(t.Context())
	defer stop()
	var ended time.Time
	var watching sync.WaitGroup
	watching.Go(func() { <-bound.Done(); ended = time.Now() })
	_, err = second.Hold(t.Context(), owner("second"), shortOptions())
	taken := time.Now()
	must(t, err)
	watching.Wait()
	if !ended.Before(taken) {
		t.Errorf("calls of the first process were cancelled %s after the second acquired the lease", ended.Sub(taken))
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

// databaseClockJumps checks that a lease that has expired because the database's clock was set forward is not taken
// over, because its owner renews it.
func databaseClockJumps(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	terms := shortOptions()
	terms.Renew = 500 * time.Millisecond
	l, err := first.Hold(t.Context(), owner("first"), terms)
	must(t, err)
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE compute_lease SET expiry = 1`)
		return err
	}))
	keepRenewing(t, l)
	_, err = second.Hold(t.Context(), owner("second"), shortOptions())
	is(t, err, fault.Conflict)
	must(t, first.Create(t.Context(), server("s", 1)))
}

// TestLeaseSurvivesLostConnection stalls a connection: one renewal fails, and the next one uses another connection.
func TestLeaseSurvivesLostConnection(t *testing.T) {
	for _, db := range []*databases.Server{databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)} {
		t.Run(db.Name(), func(t *testing.T) {
			url, proxy := db.Database(t), databases.NewProxy(t, db.Addr)
			first, second := openAgain(t, proxy.URL(url)), openAgain(t, url)
			terms := shortOptions()
			terms.TTL = 6 * time.Second
			l, err := first.Hold(t.Context(), owner("first"), terms)
			must(t, err)
			keepRenewing(t, l)
			proxy.Break(databases.Cut{Stall: true})
			time.Sleep(terms.TTL)
			if proxy.Broken() != 1 {
				t.Fatalf("%d connections were cut", proxy.Broken())
			}
			must(t, l.Check())
			_, err = second.Hold(t.Context(), owner("second"), shortOptions())
			is(t, err, fault.Conflict)
		})
	}
}

func deadOwnerReplaced(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	long := shortOptions()
	long.TTL = time.Hour
	_, err := first.Hold(t.Context(), owner("first"), long)
	must(t, err)
	terms := shortOptions()
	terms.Dead = func(h lease.Owner) bool { return h.Instance == "first" && h.Host == "db1" && h.PID == 4711 }
	terms.Waiting = func(h lease.Owner, _ time.Duration) { t.Errorf("it waits for %s, which is dead", h) }
	_, err = second.Hold(t.Context(), owner("second"), terms)
	must(t, err)
}

// formerOwnerFenced checks that an owner that does not renew its lease loses it. Afterwards it can neither write nor
// read, and the error names the new owner.
func formerOwnerFenced(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	l, err := first.Hold(t.Context(), owner("first"), shortOptions())
	must(t, err)
	must(t, first.Create(t.Context(), server("s", 1)))
	terms, waited := shortOptions(), 0
	terms.Waiting = func(lease.Owner, time.Duration) { waited++ }
	_, err = second.Hold(t.Context(), owner("second"), terms)
	must(t, err)
	if waited != 1 {
		t.Errorf("Waiting was called %d times, want 1", waited)
	}
	err = first.Create(t.Context(), server("late", 1))
	is(t, err, fault.Unavailable)
	if !strings.Contains(fault.TextOf(err), "taken over compute's database (process 4711 on host db1") {
		t.Errorf("the error does not name the new owner: %v", err)
	}
	_, err = first.Read(t.Context(), "s")
	is(t, err, fault.Unavailable)
	is(t, l.Keep(t.Context()), fault.Unavailable)
	must(t, l.Release(t.Context())) // has no effect on the second
	_, err = second.Read(t.Context(), "s")
	must(t, err)
	_, err = second.Read(t.Context(), "late")
	is(t, err, fault.NotFound)
}

// takeoverWaitsForTransaction checks that a transaction that has checked the lease is committed before another process
// acquires the lease.
func takeoverWaitsForTransaction(t *testing.T, url string) {
	first, second, third := openAgain(t, url), openAgain(t, url), openAgain(t, url)
	_, err := first.Hold(t.Context(), owner("first"), shortOptions())
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
	terms, held := shortOptions(), make(chan error, 1)
	terms.Dead = func(lease.Owner) bool { return true }
	short := terms
	short.TakeoverTimeout = time.Second
	_, err = third.Hold(t.Context(), owner("third"), short)
	is(t, err, fault.Unavailable)
	if !strings.Contains(fault.TextOf(err), "still waits for a transaction of process 4711 on host db1") {
		t.Errorf("the error does not name the process with the transaction: %v", err)
	}
	go func() {
		_, err := second.Hold(t.Context(), owner("second"), terms)
		held <- err
	}()
	select {
	case err := <-held:
		t.Errorf("the lease was acquired during a write: %v", err)
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

func releasedLeaseAcquired(t *testing.T, url string) {
	first, second := openAgain(t, url), openAgain(t, url)
	l, err := first.Hold(t.Context(), owner("first"), shortOptions())
	must(t, err)
	must(t, keepRenewing(t, l)())
	must(t, l.Release(t.Context()))
	terms := shortOptions()
	terms.Waiting = func(h lease.Owner, _ time.Duration) {
		t.Errorf("the lease was released, but it waits for %s", h)
	}
	_, err = second.Hold(t.Context(), owner("second"), terms)
	must(t, err)
}

// concurrentAcquisition checks that one of several processes acquires the lease, and that the others get a conflict.
func concurrentAcquisition(t *testing.T, url string) {
	const many = 6
	var stores []*store.Store
	for range many {
		stores = append(stores, openAgain(t, url))
	}
	var all sync.WaitGroup
	errs := make([]error, many)
	for i, s := range stores {
		all.Go(func() {
			var l *lease.Lease
			if l, errs[i] = s.Hold(t.Context(), owner(fmt.Sprint(i)), shortOptions()); errs[i] == nil {
				keepRenewing(t, l)
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
		t.Errorf("%d processes have the lease, want 1: %v", held, errs)
	}
}

// writesDuringRenewal checks that renewals and writes do not fail because of each other, on any database.
func writesDuringRenewal(t *testing.T, url string) {
	s := openAgain(t, url)
	terms := shortOptions()
	terms.Renew = time.Millisecond
	l, err := s.Hold(t.Context(), owner("first"), terms)
	must(t, err)
	stop := keepRenewing(t, l)
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
