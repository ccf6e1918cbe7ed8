package bench

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/settings"
)

// load measures b.N operations with several clients at the same time. One piece of work is each operations; unit is
// their name.
func load(b *testing.B, p *Process, clients, each int, unit string, work func(c *Conn, n int) error) {
	b.Helper()
	pieces := (b.N + each - 1) / each
	before, err := p.Worked()
	must(b, err)
	b.ResetTimer()
	r, err := Run(p.Addr, clients, Times(pieces), work)
	b.StopTimer()
	must(b, err)
	after, err := p.Worked()
	must(b, err)
	b.ReportMetric(r.PerSecond()*float64(each), unit+"/s")
	b.ReportMetric(float64(r.Quantile(0.5))/1e6, "p50-ms")
	b.ReportMetric(float64(r.Quantile(0.99))/1e6, "p99-ms")
	if !*inProcess { // otherwise it includes the client
		b.ReportMetric(float64((after-before).Microseconds())/float64(pieces*each), "server-cpu-µs/op")
	}
}

// ask measures GET requests.
func ask(b *testing.B, p *Process, clients int, target func(n int) string) {
	b.Helper()
	load(b, p, clients, 1, "req", Ask(target))
}

// memory reports the memory of the server.
func memory(b *testing.B, p *Process) {
	now, peak, err := p.Resident()
	must(b, err)
	b.ReportMetric(float64(now)/(1<<20), "rss-MiB")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
}

// many returns the number of candidates of a query.
func many(tb testing.TB, addr, target string) int {
	tb.Helper()
	c := Dial(addr)
	defer c.Close()
	var response struct {
		List []struct{} `json:"allocation_requests"`
	}
	must(tb, get(c, target, &response))
	return len(response.List)
}

// wantMany fails if the query does not have want candidates.
func wantMany(tb testing.TB, addr, target string, want int) {
	tb.Helper()
	if got := many(tb, addr, target); got != want {
		tb.Fatalf("%d candidates for %s, want %d", got, target, want)
	}
}

// clientNumbers returns the numbers of clients of a benchmark: the usual ones, or that of the flag.
func clientNumbers(usual ...int) []int {
	if *clientsOnly > 0 {
		return []int{*clientsOnly}
	}
	return usual
}

// BenchmarkNested queries 1000 nested trees with four clients. For comparison, another process answers the query
// without a limit with the same bytes from its memory.
func BenchmarkNested(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	_, err := Run(p.Addr, 4, Times(*nestedTrees), func(c *Conn, _ int) error { return Nested(c) })
	must(b, err)
	for _, limit := range []int{0, 10} {
		want := *nestedTrees * NestedMany
		if limit > 0 {
			want = min(want, limit)
		}
		wantMany(b, p.Addr, NestedQuestion(limit)(7), want)
		name := "unlimited"
		if limit > 0 {
			name = fmt.Sprintf("limit=%d", limit)
		}
		b.Run(name, func(b *testing.B) { ask(b, p, 4, NestedQuestion(limit)) })
	}
	if *inProcess {
		return
	}
	c := Dial(p.Addr)
	defer c.Close()
	answer, err := c.Want(200, "GET", NestedQuestion(0)(7), nil)
	must(b, err)
	memory := serveBytes(b, answer)
	b.Run("same-bytes-from-memory", func(b *testing.B) { ask(b, memory, 4, NestedQuestion(0)) })
}

// BenchmarkWide queries hosts with many devices for all devices of a host, and for one more, with one client.
func BenchmarkWide(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	for _, w := range Wides() {
		must(b, w.Load(p.Addr))
	}
	for _, w := range Wides() {
		kind := "one-class"
		if w.mixed {
			kind = "mixed"
		}
		if w.Hosts > 1 {
			for _, limit := range []int{1000, 0} {
				b.Run(fmt.Sprintf("%dx%d/4-groups/limit=%d", w.Hosts, w.Devices, limit), func(b *testing.B) {
					ask(b, p, 1, w.Question(4, limit))
				})
			}
			continue
		}
		for _, groups := range []int{w.Devices, w.Devices + 1} {
			found := many(b, p.Addr, w.Question(groups, 1000)(3))
			if groups > w.Devices && found != 0 || groups <= w.Devices && (found == 0 || !w.mixed && found != 1000) {
				b.Fatalf("%d candidates for %d of %d devices", found, groups, w.Devices)
			}
			b.Run(fmt.Sprintf("%s/%dof%d", kind, groups, w.Devices), func(b *testing.B) {
				ask(b, p, 1, w.Question(groups, 1000))
				b.ReportMetric(float64(found), "candidates")
			})
		}
	}
}

// BenchmarkPorts queries 1000 hosts with two PFs of 8 VFs each for servers with two direct ports with guarantees, with
// one client. The goal is a median below 10 ms.
func BenchmarkPorts(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	must(b, PortHosts(p.Addr, *nestedTrees))
	wantMany(b, p.Addr, PortQuestion(3), 1000)
	b.Run("limit=1000", func(b *testing.B) { ask(b, p, 1, PortQuestion) })
}

