package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// behindProxy runs a test on both servers: through a proxy, and with a second store that goes past it.
func behindProxy(t *testing.T, run func(t *testing.T, s, past *Store, proxy *databases.Proxy)) {
	for name, start := range map[string]func(testing.TB, ...string) *databases.Server{"MariaDB": databases.MariaDB, "PostgreSQL": databases.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
			past := openStore(t, url)
			run(t, openStore(t, proxy.URL(url)), past, proxy)
		})
	}
}

// commit is what a COMMIT looks like on the way to the server, and no other statement.
func commit(s *Store) string {
	if s.db.Dialect == sqldb.PostgreSQL {
		return "commit\x00"
	}
	return "\x03COMMIT"
}

// TestCutAnywhere breaks the connection at each piece that a claim says, in turn, heard by the server or not: the claim is carried out all
// the same, once and whole. Then the same with letting go.
func TestCutAnywhere(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, past, 1, 0)
		host(t, past, 2, 0)
		for _, heard := range []bool{false, true} {
			for piece := 0; ; piece++ {
				cuts, before := proxy.Broken(), generation(t, past, 1)
				what := fmt.Sprintf("cut at piece %d, heard %t", piece, heard)
				proxy.Break(databases.Cut{Skip: piece, Heard: heard})
				move := claim(501, 1, 2)
				move.Allocation[id(2)] = resource.Amounts{"MEMORY_MB": 3}
				if _, err := s.PutAllocations(ctx, claim(500, 1, 1), move); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				equal(t, what, []int{generation(t, past, 1), must(past.ConsumerAllocations(ctx, consumer(501))).Generation}, []int{before + 1, 1})
				equal(t, what, must(past.ProviderUsages(ctx, id(1))).Used, resource.Amounts{"VCPU": 3, "MEMORY_MB": 0})
				last := proxy.Broken() == cuts
				proxy.Mend()
				proxy.Break(databases.Cut{Skip: piece, Heard: heard})
				for _, n := range []int{500, 501} {
					if _, err := s.DeleteAllocations(ctx, consumer(n)); err != nil {
						t.Fatalf("%s: letting go: %v", what, err)
					}
				}
				proxy.Mend()
				equal(t, what, must(past.ProviderUsages(ctx, id(1))).Used, resource.Amounts{"VCPU": 0, "MEMORY_MB": 0})
				if last {
					if piece < 8 {
						t.Errorf("a claim said %d pieces only", piece)
					}
					break
				}
			}
		}
	})
}

// TestLostAtCommit: a claim that was lost at COMMIT is found out about, also when the database takes its time to let go of it.
func TestLostAtCommit(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, past, 1, 0)
		ok(t, putOne(ctx, past, claim(500, 1, 1)))
		ok(t, putOne(ctx, past, claim(501, 1, 1)))
		n := 1
		for _, cut := range []databases.Cut{{Word: commit(s)}, {Word: commit(s), Heard: true}, {Word: commit(s), Linger: time.Second}} {
			empty := Claim{Consumer: consumer(501), Guarded: true, Project: "project", User: "user"}
			proxy.Break(cut)
			before := generation(t, past, 1)
			_, err := s.PutAllocations(ctx, claim(500, 1, n+1).seen(n), empty.seen(1))
			ok(t, err)
			n++
			equal(t, "generations", []int{generation(t, past, 1), must(past.ConsumerAllocations(ctx, consumer(500))).Generation}, []int{before + 1, n})
			equal(t, "used", must(past.ProviderUsages(ctx, id(1))).Used["VCPU"], n)
			ok(t, putOne(ctx, past, claim(501, 1, 1)))
		}

		// The connection is lost again while the outcome is found out: nobody knows, and that is what is said.
		proxy.Break(databases.Cut{Word: commit(s)}, databases.Cut{Word: commit(s)})
		refused(t, putOne(ctx, s, claim(500, 1, 7).seen(n)), fault.Unavailable, CodeUnknownOutcome, "unknown whether the change was kept")
		equal(t, "held", must(past.ConsumerAllocations(ctx, consumer(500))).Allocation[id(1)]["VCPU"], n)

		// Where it cannot be found out the same is said, and it is all there or nothing.
		for _, heard := range []bool{false, true} {
			before := generation(t, past, 1)
			proxy.Break(databases.Cut{Word: commit(s), Heard: heard})
			_, err := s.ReplaceInventories(ctx, id(1), before, inventory{"VCPU": resource.Whole(20 + before)})
			refused(t, err, fault.Unavailable, CodeUnknownOutcome, "read before repeating")
			now := must(past.Inventories(ctx, id(1)))
			if changed := now.Classes["VCPU"].Total == 20+before; changed != heard || now.Generation != before+1 && heard {
				t.Errorf("heard %t: %+v", heard, now)
			}
			_, err = past.ReplaceInventories(ctx, id(1), now.Generation, inventory{"VCPU": resource.Whole(10)})
			ok(t, err)
		}
	})
}

// TestLostWhileOthersWrite: others change the consumer before the outcome is found out.
func TestLostWhileOthersWrite(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, past, 1, 0)
		ok(t, putOne(ctx, past, claim(500, 1, 1)))
		claims := must(s.prepare([]Claim{claim(500, 1, 2).seen(1)}))
		lose := func(heard bool) attempt {
			proxy.Break(databases.Cut{Word: commit(s), Heard: heard})
			a, err := s.tryClaims(ctx, claims)
			if !sqldb.IsUnknown(err) {
				t.Fatal(err)
			}
			return a
		}
		find := func(a attempt) verdict { return must(s.findOut(context.Background(), claims, a)) }
		a := lose(false)
		equal(t, "not heard", find(a), undone)
		ok(t, putOne(ctx, past, claim(500, 1, 3).seen(1)))
		equal(t, "not heard, and somebody else made the next generation", find(a), undone)
		ok(t, putOne(ctx, past, claim(500, 1, 4).seen(2)))
		equal(t, "two generations on", find(a), unsure)
		claims = must(s.prepare([]Claim{claim(500, 1, 2).seen(3)}))
		a = lose(true)
		equal(t, "heard", find(a), kept)
		_, err := past.DeleteAllocations(ctx, consumer(500))
		ok(t, err)
		equal(t, "gone", find(a), unsure)
		ok(t, putOne(ctx, past, claim(500, 1, 2)))
		equal(t, "made anew", find(a), unsure)
	})
}

// TestDeadlineAtCommit: when the time is up at COMMIT the outcome is unknown, and nobody takes more time to find it
// out.
func TestDeadlineAtCommit(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		host(t, past, 1, 0)
		kept := claim(500, 1, 1)
		if err := putOne(t.Context(), past, kept); err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func(ctx context.Context) error{
			"claim":  func(ctx context.Context) error { return putOne(ctx, s, claim(501, 1, 1)) },
			"delete": func(ctx context.Context) error { _, err := s.DeleteAllocations(ctx, kept.Consumer); return err },
		} {
			proxy.Break(databases.Cut{Word: commit(s), Stall: true})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			began := time.Now()
			err := write(ctx)
			cancel()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s took %s", name, took)
			}
			refused(t, err, fault.Unavailable, CodeUnknownOutcome, "unknown whether the change was kept")
		}
	})
}
