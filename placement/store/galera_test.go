package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// galera is a cluster of three nodes.
type galera struct{ *databases.Cluster }

// TestGalera tests servers that use different nodes of one cluster. Each subtest has its own database. The last one
// kills nodes.
func TestGalera(t *testing.T) {
	g := galera{databases.Galera(t, 3)}
	t.Run("firstStarts", g.firstStarts)
	t.Run("migrate", g.migrate)
	t.Run("visibility", g.visibility)
	t.Run("race", func(t *testing.T) { stores := g.stores(t); race(t, stores[0], stores[1]) })
	t.Run("lastUnits", g.lastUnits)
	t.Run("trees", g.trees)
	t.Run("lostAtCommit", g.lostAtCommit)
	t.Run("killedNode", g.killedNode)
}

// stores creates a database and opens it on each node.
func (g galera) stores(t *testing.T) (all []*Store) {
	t.Helper()
	for _, url := range g.Database(t) {
		all = append(all, openStore(t, url))
	}
	return all
}

// onEach calls run for each store at the same time.
func onEach(stores []*Store, run func(i int, s *Store)) {
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() { run(i, s) })
	}
	all.Wait()
}

// firstStarts tests servers that start at the same time on an empty database, on different nodes.
func (g galera) firstStarts(t *testing.T) {
	startTogether(t, func(testing.TB) []string { return g.Database(t) })
}

// migrate checks that migrations that run on all nodes at the same time are applied once.
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

// visibility checks that a committed claim is visible on all other nodes at once.
func (g galera) visibility(t *testing.T) {
	ctx, stores := t.Context(), g.stores(t)
	host(t, stores[0], 1, 0)
	for n := range 100 {
		writer, reader := stores[n%3], stores[(n+1)%3]
		c := claim(500, 1, n%10+1)
		if n > 0 {
			c = c.seen(n)
		}
		ok(t, putOne(ctx, writer, c))
		equal(t, "generation of the consumer on the next node",
			must(reader.ConsumerAllocations(ctx, consumer(500))).Generation, n+1)
		versions := must(reader.ProviderVersions(ctx, 0))
		equal(t, "generation of the provider on the next node", versions[0][0].Generation, n+2)
	}
}

// lastUnits checks that clients on all nodes that claim the last units of a provider get no other error than that it is
// full, and that the usage equals the successful claims.
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

