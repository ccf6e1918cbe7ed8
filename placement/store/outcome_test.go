package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// behindProxy runs a test on both servers: through a proxy, and with a second store that goes past it.
func behindProxy(t *testing.T, run func(t *testing.T, s, past *Store, proxy *databases.Proxy)) {
	for name, start := range map[string]func(testing.TB, ...string) *databases.Server{"MariaDB": databases.MariaDB,
		"PostgreSQL": databases.PostgreSQL} {
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

// TestCutAnywhere breaks the connection at each piece that a claim says, in turn, heard by the server or not: the
// claim is carried out all
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
				proxy.Break(databases.Cut{Skip: piece, LoseResponse: heard})
				move := claim(501, 1, 2)
				move.Allocation[id(2)] = resource.Amounts{"MEMORY_MB": 3}
				if _, err := s.PutAllocations(ctx, claim(500, 1, 1), move); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				equal(t, what,
					[]int{generation(t, past, 1), must(past.ConsumerAllocations(ctx, consumer(501))).Generation},
					[]int{before + 1, 1})
				equal(t, what, must(past.ProviderUsages(ctx, id(1))).Used, resource.Amounts{"VCPU": 3, "MEMORY_MB": 0})
				last := proxy.Broken() == cuts
				proxy.Repair()
				proxy.Break(databases.Cut{Skip: piece, LoseResponse: heard})
				for _, n := range []int{500, 501} {
					if _, err := s.DeleteAllocations(ctx, consumer(n)); err != nil {
						t.Fatalf("%s: letting go: %v", what, err)
					}
				}
				proxy.Repair()
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

// TestLostAtCommit: a claim that was lost at COMMIT is found out about, also when the database takes its time to let
// go of it.
func TestLostAtCommit(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, past, 1, 0)
		ok(t, putOne(ctx, past, claim(500, 1, 1)))
		ok(t, putOne(ctx, past, claim(501, 1, 1)))
		n := 1
		for _, cut := range []databases.Cut{{Word: commit(s)}, {Word: commit(s), LoseResponse: true},
			{Word: commit(s), Linger: time.Second}} {
			empty := Claim{Consumer: consumer(501), Guarded: true, Project: "project", User: "user"}
			proxy.Break(cut)
			before := generation(t, past, 1)
			_, err := s.PutAllocations(ctx, claim(500, 1, n+1).seen(n), empty.seen(1))
			ok(t, err)
			n++
			equal(t, "generations",
				[]int{generation(t, past, 1), must(past.ConsumerAllocations(ctx, consumer(500))).Generation},
				[]int{before + 1, n})
			equal(t, "used", must(past.ProviderUsages(ctx, id(1))).Used["VCPU"], n)
			ok(t, putOne(ctx, past, claim(501, 1, 1)))
		}

		// The connection is lost again and again while the outcome is found out: it is found out all the same.
		proxy.Break(databases.Cut{Word: commit(s), LoseResponse: true}, databases.Cut{Word: commit(s)},
			databases.Cut{Word: commit(s), LoseResponse: true})
		ok(t, putOne(ctx, s, claim(500, 1, n+1).seen(n)))
		equal(t, "held", must(past.ConsumerAllocations(ctx, consumer(500))).Generation, n+1)
	})
}

// loseCommit breaks the connection at the COMMIT of the first transaction of a write, as cut says, runs other before
// the outcome is found out, and returns what the write returned.
func loseCommit(t *testing.T, s *Store, proxy *databases.Proxy, cut databases.Cut,
	other func(), write func() error) error {
	t.Helper()
	cuts := proxy.Broken()
	cut.Word = commit(s)
	proxy.Break(cut)
	s.Watch = func(r Run) {
		if sqldb.IsUnknown(r.Err) && other != nil {
			s.Watch = nil
			other()
		}
	}
	err := write()
	s.Watch = nil
	if proxy.Broken() != cuts+1 {
		t.Fatalf("%d connections were broken", proxy.Broken()-cuts)
	}
	return err
}

// TestEveryWriteLostAtCommit: each write of which the COMMIT breaks returns what it returns otherwise, and changes the
// database once.
func TestEveryWriteLostAtCommit(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		sameResult(t, s, past, everyWrite(), func(heard bool, write func() error) error {
			return loseCommit(t, s, proxy, databases.Cut{LoseResponse: heard}, nil, write)
		})
	})
}

