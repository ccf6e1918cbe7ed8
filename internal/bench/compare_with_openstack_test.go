//go:build peer

package bench

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/openberth/berth/internal/databases"
)

var (
	rounds = flag.Int("rounds", 3, "number of measurements of each case; the table has the medians")
	spell  = flag.Duration("spell", 5*time.Second,
		"duration of one round of a case for Berth; OpenStack's Placement gets "+
			"three times as long")
	limit  = flag.Duration("giveup", 60*time.Second, "time limit of OpenStack's Placement for a wide query")
	source = flag.String("source", "", "source tree of the release of OpenStack's Placement to compare with, instead "+
		"of Debian's package")
)

// peer is one of the compared servers.
type peer struct {
	*Process
	name  string
	spell time.Duration
}

// TestPeer measures OpenStack's own Placement (Debian's package or the source tree of the flag, in uwsgi with two
// processes, on MariaDB) and Berth (on SQLite with synchronous=FULL, and on the same MariaDB) with the same requests in
// turn, and prints a table of ratios.
func TestPeer(t *testing.T) {
	maria := databases.DurableMariaDB(t)
	dir := place(t)
	database := maria.Database(t)
	original := peer{startOriginal(t, dir, database), "OpenStack's Placement", 3 * *spell}
	sqlite := place(t)
	peers := []peer{original, {serve(t, sqlite, SQLite(sqlite)), "Berth, SQLite FULL", *spell},
		{serve(t, place(t), maria.Database(t)), "Berth, MariaDB", *spell}}
	for _, p := range peers {
		must(t, Names(p.Addr))
	}
	var table []row
	for _, clients := range writers {
		table = append(table, measure(t, fmt.Sprintf("write, calls/s at %d clients", clients), 20, peers,
			func(p peer) float64 {
				r, err := Run(p.Addr, clients, Times(planted), func(c *Conn, _ int) error { return Nested(c) })
				must(t, err)
				return r.PerSecond() * NestedCalls
			}))
	}
	fill(t, database, peers)
	for _, q := range []struct {
		name  string
		limit int
		goal  float64
	}{{"nested unlimited, req/s at 4 clients", 0, 200}, {"nested limit=10, req/s at 4 clients", 10, 2000}} {
		table = append(table, measure(t, q.name, q.goal, peers, func(p peer) float64 {
			r, err := Run(p.Addr, 4, During(p.spell), Ask(NestedQuestion(q.limit)))
			must(t, err)
			return r.PerSecond()
		}))
	}
	table = append(table, ports(t, database, peers), claims(t, peers))
	for _, groups := range []int{8, 9} {
		var one row
		one, original.Process = wide(t, groups, dir, database, peers)
		peers[0] = original
		table = append(table, one)
	}
	show(table, peers)
}

// planted is the number of nested trees that a round of a write case loads, the same for each number of clients.
const planted = 64

// writers are the numbers of clients of the write cases: few, which mostly wait for the disk, and many, which share
// its waits.
var writers = []int{4, 16}

// fill loads the nested trees that are still missing. Berth writes them into the database of OpenStack's Placement,
// because it takes only seconds.
func fill(t *testing.T, database string, peers []peer) {
	t.Helper()
	progress("loading the rest of %d trees", *nestedTrees)
	helper := serve(t, place(t), database)
	for i, p := range peers {
		addr := p.Addr
		if i == 0 {
			addr = helper.Addr
		}
		missing := *nestedTrees - len(writers)*planted**rounds
		_, err := Run(addr, 4, Times(missing), func(c *Conn, _ int) error { return Nested(c) })
		must(t, err)
		wantMany(t, p.Addr, NestedQuestion(0)(5), *nestedTrees*NestedMany)
	}
}

// ports measures queries for servers with two direct ports with guarantees, on 1000 hosts.
func ports(t *testing.T, database string, peers []peer) row {
	helper := serve(t, place(t), database)
	for i, p := range peers {
		addr := p.Addr
		if i == 0 {
			addr = helper.Addr
		}
		must(t, PortHosts(addr, *nestedTrees))
		wantMany(t, p.Addr, PortQuestion(3), 1000)
	}
	return measure(t, "two direct ports at limit=1000, req/s at 1 client", 0, peers, func(p peer) float64 {
		r, err := Run(p.Addr, 1, During(p.spell), Ask(PortQuestion))
		must(t, err)
		return r.PerSecond()
	})
}

