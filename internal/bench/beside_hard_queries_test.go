package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	packedCards  = 6   // of a host
	packedGroups = 24  // of a query
	packedHosts  = 300 // of the benchmark
	hardClients  = 12
)

// packedTotals returns the bandwidth of each network card of a host.
func packedTotals(host int) (totals [packedCards]int) {
	rng := rand.New(rand.NewPCG(uint64(host), 1))
	for i := range totals {
		totals[i] = 2000 + rng.IntN(8000)
	}
	return totals
}

// plantPacked creates hosts with network cards of different bandwidth.
func plantPacked(addr string, hosts int) error {
	_, err := Run(addr, 4, Times(hosts), func(c *Conn, n int) error {
		host := node{stock: map[string]inventory{"VCPU": whole(64)}}
		for _, total := range packedTotals(n) {
			host.below = append(host.below, node{stock: map[string]inventory{egress: whole(total), ingress: whole(total)},
				traits: []string{portNetwork}})
		}
		_, _, err := plant(c, host, "packed", "")
		return err
	})
	return err
}

// packedQuestion returns a query for ports that need nearly all bandwidth of one of the hosts, in both directions and
// in amounts that all differ: vector bin packing, of which a few hosts are not decided within the limit of a search.
func packedQuestion(n int) string {
	rng, sum := rand.New(rand.NewPCG(uint64(n), 2)), 0
	for _, total := range packedTotals(n % packedHosts) {
		sum += total
	}
	var q strings.Builder
	q.WriteString("/allocation_candidates?resources=VCPU:1&group_policy=none&limit=1000")
	amounts := func() (out [packedGroups]int) {
		weights, all := [packedGroups]float64{}, 0.0
		for i := range weights {
			weights[i] = 0.3 + rng.Float64()
			all += weights[i]
		}
		fill := (0.9 + 0.1*rng.Float64()) * float64(sum)
		for i, weight := range weights {
			out[i] = int(fill * weight / all)
		}
		return out
	}
	out, in := amounts(), amounts()
	for i := range packedGroups {
		fmt.Fprintf(&q, "&resources_%d=%s:%d,%s:%d&required_%[1]d=%[6]s", i, egress, out[i], ingress, in[i], portNetwork)
	}
	return q.String()
}

// BenchmarkBesideHardQueries measures cheap queries of one client, first alone and then while twelve clients ask for
// what is hard to pack. Of these it reports how many were answered (200), and how many with 503, which names what was
// not decided; any other status is an error.
func BenchmarkBesideHardQueries(b *testing.B) {
	dir := place(b)
	p := serve(b, dir, SQLite(dir))
	must(b, Names(p.Addr))
	must(b, plantPacked(p.Addr, packedHosts))
	cheap := func(n int) string { return fmt.Sprintf("/allocation_candidates?resources=VCPU:%d&limit=10", 1+n%64) }
	b.Run("alone", func(b *testing.B) { ask(b, p, 1, cheap) })
	b.Run(fmt.Sprintf("hard=%d", hardClients), func(b *testing.B) {
		var done atomic.Bool
		var decided, refused atomic.Int64
		type end struct {
			Result
			error
		}
		hard := make(chan end, 1)
		go func() {
			r, err := Run(p.Addr, hardClients, func() bool { return !done.Load() }, func(c *Conn, n int) error {
				status, answer, err := c.Do("GET", packedQuestion(n), nil)
				switch {
				case err != nil:
					return err
				case status == 200:
					decided.Add(1)
				case status == 503:
					refused.Add(1)
				default:
					return fmt.Errorf("%d for %s: %.300s", status, packedQuestion(n), answer)
				}
				return nil
			})
			hard <- end{r, err}
		}()
		ask(b, p, 1, cheap)
		done.Store(true)
		ended := <-hard
		must(b, ended.error)
		b.ReportMetric(float64(ended.Quantile(1))/1e6, "hard-max-ms")
		b.ReportMetric(float64(ended.Quantile(0.5))/1e6, "hard-p50-ms")
		b.ReportMetric(float64(decided.Load()), "hard-200")
		b.ReportMetric(float64(refused.Load()), "hard-503")
	})
}
