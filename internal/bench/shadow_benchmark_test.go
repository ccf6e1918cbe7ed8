package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

var shadowRate = flag.Int("shadow-rate", 400, "requests per second of all clients of the shadow together")

const (
	shadowClients = 16
	// shadowRound is how long the clients send to one side before they change to the other, so that other work on the
	// machine changes both sides equally.
	shadowRound = 500 * time.Millisecond
)

// shadowKinds are the requests that each client sends in turn, as a cloud does.
var shadowKinds = []string{"candidates", "claim", "provider", "release"}

// BenchmarkShadow sends the same requests to Berth's Placement and, through `berth placement shadow`, to the same
// Placement, in alternating rounds, and reports how much later the answers arrive: with 16 clients at a rate, and
// with 16 clients that do not pause. An operation is one request to each side. The goal is 2 ms.
func BenchmarkShadow(b *testing.B) {
	if *inProcess {
		b.Skip("the shadow is a process of its own")
	}
	dir := place(b)
	original := serve(b, dir, SQLite(dir))
	must(b, Names(original.Addr))
	halls, err := Halls(original.Addr, 400)
	must(b, err)
	front := startShadow(b, SQLite(dir), original.Addr)
	for _, rate := range []int{*shadowRate, 0} {
		name := fmt.Sprintf("clients=%d/rate=%d", shadowClients, rate)
		if rate == 0 {
			name = fmt.Sprintf("clients=%d/unpaced", shadowClients)
		}
		b.Run(name, func(b *testing.B) { compareSides(b, original.Addr, front.Addr, halls, rate) })
	}
	b.Log(shadowCounts(b, front.Addr)) // how many reads were compared
}

// startShadow starts a shadow of a Placement on its database, and waits until it compares answers.
func startShadow(b *testing.B, database, original string) *Process {
	b.Helper()
	dir := place(b)
	conf, err := Configure(dir, database)
	must(b, err)
	berth, err := built()
	must(b, err)
	p, err := StartPlacement(filepath.Join(dir, "shadow.log"), berth, "placement", "shadow", "--config-file", conf,
		"--data-dir", dir, "--listen", "127.0.0.1:0", "--of", "http://"+original, "--report",
		filepath.Join(dir, "report.json"))
	must(b, err)
	b.Cleanup(func() { must(b, p.Stop()) })
	for end := time.Now().Add(time.Minute); !strings.Contains(shadowCounts(b, p.Addr), `"berth_ready":true`); {
		if time.Now().After(end) {
			b.Fatal("the shadow compares no answers: " + shadowCounts(b, p.Addr))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return p
}

// shadowCounts returns how many answers a shadow has forwarded and compared.
func shadowCounts(b *testing.B, addr string) string {
	b.Helper()
	response, err := http.Get("http://" + addr + "/healthz")
	must(b, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(b, err)
	return strings.TrimSpace(string(text))
}

// compareSides measures b.N requests of each side, and reports how long the answers took directly and how much longer
// through the shadow: of all requests, and the median of each kind.
func compareSides(b *testing.B, original, front string, halls []string, rate int) {
	took := [2]map[string][]time.Duration{{}, {}}
	for side := 0; min(len(took[0]["all"]), len(took[1]["all"])) < b.N; side = 1 - side {
		some, err := shadowLoad([]string{original, front}[side], halls, rate, shadowRound)
		must(b, err)
		for kind, times := range some {
			took[side][kind] = append(took[side][kind], times...)
			took[side]["all"] = append(took[side]["all"], times...)
		}
	}
	added := func(kind, name string, share float64) (direct time.Duration) {
		var sides [2]time.Duration
		for side := range sides {
			sides[side] = Result{Took: slices.Sorted(slices.Values(took[side][kind]))}.Quantile(share)
		}
		b.ReportMetric(float64(sides[1]-sides[0])/1e6, name+"-added-ms")
		return sides[0]
	}
	b.ReportMetric(0, "ns/op") // it has the pauses of the clients
	b.ReportMetric(float64(added("all", "p50", 0.5))/1e6, "p50-direct-ms")
	b.ReportMetric(float64(added("all", "p99", 0.99))/1e6, "p99-direct-ms")
	for _, kind := range shadowKinds {
		added(kind, kind+"-p50", 0.5)
	}
}

// shadowLoad sends requests with all clients for a time, and returns how long each took, by kind. rate is the number of
// requests per second of all clients; 0: the clients do not pause.
func shadowLoad(addr string, halls []string, rate int, d time.Duration) (map[string][]time.Duration, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		all    = map[string][]time.Duration{}
		failed []error
	)
	end := time.Now().Add(d)
	for number := range shadowClients {
		wg.Go(func() {
			c := Dial(addr)
			defer c.Close()
			var pause time.Duration
			if rate > 0 {
				pause = time.Second * shadowClients / time.Duration(rate)
				time.Sleep(pause * time.Duration(number) / shadowClients)
			}
			some := map[string][]time.Duration{}
			err := shadowCycles(c, halls[number], end, pause, some)
			mu.Lock()
			defer mu.Unlock()
			for kind, times := range some {
				all[kind] = append(all[kind], times...)
			}
			failed = append(failed, err)
		})
	}
	wg.Wait()
	return all, errors.Join(failed...)
}

// shadowCycles sends the requests of one client until a time, with whole cycles, so that nothing remains claimed. A
// request begins a pause after the one before it began.
func shadowCycles(c *Conn, hall string, end time.Time, pause time.Duration, took map[string][]time.Duration) error {
	for n := 0; time.Now().Before(end); n++ {
		consumer := "/allocations/" + uuid.NewString()
		body := fmt.Appendf(nil, `{"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE",`+
			`"allocations":{%q:{"resources":{"VCPU":1,"MEMORY_MB":512}}}}`, hall)
		for i, request := range []struct {
			want           int
			method, target string
			body           []byte
		}{{200, "GET", HallQuestion(n), nil}, {204, "PUT", consumer, body},
			{200, "GET", "/resource_providers/" + hall + "/allocations", nil}, {204, "DELETE", consumer, nil}} {
			began := time.Now()
			if _, err := c.Want(request.want, request.method, request.target, request.body); err != nil {
				return err
			}
			elapsed := time.Since(began)
			took[shadowKinds[i]] = append(took[shadowKinds[i]], elapsed)
			time.Sleep(pause - elapsed)
		}
	}
	return nil
}
