package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/databases"
)

// BenchmarkChangeSeen changes a fleet at one Berth and measures how long another Berth on the same database takes until
// its candidates show the change, on services that do nothing else: from the answer to the claim, or to its removal,
// until the answer of the other. The changes come at random times, up to a second after the one before. Goal: 20 ms.
// The part idle measures what both cost when nothing changes.
func BenchmarkChangeSeen(b *testing.B) { onEachDatabase(b, benchmarkChangeSeen) }

// benchmarkChangeSeen measures on a database of a server, or on SQLite if server is nil.
func benchmarkChangeSeen(b *testing.B, server *databases.Server) {
	dir := place(b)
	database := SQLite(dir)
	if server != nil {
		database = server.Database(b)
	}
	must(b, standardNames(b, database))
	roots, err := loadFleet(b.Context(), database, *hosts)
	must(b, err)
	writer, reader := serve(b, place(b), database), serve(b, place(b), database)
	time.Sleep(3 * time.Second) // until both know of each other
	b.Run("hosts="+fmt.Sprint(*hosts), func(b *testing.B) {
		changing, asking := Dial(writer.Addr), Dial(reader.Addr)
		defer changing.Close()
		defer asking.Close()
		var all Result
		for n := range b.N {
			time.Sleep(rand.N(time.Second))
			took, err := seen(changing, asking, roots[n%len(roots)])
			must(b, err)
			all.Took = append(all.Took, took...)
		}
		slices.Sort(all.Took)
		b.ReportMetric(0, "ns/op") // it has the pauses
		b.ReportMetric(float64(all.Quantile(0.5))/1e6, "p50-ms")
		b.ReportMetric(float64(all.Quantile(0.99))/1e6, "p99-ms")
	})
	if *inProcess {
		return
	}
	b.Run("idle", func(b *testing.B) {
		const while = 10 * time.Second
		used := func() (berths, database time.Duration) {
			for _, p := range []*Process{writer, reader} {
				worked, err := p.Worked()
				must(b, err)
				berths += worked
			}
			if server != nil {
				database, err = server.CPUTime()
				must(b, err)
			}
			return berths, database
		}
		berths, database := used()
		time.Sleep(while)
		berthsAfter, databaseAfter := used()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric((berthsAfter-berths).Seconds()/2/while.Seconds(), "cores-of-each")
		b.ReportMetric((databaseAfter-database).Seconds()/while.Seconds(), "database-cores")
	})
}

// seen claims a VCPU of a host and removes the claim, each after a pause, and returns how long each took until the
// other service showed it: whether the host has all its free VCPUs.
func seen(changing, asking *Conn, root string) (took []time.Duration, err error) {
	free, err := freeCPUs(asking, root)
	if err != nil {
		return nil, err
	}
	consumer := "/allocations/" + uuid.NewString()
	claim := fmt.Appendf(nil, `{"allocations":{%q:{"resources":{"VCPU":1}}},"project_id":"bench","user_id":"bench",`+
		`"consumer_generation":null,"consumer_type":"INSTANCE"}`, root)
	for _, change := range []struct {
		method string
		body   []byte
		want   int
	}{{"PUT", claim, free - 1}, {"DELETE", nil, free}} {
		if _, err := changing.Want(204, change.method, consumer, change.body); err != nil {
			return nil, err
		}
		began := time.Now()
		for now := -1; now != change.want; time.Sleep(time.Millisecond / 2) {
			if now, err = freeCPUs(asking, root); err != nil {
				return nil, err
			}
			if time.Since(began) > time.Minute {
				return nil, fmt.Errorf("%s %s is not seen after a minute: %d VCPUs are free", change.method, consumer, now)
			}
		}
		took = append(took, time.Since(began))
		time.Sleep(rand.N(time.Second))
	}
	return took, nil
}

// freeCPUs returns the free VCPUs of a host as the summary of its candidate has them.
func freeCPUs(c *Conn, root string) (int, error) {
	var answer struct {
		Summaries map[string]struct {
			Resources map[string]struct{ Capacity, Used int }
		} `json:"provider_summaries"`
	}
	err := get(c, "/allocation_candidates?resources=VCPU:1&limit=1&in_tree="+root, &answer)
	cpus := answer.Summaries[root].Resources["VCPU"]
	return cpus.Capacity - cpus.Used, err
}