// trees adds children on one node while their parent moves to another tree on a second node, and moves two providers
// under each other on two nodes. No provider may be in a wrong tree or in a loop.
func (g galera) trees(t *testing.T) {
	ctx, stores := t.Context(), g.stores(t)
	for n := range 5 {
		host(t, stores[0], n+1, 0) // 3 moves between 1 and 2; 4 and 5 move under each other
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
		onEach(stores[:2], func(i int, s *Store) {
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
			t.Fatal("two providers are children of each other")
		}
		ok(t, to(stores[2], 4, 0))
		ok(t, to(stores[2], 5, 0))
	}
}

// lostAtCommit breaks the connection to one node at COMMIT, so the outcome is determined on another node. Either that
// node has not applied the committed transaction yet, or the first node still has the transaction open.
func (g galera) lostAtCommit(t *testing.T) {
	urls := g.Database(t)
	proxy := databases.NewProxy(t, g.Nodes[2].Addr)
	s, past, late := openStore(t, proxy.URL(urls[2])), openStore(t, urls[0]), openStore(t, urls[1])
	names := []string{"claim", "move a claim", "delete allocations", "reshape", "replace inventories", "replace traits",
		"create provider", "move provider", "delete provider", "create trait", "delete trait", "rename class"}
	writes := slices.DeleteFunc(everyWrite(), func(w anyWrite) bool { return !slices.Contains(names, w.name) })
	sameResult(t, s, past, writes, func(committed bool, write func() error) error {
		defer func() {
			proxy.Turn(g.Nodes[2].Addr)
			proxy.Drop()
		}()
		if !committed {
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

// stopApplying stops a node from applying the transactions of the others until release is called.
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

// killedNode kills and restarts a node while clients on all nodes claim and release. One client has an address that
// leads to another node after that. Each request succeeds, or fails because the provider is full or with Unavailable.
// At the end the database agrees with the answers.
func (g galera) killedNode(t *testing.T) {
	ctx, urls := t.Context(), g.Database(t)
	proxy := databases.NewProxy(t, g.Nodes[2].Addr)
	stores := []*Store{
		openStore(t, urls[0]),
		openStore(t, urls[1]),
		openStore(t, urls[2]),
		openStore(t, proxy.URL(urls[2])),
	}
	for n := range 2 {
		host(t, stores[0], n+1, 0) // 10 VCPU each
	}
	stop := make(chan struct{})
	clients := make([]*client, 2*len(stores))
	var all sync.WaitGroup
	for i := range clients {
		c := &client{store: stores[i%len(stores)], held: map[int]bool{}, unsure: map[int]bool{}}
		c.first = 1_000_000 * (i + 1) // far apart: a client whose node is down fails fast and uses many numbers
		clients[i] = c
		all.Go(func() { c.run(t, stop) })
	}
	sum := func(which int, of func(*client) int64) (n int64) {
		for i := which; i < len(clients); i += len(stores) {
			n += of(clients[i])
		}
		return n
	}
	more := func(which int) { // waits until the clients of a store have ten more successes
		t.Helper()
		before := sum(which, (*client).successes)
		held, _ := testenv.Wait(func() bool { return sum(which, (*client).successes) >= before+10 })
		if !held {
			t.Errorf("no success of the clients of store %d", which)
		}
	}
	for i := range stores {
		more(i)
	}
	time.Sleep(rand.N(300 * time.Millisecond)) // any time
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
		t.Error("no client of the killed node had an error")
	}
	for _, s := range stores {
		checkConsumers(t, s, clients)
	}
	for _, c := range clients {
		for n := range c.held {
			_, err := c.store.DeleteAllocations(ctx, consumer(n))
			ok(t, err)
		}
	}
	g.lastNode(t, stores[0])
}

// lastNode kills all nodes except the first. That one refuses requests until it is bootstrapped.
func (g galera) lastNode(t *testing.T, s *Store) {
	ctx := t.Context()
	g.Nodes[1].Kill(t)
	g.Nodes[2].Kill(t)
	var err error
	testenv.Until(t, "the last node refuses requests without a quorum", func() bool {
		_, err = s.Providers(ctx, Filter{})
		return err != nil
	})
	refused(t, err, fault.Unavailable, "", "its node has left the cluster; nothing was changed, try again later")
	refused(t, putOne(ctx, s, claim(500, 1, 1)), fault.Unavailable, "",
		"its node has left the cluster; nothing was changed, try again later")
	refused(t, s.db.Ping(ctx), fault.Unavailable, "", "Error 1") // 1047, or 1205 while it still waits for the others
	g.Bootstrap(t, 0)
	ok(t, s.db.Ping(ctx))
	ok(t, putOne(ctx, s, claim(500, 1, 1)))
}

// client claims one VCPU on both providers for one consumer after the other, and deletes claims in between.
type client struct {
	store  *Store
	first  int          // the number of its first consumer
	held   map[int]bool // consumers whose claim succeeded
	unsure map[int]bool // consumers with an unknown outcome

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
		c.record(t, n, true, putOne(t.Context(), c.store, both))
		for old := range c.held { // the first in any order
			if len(c.held) > 1 || rand.N(2) == 0 {
				_, err := c.store.DeleteAllocations(t.Context(), consumer(old))
				c.record(t, old, false, err)
			}
			break
		}
	}
}

// record records the answer to a claim or to a deletion of a consumer's claim.
func (c *client) record(t *testing.T, n int, claimed bool, err error) {
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

// checkConsumers compares the consumers in the database with the answers that the clients got.
func checkConsumers(t *testing.T, s *Store, clients []*client) {
	t.Helper()
	present := map[string]int{}
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		clear(present)
		return sqldb.QueryEach(t.Context(), tx,
			"SELECT c.uuid, COUNT(a.id) FROM consumers c LEFT JOIN allocations a ON a.consumer_id = c.uuid GROUP "+
				"BY c.uuid", nil, func(rows *sql.Rows) error {
				var consumer string
				var count int
				err := rows.Scan(&consumer, &count)
				present[consumer] = count
				return err
			})
	}))
	for _, n := range []int{1, 2} {
		used := must(s.ProviderUsages(t.Context(), id(n))).Used["VCPU"]
		if used > 10 || used != len(present) {
			t.Errorf("provider %d: %d of 10 used by %d consumers", n, used, len(present))
		}
	}
	for who, count := range present {
		if count != 2 {
			t.Errorf("consumer %s has %d of 2 allocations", who, count)
		}
	}
	expected := map[string]bool{}
	for _, c := range clients {
		for n := range c.held {
			expected[string(consumer(n))] = true
			if present[string(consumer(n))] == 0 {
				t.Errorf("consumer %d is missing, but its claim succeeded", n)
			}
		}
		for n := range c.unsure {
			expected[string(consumer(n))] = true
		}
	}
	for who := range present {
		if !expected[who] {
			t.Errorf("consumer %s exists, but its claim failed or was deleted", who)
		}
	}
}