// BenchmarkExplained sends each query for its candidates and for its explanation in turn, and reports the cost of
// the second as a multiple of the first, as a client measures it. A response without candidates has the reason in a
// header.
func BenchmarkExplained(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	c := Dial(p.Addr)
	defer c.Close()
	for range 100 {
		must(b, Nested(c))
	}
	questions := map[string]func(n int) string{"nested/limit=10": NestedQuestion(10),
		"nested/unlimited": NestedQuestion(0)}
	for _, w := range Wides() {
		must(b, w.Load(p.Addr))
		for _, groups := range []int{w.Devices, w.Devices + 1} {
			questions[fmt.Sprintf("wide/%dx%d/mixed=%t/%d", w.Hosts, w.Devices, w.mixed, groups)] = w.Question(groups, 1000)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(questions)) {
		b.Run(name, func(b *testing.B) {
			var took [2]time.Duration
			for n := 0; b.Loop(); n++ {
				ask := questions[name](n)
				_, query, _ := strings.Cut(ask, "?")
				for i, target := range []string{ask, "/berth/v1/explain?" + query} {
					began := time.Now()
					_, err := c.Want(200, "GET", target, nil)
					must(b, err)
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}

// BenchmarkFleet queries 10,000 hosts of 27 providers each, with concurrent claims.
func BenchmarkFleet(b *testing.B) {
	dir := place(b)
	must(b, standardNames(b, SQLite(dir)))
	began := time.Now()
	roots, err := loadFleet(b.Context(), SQLite(dir), *hosts)
	must(b, err)
	loaded := time.Since(began)
	p := serve(b, dir, SQLite(dir))
	questions := fleetQuestions(roots)
	for n, want := range fleetAnswers {
		if *hosts == 10000 {
			wantMany(b, p.Addr, questions(n), want)
		}
	}
	for _, clients := range []int{1, 4} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			done := make(chan struct{})
			writes := make(chan error, 1)
			go func() {
				_, err := Run(p.Addr, 1, func() bool {
					select {
					case <-done:
						return false
					default:
						return true
					}
				}, fleetClaims(roots, 10*time.Millisecond))
				writes <- err
			}()
			ask(b, p, clients, questions)
			close(done)
			must(b, <-writes)
			b.ReportMetric(p.Ready.Seconds(), "ready-s")
			b.ReportMetric(loaded.Seconds(), "load-s")
			if !*inProcess {
				memory(b, p)
			}
		})
	}
}

// BenchmarkWrite loads nested trees; an operation is one API call.
func BenchmarkWrite(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	for _, clients := range clientNumbers(4, 16) {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			load(b, p, clients, NestedCalls, "calls", func(c *Conn, _ int) error { return Nested(c) })
		})
	}
}

// BenchmarkClaim claims and releases with 64 clients, on each database with durable commits; an operation is one
// durable claim with its query.
func BenchmarkClaim(b *testing.B) {
	onEachDatabase(b, benchmarkClaim)
}

// onEachDatabase runs a benchmark on each database with durable commits. server is nil for SQLite.
func onEachDatabase(b *testing.B, run func(b *testing.B, server *databases.Server)) {
	b.Run("SQLite", func(b *testing.B) { run(b, nil) })
	b.Run("MariaDB", func(b *testing.B) { run(b, databases.DurableMariaDB(b)) })
	b.Run("PostgreSQL", func(b *testing.B) { run(b, databases.DurablePostgreSQL(b)) })
}

// benchmarkClaim measures claims on a database of a server, or on SQLite if server is nil.
func benchmarkClaim(b *testing.B, server *databases.Server) {
	database := SQLite(place(b))
	if server != nil {
		database = server.Database(b)
	}
	p := serve(b, place(b), database)
	must(b, Names(p.Addr))
	halls, err := Halls(p.Addr, *halls)
	must(b, err)
	ledger := NewLedger(halls)
	for _, clients := range clientNumbers(1, 4, 64) {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			var before, after time.Duration
			if server != nil {
				before, err = server.CPUTime()
				must(b, err)
			}
			load(b, p, clients, 1, "claims", ledger.Claim)
			if server != nil {
				after, err = server.CPUTime()
				must(b, err)
				b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "database-cpu-µs/op")
			}
			_, refused := ledger.Counted()
			b.ReportMetric(float64(refused), "refused")
			must(b, ledger.Check(p.Addr))
			must(b, ledger.Empty(p.Addr))
			must(b, ledger.Check(p.Addr))
		})
	}
}

// standardNames starts a server once, which writes the schema and the standard classes and traits into a database.
func standardNames(b *testing.B, database string) error {
	if *inProcess {
		log := slog.New(slog.DiscardHandler)
		conf, err := settings.Read(log)
		if err != nil {
			return err
		}
		service, err := app.OpenPlacement(b.Context(), database, conf, "noauth2", log)
		if err != nil {
			return err
		}
		return service.Close()
	}
	berth, err := built()
	if err != nil {
		return err
	}
	p, err := StartBerth(berth, place(b), database)
	if err != nil {
		return err
	}
	return p.Stop()
}
