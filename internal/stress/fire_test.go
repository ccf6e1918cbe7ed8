package stress

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
)

// tell tells a story with each seed. The storm is on while hurt does its worst; what is whole afterwards is checked
// here.
func tell(t *testing.T, seeds int, hasty bool, url func(t *testing.T) string, hurt func(t *testing.T, chance *rand.Rand,
	p *process, s *storm)) {
	for seed := *first; seed < *first+uint64(seeds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			began := time.Now()
			at := func(what string) { t.Logf("%6.1fs %s", time.Since(began).Seconds(), what) }
			p := newProcess(t, url(t))
			at("started")
			api := p.client()
			w := build(t, api)
			at("built")
			s := rage(t, api, seed, hasty)
			s.progress(t, clients/4)
			at("raging")
			hurt(t, rand.New(rand.NewPCG(seed, 0)), p, s)
			s.progress(t, clients/4)
			at("hurt")
			claims := s.calm(t)
			p.healthy(t)
			eventually(t, "the index is as the database", func() error { return w.suggests(t.Context(), api) })
			at("index right")
			p.stop(t)
			p.start(t)
			at("restarted")
			check(t, api, w, claims)
			sweep(t, api, w, claims)
			at("swept")
			p.stop(t)
		})
	}
}

// half is for stories that are told elsewhere too, of another pair of server and database.
func half() int { return (*seeds + 1) / 2 }

// killed kills the server in the middle and starts it again; sometimes it is killed while it starts.
func killed(t *testing.T, chance *rand.Rand, p *process, s *storm) {
	for range *rounds {
		s.progress(t, 1+chance.IntN(30))
		pause(chance, 100*time.Millisecond)
		p.kill()
		if chance.IntN(3) == 0 {
			p.launch(t)
			pause(chance, 500*time.Millisecond)
			p.kill()
		}
		p.start(t)
	}
}

func pause(chance *rand.Rand, longest time.Duration) {
	time.Sleep(time.Duration(chance.Int64N(int64(longest))))
}

func TestServerKilledOnSQLite(t *testing.T) {
	t.Parallel()
	tell(t, *seeds, true, func(t *testing.T) string { return databases.SQLite(t) }, killed)
}

func TestServerKilledOnMariaDB(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	tell(t, half(), true, func(t *testing.T) string { return server.Database(t) }, killed)
}

func TestMariaDBKilled(t *testing.T) { databaseKilled(t, *seeds, databases.MariaDB) }

func TestPostgreSQLKilled(t *testing.T) { databaseKilled(t, half(), databases.PostgreSQL) }

// The database dies and comes back. Berth stays, says meanwhile that it is not well, and recovers.
func databaseKilled(t *testing.T, seeds int, open func(testing.TB, ...string) *databases.Server) {
	t.Parallel()
	server := open(t)
	tell(t, seeds, false, func(t *testing.T) string { return server.Database(t) }, func(t *testing.T, chance *rand.Rand,
		p *process, s *storm) {
		for round := range (*rounds + 1) / 2 {
			s.progress(t, 1+chance.IntN(30))
			pause(chance, 50*time.Millisecond)
			server.Kill(t)
			if round == 0 {
				p.await(t, http.StatusServiceUnavailable)
			}
			pause(chance, time.Second)
			server.Restart(t)
			p.healthy(t)
		}
	})
}

func TestConnectionsOfMariaDBCut(t *testing.T) { cut(t, *seeds, databases.MariaDB) }

func TestConnectionsOfPostgreSQLCut(t *testing.T) { cut(t, half(), databases.PostgreSQL) }

// Connections to the database break: at COMMIT before and after the server heard it, at other statements, all at once.
func cut(t *testing.T, seeds int, open func(testing.TB, ...string) *databases.Server) {
	t.Parallel()
	server := open(t)
	var proxy *databases.Proxy
	through := func(t *testing.T) string {
		proxy = databases.NewProxy(t, server.Addr)
		return proxy.URL(server.Database(t))
	}
	tell(t, seeds, true, through, func(t *testing.T, chance *rand.Rand, p *process, s *storm) {
		planned := 0
		for range *rounds {
			for range 1 + chance.IntN(5) {
				words := []string{"COMMIT", "COMMIT", "COMMIT", "INSERT INTO allocations", "DELETE FROM allocations",
					"UPDATE resource_providers", "SELECT"}
				proxy.Break(databases.Cut{Word: words[chance.IntN(len(words))], LoseResponse: chance.IntN(2) == 0,
					Linger: time.Duration(chance.Int64N(int64(200 * time.Millisecond)))})
				planned++
			}
			eventually(t, "the connections are cut", func() error {
				if now := proxy.Broken(); now < planned {
					return fmt.Errorf("%d of %d were", now, planned)
				}
				return nil
			})
			s.progress(t, 1+chance.IntN(30))
			pause(chance, 50*time.Millisecond)
			proxy.Drop()
			s.progress(t, 1)
		}
	})
}
