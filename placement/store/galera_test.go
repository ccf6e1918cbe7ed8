package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// galera is a cluster of three nodes.
type galera struct{ *databases.Cluster }

// TestGalera runs Berths side by side on the nodes of one cluster, each part in a database of its own. The last part
// kills nodes.
func TestGalera(t *testing.T) {
	g := galera{databases.Galera(t, 3)}
	t.Run("firstStarts", g.firstStarts)
	t.Run("migrate", g.migrate)
	t.Run("sight", g.sight)
	t.Run("race", func(t *testing.T) { stores := g.stores(t); race(t, stores[0], stores[1]) })
	t.Run("lastUnits", g.lastUnits)
	t.Run("trees", g.trees)
	t.Run("lostAtCommit", g.lostAtCommit)
	t.Run("killed", g.killed)
}

// stores opens a fresh database at each node.
func (g galera) stores(t *testing.T) (all []*Store) {
	t.Helper()
	for _, url := range g.Database(t) {
		all = append(all, openStore(t, url))
	}
	return all
}

// together runs something on each store at once.
func together(stores []*Store, run func(i int, s *Store)) {
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() { run(i, s) })
	}
	all.Wait()
}

// firstStarts: of several that start on an empty database one makes the tables, and all go on.
func (g galera) firstStarts(t *testing.T) {
	startTogether(t, func(testing.TB) []string { return g.Database(t) })
}

// TestFirstStarts is the same on one server.
func TestFirstStarts(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		startTogether(t, func(t testing.TB) []string {
			url := fresh(t)
			return []string{url, url, url}
		})
	})
}

// TestUnfinished: tables that another process is making are waited for, but not for ever; then a sentence says what
// to do.
func TestUnfinished(t *testing.T) {
	s := openStore(t, sqliteURL(t))
	ok(t,
		s.db.Write(t.Context(),
			func(tx *sqldb.Tx) error { _, err := tx.Exec(t.Context(), "DELETE FROM alembic_version"); return err }))
	_, unfinished := s.Version(t.Context())
	synctest.Test(t, func(t *testing.T) {
		looks, began := 0, time.Now()
		refused(t, whileCreated(t.Context(), func() error { looks++; return unfinished }), fault.Unavailable, "",
			"if there is no such process, create the database again")
		if took := time.Since(began); took < creationTimeout || took > creationTimeout+time.Second || looks < 100 {
			t.Errorf("%d looks in %v", looks, took)
		}
		ok(t, whileCreated(t.Context(), func() error {
			if looks++; looks%10 != 0 {
				return unfinished
			}
			return nil
		}))
	})
}

