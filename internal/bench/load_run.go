// Package bench measures a Placement under load, over real HTTP on loopback: Berth alone (go test -bench), and
// side by side with OpenStack's own (go test -tags peer).
//
// It uses only the Placement API, so requests and measurements are the same for every server. The data that it loads is
// in provider_worlds.go, and its queries are in candidate_queries.go. Amounts vary from request to request, so that no
// response comes from a cache keyed by the query. The client uses little CPU, because it shares the machine with the
// server.
package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Result is the measurement of a run of many requests.
type Result struct {
	Elapsed time.Duration
	Took    []time.Duration // of each request, shortest first
}

// PerSecond returns the number of responses in a second.
func (r Result) PerSecond() float64 { return float64(len(r.Took)) / r.Elapsed.Seconds() }

// Quantile returns the time within which this share (0 to 1) of the requests was answered.
func (r Result) Quantile(share float64) time.Duration {
	if len(r.Took) == 0 {
		return 0
	}
	at := int(math.Ceil(share*float64(len(r.Took)))) - 1
	return r.Took[min(max(at, 0), len(r.Took)-1)]
}

// Times limits a run to this number of requests.
func Times(n int) func() bool {
	var begun atomic.Int64
	return func() bool { return begun.Add(1) <= int64(n) }
}

// During limits a run to this time.
func During(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().Before(end) }
}

// Run runs work in several clients at the same time, each with its own connection, while more returns true. It calls
// more before each piece of work. Each piece of work gets a number that is unique in this run. The first error ends the
// run.
func Run(addr string, clients int, more func() bool, work func(c *Conn, n int) error) (Result, error) {
	var (
		wg     sync.WaitGroup
		number atomic.Int64
		ended  atomic.Bool
		mu     sync.Mutex
		all    Result
		failed []error
	)
	began := time.Now()
	for range clients {
		wg.Go(func() {
			c := Dial(addr)
			defer c.Close()
			var took []time.Duration
			var err error
			for err == nil && !ended.Load() && more() {
				start := time.Now()
				err = work(c, int(number.Add(1)-1))
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all.Took = append(all.Took, took...)
			if err != nil {
				failed = append(failed, err)
				ended.Store(true)
			}
		})
	}
	wg.Wait()
	all.Elapsed = time.Since(began)
	slices.Sort(all.Took)
	return all, errors.Join(failed...)
}

// Ask returns work that sends GET to the target for each number and expects status 200.
func Ask(target func(n int) string) func(c *Conn, n int) error {
	return func(c *Conn, n int) error {
		_, err := c.Want(200, "GET", target(n), nil)
		return err
	}
}

// Median returns the median.
func Median[N cmp.Ordered](figures []N) (middle N, err error) {
	if len(figures) == 0 {
		return middle, fmt.Errorf("bench: the median of nothing")
	}
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[(len(sorted)-1)/2], nil
}
