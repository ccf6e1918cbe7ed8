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

// withProxy runs a test on MariaDB and PostgreSQL, with a store that connects through a proxy and one that connects
// directly.
func withProxy(t *testing.T, run func(t *testing.T, s, direct *Store, proxy *databases.Proxy)) {
	for name, start := range map[string]func(testing.TB) *databases.Server{"MariaDB": databases.SharedMariaDB,
		"PostgreSQL": databases.SharedPostgreSQL} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
			direct := openStore(t, url)
			run(t, openStore(t, proxy.URL(url)), direct, proxy)
		})
	}
}

// commit returns bytes that only a COMMIT sends to the server.
func commit(s *Store) string {
	if s.db.Dialect == sqldb.PostgreSQL {
		return "commit\x00"
	}
	return "\x03COMMIT"
}

// TestCutAnywhere breaks the connection at each packet of a claim in turn, before or after the server receives it. The
// claim succeeds, and is applied once and completely. Then it does the same with the deletion of the claims.
func TestCutAnywhere(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, direct, 1, 0)
		host(t, direct, 2, 0)
		for _, received := range []bool{false, true} {
			for packet := 0; ; packet++ {
				cuts, before := proxy.Broken(), generation(t, direct, 1)
				what := fmt.Sprintf("cut at packet %d, received %t", packet, received)
				proxy.Break(databases.Cut{Skip: packet, LoseResponse: received})
				move := claim(501, 1, 2)
				move.Allocation[id(2)] = resource.Amounts{"MEMORY_MB": 3}
				if _, err := s.PutAllocations(ctx, claim(500, 1, 1), move); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				equal(t, what,
					[]int{generation(t, direct, 1), must(direct.ConsumerAllocations(ctx, consumer(501))).Generation},
					[]int{before + 1, 1})
				equal(t, what, must(direct.ProviderUsages(ctx, id(1))).Used, resource.Amounts{"VCPU": 3, "MEMORY_MB": 0})
				last := proxy.Broken() == cuts
				proxy.Repair()
				proxy.Break(databases.Cut{Skip: packet, LoseResponse: received})
				for _, n := range []int{500, 501} {
					if _, err := s.DeleteAllocations(ctx, consumer(n)); err != nil {
						t.Fatalf("%s: deletion: %v", what, err)
					}
				}
				proxy.Repair()
				equal(t, what, must(direct.ProviderUsages(ctx, id(1))).Used, resource.Amounts{"VCPU": 0, "MEMORY_MB": 0})
				if last {
					if packet < 8 {
						t.Errorf("a claim sent only %d packets", packet)
					}
					break
				}
			}
		}
	})
}

// TestLostAtCommit checks that the outcome of a claim that lost its connection at COMMIT is determined, also if the
// database keeps the transaction open for a while.
func TestLostAtCommit(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		ctx := t.Context()
		host(t, direct, 1, 0)
		ok(t, putOne(ctx, direct, claim(500, 1, 1)))
		ok(t, putOne(ctx, direct, claim(501, 1, 1)))
		n := 1
		for _, cut := range []databases.Cut{{Word: commit(s)}, {Word: commit(s), LoseResponse: true},
			{Word: commit(s), Linger: time.Second}} {
			empty := Claim{Consumer: consumer(501), Guarded: true, Project: "project", User: "user"}
			proxy.Break(cut)
			before := generation(t, direct, 1)
			_, err := s.PutAllocations(ctx, claim(500, 1, n+1).seen(n), empty.seen(1))
			ok(t, err)
			n++
			equal(t, "generations",
				[]int{generation(t, direct, 1), must(direct.ConsumerAllocations(ctx, consumer(500))).Generation},
				[]int{before + 1, n})
			equal(t, "used", must(direct.ProviderUsages(ctx, id(1))).Used["VCPU"], n)
			ok(t, putOne(ctx, direct, claim(501, 1, 1)))
		}

		// The outcome is determined although the connection is lost several times meanwhile.
		proxy.Break(databases.Cut{Word: commit(s), LoseResponse: true}, databases.Cut{Word: commit(s)},
			databases.Cut{Word: commit(s), LoseResponse: true})
		ok(t, putOne(ctx, s, claim(500, 1, n+1).seen(n)))
		equal(t, "held", must(direct.ConsumerAllocations(ctx, consumer(500))).Generation, n+1)
	})
}

// loseCommit breaks the connection at the COMMIT of the first transaction of a write, as described by cut. It
// calls other before the outcome is determined, and returns the result of the write.
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
		t.Fatalf("%d connections were broken, want 1", proxy.Broken()-cuts)
	}
	return err
}

// TestEveryWriteLostAtCommit checks that each write whose COMMIT breaks returns the same result as without that, and
// changes the database once.
func TestEveryWriteLostAtCommit(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		sameResult(t, s, direct, everyWrite(), func(committed bool, write func() error) error {
			return loseCommit(t, s, proxy, databases.Cut{LoseResponse: committed}, nil, write)
		})
	})
}