// sameResult compares writes that lose their COMMIT, heard by the server or not, with the same writes that lose
// nothing.
func sameResult(t *testing.T, s, past *Store, writes []anyWrite, lose func(heard bool, write func() error) error) {
	n := 0
	for _, w := range writes {
		run := func(write func(n int) error) string {
			n++
			host(t, past, n, 0)
			ok(t, putOne(t.Context(), past, claim(500+n, n, 1)))
			if w.before != nil {
				w.before(t, past, n)
			}
			err := write(n)
			return fmt.Sprint(err, "\n", picture(past, n))
		}
		want := run(func(n int) error { return w.write(t.Context(), past, n) })
		if !strings.HasPrefix(want, "<nil>") {
			t.Fatalf("%s: %s", w.name, want)
		}
		for _, heard := range []bool{false, true} {
			got := run(func(n int) error {
				return lose(heard, func() error { return w.write(t.Context(), s, n) })
			})
			if got != want {
				t.Errorf("%s, heard %t:\n got %s\nwant %s", w.name, heard, got, want)
			}
		}
	}
}

// TestServerKilledAtCommit: the server dies at the COMMIT of a claim and of a removal, before or after it has carried
// it out, and starts again. The outcome is found out when it answers.
func TestServerKilledAtCommit(t *testing.T) {
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) {
			ctx, url, proxy := t.Context(), server.Database(t), databases.NewProxy(t, server.Addr)
			s := openStore(t, proxy.URL(url))
			host(t, s, 1, 0)
			started := make(chan struct{})
			close(started)
			await := func() { <-started }
			t.Cleanup(func() { await() })
			restart := func() {
				await()
				server.Kill(t)
				started = make(chan struct{})
				go func(started chan struct{}) {
					defer close(started)
					server.Restart(t)
				}(started)
			}
			for n, heard := range []bool{false, true} {
				write := func() error { return putOne(ctx, s, claim(500+n, 1, 1)) }
				ok(t, loseCommit(t, s, proxy, databases.Cut{LoseResponse: heard}, restart, write))
				equal(t, "held", must(s.ConsumerAllocations(ctx, consumer(500+n))).Generation, 1)
				equal(t, "generation", generation(t, s, 1), 2+n)
			}
			remove := func() error {
				_, err := s.DeleteAllocations(ctx, consumer(500))
				return err
			}
			ok(t, loseCommit(t, s, proxy, databases.Cut{LoseResponse: true}, restart, remove))
			equal(t, "used", must(s.ProviderUsages(ctx, id(1))).Used["VCPU"], 1)
		})
	}
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

