package stress

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

// runFaults runs the load with each seed while inject injects faults. Afterwards it stops the load, and checks the
// database and the index.
func runFaults(t *testing.T, seeds int, impatient bool, url func(t *testing.T) string,
	inject func(t *testing.T, random *rand.Rand, p *process, s *load)) {
	for seed := *first; seed < *first+uint64(seeds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			began := time.Now()
			logStep := func(what string) { t.Logf("%6.1fs %s", time.Since(began).Seconds(), what) }
			p := newProcess(t, url(t))
			logStep("started")
			api := p.placementClient()
			w := build(t, api)
			logStep("built")
			s := startLoad(t, api, seed, impatient)
			s.awaitClaims(t, clients/4)
			logStep("load runs")
			inject(t, rand.New(rand.NewPCG(seed, 0)), p, s)
			s.awaitClaims(t, clients/4)
			logStep("faults injected")
			claims := s.end(t)
			p.healthy(t)
			testenv.Until(t, "the index equals the database", func() error { return w.checkCandidates(t.Context(), api) })
			logStep("index equals the database")
			p.stop(t)
			p.start(t)
			logStep("restarted")
			check(t, api, w, claims)
			releaseAll(t, api, w, claims)
			logStep("released")
			p.stop(t)
		})
	}
}

// halfOfSeeds returns the number of seeds for tests that repeat another test with a different database.
func halfOfSeeds() int { return (*seeds + 1) / 2 }

// killServer kills the server under load and starts it again; sometimes it is also killed during its start.
func killServer(t *testing.T, random *rand.Rand, p *process, s *load) {
	for range *rounds {
		s.awaitClaims(t, 1+random.IntN(30))
		pause(random, 100*time.Millisecond)
		p.kill()
		if random.IntN(3) == 0 {
			p.launch(t)
			pause(random, 500*time.Millisecond)
			p.kill()
		}
		p.start(t)
	}
}

// pause waits for a random time of at most longest.
func pause(random *rand.Rand, longest time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(longest))))
}

func TestKillServerOnSQLite(t *testing.T) {
	t.Parallel()
	runFaults(t, *seeds, true, func(t *testing.T) string { return databases.SQLite(t) }, killServer)
}

func TestKillServerOnMariaDB(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	runFaults(t, halfOfSeeds(), true, func(t *testing.T) string { return server.Database(t) }, killServer)
}

func TestKillMariaDB(t *testing.T) { killDatabase(t, *seeds, databases.MariaDB) }

func TestKillPostgreSQL(t *testing.T) { killDatabase(t, halfOfSeeds(), databases.PostgreSQL) }

// killDatabase kills the database and restarts it. Berth keeps running, reports meanwhile that it is unhealthy, and
// recovers.
func killDatabase(t *testing.T, seeds int, open func(testing.TB, ...string) *databases.Server) {
	t.Parallel()
	server := open(t)
	runFaults(t, seeds, false, func(t *testing.T) string { return server.Database(t) },
		func(t *testing.T, random *rand.Rand, p *process, s *load) {
			for round := range (*rounds + 1) / 2 {
				s.awaitClaims(t, 1+random.IntN(30))
				pause(random, 50*time.Millisecond)
				server.Kill(t)
				if round == 0 {
					p.await(t, http.StatusServiceUnavailable)
				}
				pause(random, time.Second)
				server.Restart(t)
				p.healthy(t)
			}
		})
}

func TestCutConnectionsToMariaDB(t *testing.T) { cutConnections(t, *seeds, databases.MariaDB) }

func TestCutConnectionsToPostgreSQL(t *testing.T) {
	cutConnections(t, halfOfSeeds(), databases.PostgreSQL)
}

// cutConnections breaks connections to the database: at a COMMIT before and after the server received it, at other
// statements, and all at once.
func cutConnections(t *testing.T, seeds int, open func(testing.TB, ...string) *databases.Server) {
	t.Parallel()
	server := open(t)
	var proxy *databases.Proxy
	through := func(t *testing.T) string {
		proxy = databases.NewProxy(t, server.Addr)
		return proxy.URL(server.Database(t))
	}
	runFaults(t, seeds, true, through, func(t *testing.T, random *rand.Rand, p *process, s *load) {
		planned := 0
		for range *rounds {
			for range 1 + random.IntN(5) {
				statements := []string{"COMMIT", "COMMIT", "COMMIT", "INSERT INTO allocations", "DELETE FROM allocations",
					"UPDATE resource_providers", "SELECT"}
				proxy.Break(databases.Cut{Word: statements[random.IntN(len(statements))], LoseResponse: random.IntN(2) == 0,
					Linger: time.Duration(random.Int64N(int64(200 * time.Millisecond)))})
				planned++
			}
			testenv.Until(t, "the connections are cut", func() error {
				if now := proxy.Broken(); now < planned {
					return fmt.Errorf("%d of %d were", now, planned)
				}
				return nil
			})
			s.awaitClaims(t, 1+random.IntN(30))
			pause(random, 50*time.Millisecond)
			proxy.Drop()
			s.awaitClaims(t, 1)
		}
	})
}