// sameResult compares writes whose COMMIT breaks, before or after the server commits, with the same writes on an
// unbroken connection.
func sameResult(t *testing.T, s, direct *Store, writes []anyWrite, lose func(committed bool,
	write func() error) error) {
	n := 0
	for _, w := range writes {
		run := func(write func(n int) error) string {
			n++
			host(t, direct, n, 0)
			ok(t, putOne(t.Context(), direct, claim(500+n, n, 1)))
			if w.before != nil {
				w.before(t, direct, n)
			}
			err := write(n)
			return fmt.Sprint(err, "\n", stateOf(direct, n))
		}
		want := run(func(n int) error { return w.write(t.Context(), direct, n) })
		if !strings.HasPrefix(want, "<nil>") {
			t.Fatalf("%s: %s", w.name, want)
		}
		for _, committed := range []bool{false, true} {
			got := run(func(n int) error {
				return lose(committed, func() error { return w.write(t.Context(), s, n) })
			})
			if got != want {
				t.Errorf("%s, committed %t:\n got %s\nwant %s", w.name, committed, got, want)
			}
		}
	}
}

// TestServerKilledAtCommit kills and restarts the server at the COMMIT of a claim and of a removal, before or after the
// commit. The outcome is determined when the server answers again.
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
			for n, committed := range []bool{false, true} {
				write := func() error { return putOne(ctx, s, claim(500+n, 1, 1)) }
				ok(t, loseCommit(t, s, proxy, databases.Cut{LoseResponse: committed}, restart, write))
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

// lateDeadline is a context whose deadline passes when pass is called. On a busy machine no time is sure to be long
// enough for what comes before.
type lateDeadline struct {
	context.Context
	pass func()
}

func newLateDeadline(parent context.Context) lateDeadline {
	ctx, cancel := context.WithCancelCause(parent)
	return lateDeadline{ctx, func() { cancel(context.DeadlineExceeded) }}
}

// Err returns context.DeadlineExceeded when the deadline has passed.
func (d lateDeadline) Err() error { return context.Cause(d.Context) }

// TestDeadlineAtCommit checks that the outcome is unknown if the request's deadline passes at COMMIT, and that no more
// time is used to determine it.
func TestDeadlineAtCommit(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		host(t, direct, 1, 0)
		kept := claim(500, 1, 1)
		if err := putOne(t.Context(), direct, kept); err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func(ctx context.Context) error{
			"claim":  func(ctx context.Context) error { return putOne(ctx, s, claim(501, 1, 1)) },
			"delete": func(ctx context.Context) error { _, err := s.DeleteAllocations(ctx, kept.Consumer); return err },
		} {
			proxy.Break(databases.Cut{Word: commit(s), Stall: true})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // COMMIT is reached before
			began := time.Now()
			err := write(ctx)
			cancel()
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s took %s", name, took)
			}
			refused(t, err, fault.Unavailable, CodeUnknownOutcome, "unknown whether the change was kept")
		}
	})
}

// TestOutcomeStaysUnknown checks that the outcome is reported as unknown if the database cannot be reached until the
// request's deadline.
func TestOutcomeStaysUnknown(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		host(t, direct, 1, 0)
		there := proxy.Target()
		gone := func() { proxy.Turn("127.0.0.1:1"); proxy.Drop() }
		for _, write := range []func(context.Context) error{
			func(ctx context.Context) error { return putOne(ctx, s, claim(500, 1, 1)) },
			func(ctx context.Context) error { _, err := s.DeleteAllocations(ctx, consumer(500)); return err },
		} {
			ctx := newLateDeadline(t.Context())
			lost := func() { gone(); time.AfterFunc(time.Second, ctx.pass) }
			err := loseCommit(t, s, proxy, databases.Cut{LoseResponse: true}, lost, func() error { return write(ctx) })
			refused(t, err, fault.Unavailable, CodeUnknownOutcome, "unknown whether the change was kept")
			proxy.Turn(there)
		}
		equal(t, "used", must(direct.ProviderUsages(t.Context(), id(1))).Used["VCPU"], 0)
	})
}

// anyWrite is a write on provider n, which has inventories, and on consumer 500+n, which has 1 VCPU of it.
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
			inventories := map[provider.ID]NewInventories{id(n): {1 + 1, inventory{"VCPU": resource.Whole(20)}}}
			return changed(s.Reshape(ctx, inventories, nil))
		}},
		{"reshape", nil, func(ctx context.Context, s *Store, n int) error {
			inventories := map[provider.ID]NewInventories{id(n): {1 + 1, inventory{"VCPU": resource.Whole(20)}}}
			return changed(s.Reshape(ctx, inventories, []Claim{claim(500+n, n, 12).seen(1)}))
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
				err = fmt.Errorf("the name is %s", now.Name)
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
				err = errors.New("the trait exists")
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

// stateOf formats the rows of provider n and of everything that a write on it may change. It replaces n, so that the
// results of different numbers can be compared.
func stateOf(s *Store, n int) string {
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