// claims measures 64 clients that claim and release, and checks the usages after each round.
func claims(t *testing.T, peers []peer) row {
	ledgers := map[string]*Ledger{}
	for _, p := range peers {
		halls, err := Halls(p.Addr, 100)
		must(t, err)
		ledgers[p.name] = NewLedger(halls)
	}
	return measure(t, "claim, durable claims/s at 64 clients", 0, peers, func(p peer) float64 {
		ledger := ledgers[p.name]
		r, err := Run(p.Addr, 64, During(p.spell), ledger.Claim)
		must(t, err)
		granted, refused := ledger.Counted()
		must(t, ledger.Check(p.Addr))
		progress("    %d granted, %d refused; the usages are correct", granted, refused)
		must(t, ledger.Empty(p.Addr))
		return float64(granted) / r.Elapsed.Seconds()
	})
}

// wide queries a host of 8 devices for several of them. OpenStack's Placement gets one query with a time limit; if
// the limit is exceeded it is restarted, because it would continue with the query.
func wide(t *testing.T, groups int, dir, database string, peers []peer) (row, *Process) {
	w := Wides()[0]
	one := row{name: fmt.Sprintf("wide %d/%d at limit=1000, answers/s", groups, w.Devices)}
	original := peers[0]
	for i, p := range peers {
		if groups == w.Devices {
			must(t, w.Load(p.Addr))
		}
		progress("%s: %s", one.name, p.name)
		figures := figures{}
		if i > 0 {
			for range *rounds {
				r, err := Run(p.Addr, 1, During(p.spell/5), Ask(w.Question(groups, 1000)))
				must(t, err)
				figures = append(figures, r.PerSecond())
			}
			one.figures = append(one.figures, figures)
			continue
		}
		c := Dial(p.Addr)
		c.Patience = *limit
		began := time.Now()
		_, err := c.Want(200, "GET", w.Question(groups, 1000)(1), nil)
		c.Close()
		if failed, ok := errors.AsType[net.Error](err); ok && failed.Timeout() {
			one.atMost = true
			must(t, original.Stop())
			original.Process = startOriginal(t, dir, database)
		} else {
			must(t, err)
		}
		one.figures = append(one.figures, append(figures, 1/time.Since(began).Seconds()))
	}
	return one, original.Process
}

// figures are the results of the rounds of one case for one server.
type figures []float64

// row is one case with the figures of each server; those of OpenStack's Placement are first.
type row struct {
	name    string
	goal    float64 // as a ratio; 0: none
	figures []figures
	atMost  bool // OpenStack's Placement did not respond: its figure and the ratios are bounds
}

// measure runs all rounds of a case; in each round the servers run one after the other.
func measure(t *testing.T, name string, goal float64, peers []peer, once func(p peer) float64) row {
	one := row{name: name, goal: goal, figures: make([]figures, len(peers))}
	for round := range *rounds {
		for i, p := range peers {
			progress("%s: round %d of %d, %s", name, round+1, *rounds, p.name)
			one.figures[i] = append(one.figures[i], once(p))
			progress("    %.1f", one.figures[i][round])
		}
	}
	return one
}

// ratios returns the ratios of a server to OpenStack's Placement, round by round.
func (r row) ratios(server int) (all figures) {
	for i, figure := range r.figures[server] {
		all = append(all, figure/r.figures[0][min(i, len(r.figures[0])-1)])
	}
	return all
}

var began = time.Now()

// progress prints a progress message.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// show prints the table: the medians of the figures, and those of the ratios round by round.
func show(table []row, peers []peer) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "case\t")
	for _, p := range peers {
		fmt.Fprintf(out, "%s\t", p.name)
	}
	fmt.Fprintf(out, "goal\t\n")
	for _, r := range table {
		fmt.Fprintf(out, "%s\t", r.name)
		for i := range peers {
			figure, _ := Median(r.figures[i]) // measured at least once
			ratio, _ := Median(r.ratios(i))
			switch {
			case i == 0 && r.atMost:
				fmt.Fprintf(out, "none in %s\t", *limit)
			case i == 0:
				fmt.Fprintf(out, "%.4g\t", figure)
			case r.atMost:
				fmt.Fprintf(out, "%.4g (over %.0fx)\t", figure, ratio)
			default:
				fmt.Fprintf(out, "%.4g (%.0fx)\t", figure, ratio)
			}
		}
		if r.goal > 0 {
			fmt.Fprintf(out, "%.0fx", r.goal)
		}
		fmt.Fprintf(out, "\t\n")
	}
	fmt.Fprintf(out, "\nMedians of %d rounds, ratios round by round.\n", *rounds)
	out.Flush() // an error of standard output cannot be reported
}

// startOriginal starts OpenStack's own Placement until the test ends.
func startOriginal(t *testing.T, dir, database string) *Process {
	t.Helper()
	p, err := StartOriginalFrom(*source, dir, database)
	must(t, err)
	t.Cleanup(func() { p.Stop() }) // an error means that it was stopped before
	return p
}