// TestOutcomeStaysUnknown: a database that does not answer until the request's deadline leaves the outcome unknown, and
// that is what is answered, also when nothing can be sent to it any more.
func TestOutcomeStaysUnknown(t *testing.T) {
	behindProxy(t, func(t *testing.T, s, past *Store, proxy *databases.Proxy) {
		host(t, past, 1, 0)
		there := proxy.Target()
		gone := func() { proxy.Turn("127.0.0.1:1"); proxy.Drop() }
		for _, write := range []func(context.Context) error{
			func(ctx context.Context) error { return putOne(ctx, s, claim(500, 1, 1)) },
			func(ctx context.Context) error { _, err := s.DeleteAllocations(ctx, consumer(500)); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := loseCommit(t, s, proxy, databases.Cut{LoseResponse: true}, gone, func() error { return write(ctx) })
			cancel()
			refused(t, err, fault.Unavailable, CodeUnknownOutcome, "unknown whether the change was kept")
			proxy.Turn(there)
		}
		equal(t, "used", must(past.ProviderUsages(t.Context(), id(1))).Used["VCPU"], 0)
	})
}

// anyWrite is a write on a provider n with an inventory, and on consumer 500+n that holds 1 VCPU of it.
type anyWrite struct {
	name   string
	before func(t *testing.T, s *Store, n int)
	write  func(ctx context.Context, s *Store, n int) error
}

func everyWrite() []anyWrite {
	custom := func(n int) (resource.Trait, resource.Class) {
		return resource.Trait(fmt.Sprint("CUSTOM_T", n)), resource.Class(fmt.Sprint("CUSTOM_C", n))
	}
	changed := func(_ Change, err error) error { return err }
	withNames := func(t *testing.T, s *Store, n int) {
		trait, class := custom(n)
		_, _, err := s.EnsureTrait(t.Context(), trait)
		ok(t, err)
		ok(t, s.CreateClass(t.Context(), class))
	}
	withTrait := func(t *testing.T, s *Store, n int) {
		_, _, err := s.ReplaceTraits(t.Context(), id(n), generation(t, s, n), []resource.Trait{"HW_CPU_X86_AVX"})
		ok(t, err)
	}
	withParent := func(t *testing.T, s *Store, n int) { host(t, s, 200+n, 0) }
	free := func(t *testing.T, s *Store, n int) {
		_, err := s.DeleteAllocations(t.Context(), consumer(500+n))
		ok(t, err)
	}
	return append(inventoryWrites(free), []anyWrite{
		{"claim", nil, func(ctx context.Context, s *Store, n int) error { return putOne(ctx, s, claim(700+n, n, 2)) }},
		{"claim again", nil, func(ctx context.Context, s *Store, n int) error {
			return putOne(ctx, s, claim(500+n, n, 2).seen(1))
		}},
		{"claim without a generation", nil, func(ctx context.Context, s *Store, n int) error {
			c := claim(500+n, n, 2)
			c.Guarded = false
			return putOne(ctx, s, c)
		}},
		{"empty claim", nil, func(ctx context.Context, s *Store, n int) error {
			return putOne(ctx, s, Claim{Consumer: consumer(500 + n), Guarded: true}.seen(1))
		}},
		{"move a claim", nil, func(ctx context.Context, s *Store, n int) error {
			empty := Claim{Consumer: consumer(500 + n), Guarded: true}.seen(1)
			return changed(s.PutAllocations(ctx, claim(700+n, n, 1), empty))
		}},
		{"delete allocations", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.DeleteAllocations(ctx, consumer(500+n)))
		}},
		{"reshape inventories", nil, func(ctx context.Context, s *Store, n int) error {
			stocks := map[provider.ID]NewInventories{id(n): {1 + 1, inventory{"VCPU": resource.Whole(20)}}}
			return changed(s.Reshape(ctx, stocks, nil))
		}},
		{"reshape", nil, func(ctx context.Context, s *Store, n int) error {
			stocks := map[provider.ID]NewInventories{id(n): {1 + 1, inventory{"VCPU": resource.Whole(20)}}}
			return changed(s.Reshape(ctx, stocks, []Claim{claim(500+n, n, 12).seen(1)}))
		}},
		{"create provider", nil, func(ctx context.Context, s *Store, n int) error {
			_, _, err := s.CreateProvider(ctx, id(200+n), fmt.Sprint("root ", n), "")
			return err
		}},
		{"create child", nil, func(ctx context.Context, s *Store, n int) error {
			_, _, err := s.CreateProvider(ctx, id(200+n), fmt.Sprint("child ", n), id(n))
			return err
		}},
		{"rename provider", nil, func(ctx context.Context, s *Store, n int) error {
			now, _, err := s.UpdateProvider(ctx, id(n), Update{Name: fmt.Sprint("other ", n)})
			if err == nil && now.Name != fmt.Sprint("other ", n) {
				err = fmt.Errorf("it is called %s", now.Name)
			}
			return err
		}},
		{"move provider", withParent, func(ctx context.Context, s *Store, n int) error {
			to := Update{Name: fmt.Sprint("p", n), Move: true, Parent: id(200 + n), Free: true}
			_, _, err := s.UpdateProvider(ctx, id(n), to)
			return err
		}},
		{"delete provider", free, func(ctx context.Context, s *Store, n int) error {
			return changed(s.DeleteProvider(ctx, id(n)))
		}},
		{"replace traits", nil, func(ctx context.Context, s *Store, n int) error {
			now, _, err := s.ReplaceTraits(ctx, id(n), 1+1, []resource.Trait{"HW_CPU_X86_AVX"})
			if err == nil && (now.Generation != 3 || len(now.Traits) != 1) {
				err = fmt.Errorf("%+v", now)
			}
			return err
		}},
		{"clear traits", withTrait, func(ctx context.Context, s *Store, n int) error {
			return changed(s.ClearTraits(ctx, id(n)))
		}},
		{"replace aggregates", nil, func(ctx context.Context, s *Store, n int) error {
			g := 2
			return changed(s.ReplaceAggregates(ctx, id(n), &g, []resource.AggregateID{aggregate(901)}))
		}},
		{"replace aggregates without a generation", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.ReplaceAggregates(ctx, id(n), nil, []resource.AggregateID{aggregate(901), aggregate(902)}))
		}},
		{"create trait", nil, func(ctx context.Context, s *Store, n int) error {
			trait, _ := custom(n)
			_, created, err := s.EnsureTrait(ctx, trait)
			if err == nil && !created {
				err = errors.New("it was there")
			}
			return err
		}},
		{"delete trait", withNames, func(ctx context.Context, s *Store, n int) error {
			trait, _ := custom(n)
			return s.DeleteTrait(ctx, trait)
		}},
		{"create class", nil, func(ctx context.Context, s *Store, n int) error {
			_, class := custom(n)
			return s.CreateClass(ctx, class)
		}},
		{"rename class", withNames, func(ctx context.Context, s *Store, n int) error {
			_, class := custom(n)
			return changed(s.RenameClass(ctx, class, class+"_NEW"))
		}},
		{"delete class", withNames, func(ctx context.Context, s *Store, n int) error {
			_, class := custom(n)
			return s.DeleteClass(ctx, class)
		}},
	}...)
}

