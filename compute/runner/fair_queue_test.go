package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// groupOfSteps is the group of a record in the tests: the letter of its steps.
func groupOfSteps(r record) string { return (r.due + r.done)[:1] }

// greedy returns a runner with a number of records of two groups, a and b, whose steps take a second each.
func greedy(records int) (*memory, *Runner[record, string, string]) {
	dues := make([]string, records)
	for i := range dues {
		dues[i] = strings.Repeat(string(rune('a'+i%2)), 3)
	}
	w := newMemory(dues...)
	r := w.runner(8, oneKey)
	r.machine.Group = groupOfSteps
	r.machine.Perform = func(_ context.Context, _ record, step string) (string, error) {
		time.Sleep(time.Second)
		return step, nil
	}
	return w, r
}

// Two projects have thousands of steps to perform, and each step takes long. The steps of a third project begin at
// once.
func TestStepsOfAnotherGroupDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := greedy(900)
		defer run(t, r)()
		time.Sleep(10 * time.Second)
		for n := range 5 {
			key := fmt.Sprint("other", n)
			w.mu.Lock()
			w.records[key] = record{due: "ccc"}
			w.mu.Unlock()
			r.WakeFrom(t.Context(), key, record{due: "ccc"})
			began := time.Now()
			for w.recordOf(key).due != "" {
				time.Sleep(time.Second / 10)
			}
			if took := time.Since(began); took > 3500*time.Millisecond {
				t.Errorf("three steps of a second each have taken %s beside %d records of others", took, 900)
			}
		}
	})
}

// The keys of a start, whose groups are not known yet, do not delay a later request either.
func TestResumedKeysDoNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := greedy(900)
		defer run(t, r)()
		w.mu.Lock()
		w.records["other"] = record{due: "c"}
		w.mu.Unlock()
		r.WakeFrom(t.Context(), "other", record{due: "c"})
		time.Sleep(5 * time.Second)
		if got := w.recordOf("other"); got.due != "" {
			t.Error("the step has not been performed in five seconds")
		}
	})
}

// The workers take any key, and each key once.
func TestFairQueueKeepsEachKeyOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var q fairQueue
		waiting, working := map[string]string{}, map[string]string{}
		for n := range 300 {
			switch rng.IntN(4) {
			case 0, 1:
				key, group := fmt.Sprint(n), fmt.Sprint("g", rng.IntN(4))
				q.push(group, key)
				waiting[key] = group
			case 2:
				key, ok := q.pop(4)
				if ok {
					working[key] = waiting[key]
					delete(waiting, key)
				} else if len(working) < 4 && len(waiting) > 0 {
					t.Fatalf("no key of %v is popped beside %v", waiting, working)
				}
			default:
				for key, group := range working {
					q.done(group)
					delete(working, key)
					break
				}
				for key, group := range waiting {
					if rng.IntN(8) == 0 {
						q.remove(group, key)
						delete(waiting, key)
					}
					break
				}
			}
			count := 0
			for _, list := range q.waiting {
				count += len(list)
			}
			if count != len(waiting) || q.busy != len(working) || len(q.turns) != len(q.waiting) {
				t.Fatalf("the queue is %+v, waiting %v, working %v", &q, waiting, working)
			}
		}
	}
}

// recordOf returns a record.
func (w *memory) recordOf(key string) record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[key]
}

// A record that a request has stored while the keys of the start are read is found by the start first, without its
// group. The request moves it to its group.
func TestRequestForResumedKeyDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := greedy(900)
		w.records["other"] = record{due: "c"}
		if err := r.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.WakeFrom(t.Context(), "other", record{due: "c"})
		defer run(t, r)()
		time.Sleep(5 * time.Second)
		if got := w.recordOf("other"); got.due != "" {
			t.Error("the step has not been performed in five seconds")
		}
	})
}