func startTogether(t *testing.T, fresh func(testing.TB) []string) {
	for range 3 {
		var made atomic.Int32
		var all sync.WaitGroup
		for i, url := range fresh(t) {
			db := openDB(t, url)
			all.Go(func() {
				s, err := Open(t.Context(), db)
				if err != nil {
					t.Error(err)
					return
				}
				if i > 0 { // one as `berth placement db sync` does, the others as `berth placement` at its start
					created, err := s.Create(t.Context())
					if created {
						made.Add(1)
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				traits, err := s.Traits(t.Context(), TraitFilter{})
				if len(traits) != len(resource.StandardTraits()) || err != nil {
					t.Errorf("%d traits: %v", len(traits), err)
				}
				class, err := s.ClassNumbers(t.Context())
				if len(class) != len(resource.StandardClasses()) || class[0] != "VCPU" || err != nil {
					t.Errorf("classes %v: %v", class, err)
				}
			})
		}
		all.Wait()
		if made.Load() > 1 {
			t.Errorf("%d made the tables", made.Load())
		}
	}
}

// migrate: Berth's own tables are made once, from all nodes at once.
func (g galera) migrate(t *testing.T) {
	var dbs []*sqldb.DB
	for _, url := range g.Database(t) {
		dbs = append(dbs, openDB(t, url))
	}
	var steps []sqldb.Migration
	for i := range 3 {
		const table = "CREATE TABLE IF NOT EXISTS part_%d (n INTEGER PRIMARY KEY AUTO_INCREMENT, at INTEGER)"
		steps = append(steps,
			sqldb.Statements(fmt.Sprint("part ", i), fmt.Sprintf(table, i)),
			sqldb.Statements(fmt.Sprint("rows of ", i), fmt.Sprintf("INSERT INTO part_%d (at) VALUES (1)", i)),
		)
	}
	var all sync.WaitGroup
	for _, db := range dbs {
		all.Go(func() {
			if err := sqldb.Migrate(t.Context(), db, "berth_versions", steps); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := func(table string) (n int) {
		ok(t,
			dbs[1].Read(t.Context(),
				func(tx *sqldb.Tx) error { return tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n) }))
		return n
	}
	equal(t, "rows", []int{count("berth_versions"), count("part_0"), count("part_2")}, []int{6, 1, 1})
}

// sight: what one Berth has committed is there for all others at once.
func (g galera) sight(t *testing.T) {
	ctx, stores := t.Context(), g.stores(t)
	host(t, stores[0], 1, 0)
	for n := range 100 {
		writer, reader := stores[n%3], stores[(n+1)%3]
		c := claim(500, 1, n%10+1)
		if n > 0 {
			c = c.seen(n)
		}
		ok(t, putOne(ctx, writer, c))
		equal(t, "what the next one sees", must(reader.ConsumerAllocations(ctx, consumer(500))).Generation, n+1)
		marks := must(reader.ProviderVersions(ctx, 0))
		equal(t, "what its lookout sees", marks[0][0].Generation, n+2)
	}
}

// lastUnits: clients on all nodes claim what is left of one provider, and let it go. Nobody hears an error but that
// it is full; never is more
// given than there is, and in the end everybody has what he was told.
func (g galera) lastUnits(t *testing.T) {
	const rounds, clients = 8, 9
	ctx, stores := t.Context(), g.stores(t)
	host(t, stores[0], 1, 0) // 10 VCPU
	for round := range rounds {
		var granted atomic.Int32
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() {
				err := putOne(ctx, stores[n%3], claim(500+n, 1, 3))
				switch {
				case err == nil:
					granted.Add(1)
				case !fault.Is(err, fault.Conflict) || fault.CodeOf(err) != "":
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		for i, s := range stores {
			equal(t, fmt.Sprint("round ", round, ", node ", i, ": used, granted"),
				[]int{must(s.ProviderUsages(ctx, id(1))).Used["VCPU"], int(granted.Load())}, []int{9, 3})
		}
		for n := range clients {
			_, err := stores[(n+1)%3].DeleteAllocations(ctx, consumer(500+n))
			if err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
		}
	}
}

// trees: children are added on one node while their parent moves to another tree on the second, and two providers
// move under each other on
// two nodes: nothing ends up in a wrong tree or in a loop.
func (g galera) trees(t *testing.T) {
	ctx, stores := t.Context(), g.stores(t)
	for n := range 5 {
		host(t, stores[0], n+1, 0) // 1 and 2 are roots, 3 moves between them; 4 and 5 move under each other
	}
	to := func(s *Store, n, parent int) error {
		var under provider.ID
		if parent > 0 {
			under = id(parent)
		}
		_, _, err := s.UpdateProvider(ctx, id(n),
			Update{Name: fmt.Sprint("p", n), Move: true, Parent: under, Free: true})
		return err
	}
	for round := range 20 {
		child, loops := 10+round, make([]error, 2)
		together(stores[:2], func(i int, s *Store) {
			var err error
			if i == 0 {
				_, _, err = s.CreateProvider(ctx, id(child), fmt.Sprint("p", child), id(3))
			} else {
				err = to(s, 3, 1+round%2)
			}
			if err != nil {
				t.Error(err)
			}
			loops[i] = to(s, 4+i, 5-i)
		})
		p, c := must(stores[2].Provider(ctx, id(3))), must(stores[2].Provider(ctx, id(child)))
		equal(t, "the child's root", c.Root, p.Root)
		if loops[0] == nil && loops[1] == nil {
			t.Fatal("two providers lie under each other")
		}
		ok(t, to(stores[2], 4, 0))
		ok(t, to(stores[2], 5, 0))
	}
}

// lostAtCommit: a connection to one node breaks at COMMIT, and the outcome is found out on another node: either that
// one has not carried out yet what the first one committed, or the first one has rolled nothing back and still holds
// the transaction open.
func (g galera) lostAtCommit(t *testing.T) {
	urls := g.Database(t)
	proxy := databases.NewProxy(t, g.Nodes[2].Addr)
	s, past, late := openStore(t, proxy.URL(urls[2])), openStore(t, urls[0]), openStore(t, urls[1])
	names := []string{"claim", "move a claim", "delete allocations", "reshape", "replace inventories", "replace traits",
		"create provider", "move provider", "delete provider", "create trait", "delete trait", "rename class"}
	writes := slices.DeleteFunc(everyWrite(), func(w anyWrite) bool { return !slices.Contains(names, w.name) })
	sameResult(t, s, past, writes, func(heard bool, write func() error) error {
		defer func() {
			proxy.Turn(g.Nodes[2].Addr)
			proxy.Drop()
		}()
		if !heard {
			turn := func() { proxy.Turn(g.Nodes[1].Addr) }
			return loseCommit(t, s, proxy, databases.Cut{Linger: time.Second}, turn, write)
		}
		release := stopApplying(t, late)
		return loseCommit(t, s, proxy, databases.Cut{LoseResponse: true}, func() {
			proxy.Turn(g.Nodes[1].Addr)
			time.AfterFunc(100*time.Millisecond, release)
		}, write)
	})
}

// stopApplying makes a node keep back what the others commit until release.
func stopApplying(t *testing.T, s *Store) (release func()) {
	t.Helper()
	ctx, stopped, let := t.Context(), make(chan struct{}), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
				return err
			}
			close(stopped)
			<-let
			_, err := tx.Exec(ctx, "UNLOCK TABLES")
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(done.Wait)
	<-stopped
	return sync.OnceFunc(func() { close(let) })
}

// killed: clients on all nodes claim and let go while a node is killed and comes back, one of them through an address
// that leads to another
// node from then on. They hear success, that it is full, or Unavailable; and what they heard is what is there.
func (g galera) killed(t *testing.T) {
	ctx, urls := t.Context(), g.Database(t)
	proxy := databases.NewProxy(t, g.Nodes[2].Addr)
	stores := []*Store{
		openStore(t, urls[0]),
		openStore(t, urls[1]),
		openStore(t, urls[2]),
		openStore(t, proxy.URL(urls[2])),
	}
	for n := range 2 {
		host(t, stores[0], n+1, 0) // each 10 VCPU
	}
	stop := make(chan struct{})
	clients := make([]*client, 2*len(stores))
	var all sync.WaitGroup
	for i := range clients {
		c := &client{store: stores[i%len(stores)], held: map[int]bool{}, unsure: map[int]bool{}}
		c.first = 1_000_000 * (i + 1) // a client whose node is down fails fast and counts far
		clients[i] = c
		all.Go(func() { c.run(t, stop) })
	}
	sum := func(which int, of func(*client) int64) (n int64) {
		for i := which; i < len(clients); i += len(stores) {
			n += of(clients[i])
		}
		return n
	}
	more := func(which int) { // each store's clients succeed again
		t.Helper()
		before, last := sum(which, (*client).successes), time.Now().Add(time.Minute)
		for ; sum(which, (*client).successes) < before+10; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(last) {
				t.Errorf("the clients of store %d do not succeed any more", which)
				return
			}
		}
	}
	for i := range stores {
		more(i)
	}
	time.Sleep(rand.N(300 * time.Millisecond)) // any moment
	g.Nodes[2].Kill(t)
	proxy.Turn(g.Nodes[1].Addr)
	for _, i := range []int{0, 1, 3} {
		more(i)
	}
	g.Nodes[2].Restart(t)
	for i := range stores {
		more(i)
	}
	close(stop)
	all.Wait()
	if sum(2, (*client).failures) == 0 {
		t.Error("no client noticed that its node was killed")
	}
	for _, s := range stores {
		books(t, s, clients)
	}
	for _, c := range clients {
		for n := range c.held {
			_, err := c.store.DeleteAllocations(ctx, consumer(n))
			ok(t, err)
		}
	}
	g.alone(t, stores[0])
}

// alone kills all nodes but the first, which goes on when it is told to.
func (g galera) alone(t *testing.T, s *Store) {
	ctx := t.Context()
	g.Nodes[1].Kill(t)
	g.Nodes[2].Kill(t)
	for last := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.Providers(ctx, Filter{})
		if err != nil {
			refused(t, err, fault.Unavailable, "",
				"its node has left the cluster; nothing was changed, try again later")
			break
		}
		if time.Now().After(last) {
			t.Fatal("a node that is left alone answers")
		}
	}
	refused(t, putOne(ctx, s, claim(500, 1, 1)), fault.Unavailable, "",
		"its node has left the cluster; nothing was changed, try again later")
	refused(t, s.db.Ping(ctx), fault.Unavailable, "", "Error 1") // 1047, or 1205 while it still waits for the others
	g.Bootstrap(t, 0)
	ok(t, s.db.Ping(ctx))
	ok(t, putOne(ctx, s, claim(500, 1, 1)))
}

// client claims one VCPU on both providers for one consumer after the other, and lets go of them in between.
type client struct {
	store  *Store
	first  int          // its first consumer
	held   map[int]bool // what it was told
	unsure map[int]bool // was told that nobody knows

	good, bad atomic.Int64
}

func (c *client) successes() int64 { return c.good.Load() }
func (c *client) failures() int64  { return c.bad.Load() }

func (c *client) run(t *testing.T, stop <-chan struct{}) {
	for n := c.first; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		both := claim(n, 1, 1)
		both.Allocation[id(2)] = resource.Amounts{"VCPU": 1}
		c.heard(t, n, true, putOne(t.Context(), c.store, both))
		for old := range c.held { // any
			if len(c.held) > 1 || rand.N(2) == 0 {
				_, err := c.store.DeleteAllocations(t.Context(), consumer(old))
				c.heard(t, old, false, err)
			}
			break
		}
	}
}

// heard notes what an answer says about a consumer.
func (c *client) heard(t *testing.T, n int, claimed bool, err error) {
	switch {
	case err == nil:
		delete(c.held, n)
		if claimed {
			c.held[n] = true
		}
		c.good.Add(1)
	case fault.Is(err, fault.Conflict) && fault.CodeOf(err) == "" && claimed: // full
	case fault.Is(err, fault.Unavailable) && fault.TextOf(err) != "":
		c.bad.Add(1)
		if fault.CodeOf(err) == CodeUnknownOutcome {
			delete(c.held, n)
			c.unsure[n] = true
		}
	default:
		t.Errorf("consumer %d, claimed %t: %v", n, claimed, err)
	}
}

// books compares what is there with what all clients were told.
func books(t *testing.T, s *Store, clients []*client) {
	t.Helper()
	there := map[string]int{}
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		clear(there)
		return queryEach(t.Context(), tx,
			"SELECT c.uuid, COUNT(a.id) FROM consumers c LEFT JOIN allocations a ON a.consumer_id = c.uuid GROUP "+
				"BY c.uuid", nil, func(rows *sql.Rows) error {
				var consumer string
				var count int
				err := rows.Scan(&consumer, &count)
				there[consumer] = count
				return err
			})
	}))
	for _, n := range []int{1, 2} {
		used := must(s.ProviderUsages(t.Context(), id(n))).Used["VCPU"]
		if used > 10 || used != len(there) {
			t.Errorf("provider %d: %d of 10 used by %d consumers", n, used, len(there))
		}
	}
	for who, count := range there {
		if count != 2 {
			t.Errorf("consumer %s has %d of 2 allocations", who, count)
		}
	}
	told := map[string]bool{}
	for _, c := range clients {
		for n := range c.held {
			told[string(consumer(n))] = true
			if there[string(consumer(n))] == 0 {
				t.Errorf("consumer %d was acknowledged and is lost", n)
			}
		}
		for n := range c.unsure {
			told[string(consumer(n))] = true
		}
	}
	for who := range there {
		if !told[who] {
			t.Errorf("consumer %s is there, and its client was told that it is not", who)
		}
	}
}