func inventoryWrites(free func(*testing.T, *Store, int)) []anyWrite {
	changed := func(_ Change, err error) error { return err }
	small := resource.Inventory{Total: 30, Reserved: 1, MinUnit: 1, MaxUnit: 7, StepSize: 1, AllocationRatio: 16.123457}
	return []anyWrite{
		{"replace inventories", nil, func(ctx context.Context, s *Store, n int) error {
			change, err := s.ReplaceInventories(ctx, id(n), 2, inventory{"VCPU": small, "DISK_GB": resource.Whole(5)})
			if err == nil && change.Generation != 3 {
				err = fmt.Errorf("generation %d", change.Generation)
			}
			return err
		}},
		{"replace inventories by the same", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.ReplaceInventories(ctx, id(n), 2, inventory{"VCPU": resource.Whole(10),
				"MEMORY_MB": resource.Whole(100)}))
		}},
		{"add inventory", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.AddInventory(ctx, id(n), "DISK_GB", small))
		}},
		{"update inventory", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.UpdateInventory(ctx, id(n), 2, "VCPU", small))
		}},
		{"delete inventory", nil, func(ctx context.Context, s *Store, n int) error {
			return changed(s.DeleteInventory(ctx, id(n), "MEMORY_MB"))
		}},
		{"delete inventories", free, func(ctx context.Context, s *Store, n int) error {
			return changed(s.DeleteInventories(ctx, id(n)))
		}},
	}
}

// picture is all that the database says of provider n and its surroundings, with n itself left out.
func picture(s *Store, n int) string {
	ctx := context.Background()
	var b strings.Builder
	for _, id := range []provider.ID{id(n), id(200 + n)} {
		p, err := s.Provider(ctx, id)
		fmt.Fprintln(&b, p.Provider, err == nil)
		if err == nil {
			traits, aggregates := must(s.ProviderTraits(ctx, id)), must(s.Aggregates(ctx, id))
			fmt.Fprintln(&b, must(s.Inventories(ctx, id)).Classes, must(s.ProviderUsages(ctx, id)).Used,
				len(traits.Traits), aggregates)
		}
	}
	for _, c := range []resource.ConsumerID{consumer(500 + n), consumer(700 + n)} {
		held := must(s.ConsumerAllocations(ctx, c))
		fmt.Fprintln(&b, held.Allocation, held.Generation)
	}
	_, err := s.Trait(ctx, resource.Trait(fmt.Sprint("CUSTOM_T", n)))
	fmt.Fprintln(&b, err == nil)
	for _, name := range []string{"", "_NEW"} {
		_, err := s.Class(ctx, resource.Class(fmt.Sprint("CUSTOM_C", n, name)))
		fmt.Fprintln(&b, err == nil)
	}
	text := b.String()
	for _, id := range []int{n, 200 + n} {
		text = strings.ReplaceAll(text, fmt.Sprintf("%012d", id), fmt.Sprint("ID-", id-n))
		text = regexp.MustCompile(fmt.Sprintf(`\b(p|child |root |other )%d\b`, id)).ReplaceAllString(text,
			fmt.Sprint("${1}N", id-n))
	}
	return text
}
