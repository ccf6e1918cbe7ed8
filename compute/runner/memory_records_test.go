package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// record has the due steps, one letter each, the steps performed, and those that failed. An event that is the first due
// step moves it to done; the event "x" removes all due steps.
type record struct{ due, done, failed string }

func next(r record, event string, _ time.Time) (record, []string) {
	switch {
	case event == "x":
		r.due = ""
	case strings.HasPrefix(event, "failed "):
		r.failed += strings.TrimPrefix(event, "failed ")
	case strings.HasPrefix(r.due, event):
		r.due, r.done = r.due[len(event):], r.done+event
	}
	return r, steps(r)
}

func steps(r record) []string {
	if r.due == "" {
		return nil
	}
	return strings.Split(r.due, "")
}

// memory keeps the records and performs the steps.
type memory struct {
	mu        sync.Mutex
	records   map[string]record
	done      map[string]string // the steps performed for each key, with repetitions
	active    map[string]bool   // keys whose step is being performed
	maxActive int               // the largest number of active keys
	calls     int
	before    func(call int, what string) error // called before each access
	after     func(call int, what string) error // called after its effect
	during    func(key string)                  // called during a step
}

func newMemory(dues ...string) *memory {
	w := &memory{records: map[string]record{}, done: map[string]string{}, active: map[string]bool{}}
	for i, due := range dues {
		w.records[fmt.Sprintf("k%03d", i)] = record{due: due}
	}
	return w
}

// call is one access of the runner to the records or to a step. It can fail before or after its effect.
func (w *memory) call(what string, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	n := w.calls
	if w.before != nil {
		if err := w.before(n, what); err != nil {
			return err
		}
	}
	if err := effect(); err != nil {
		return err
	}
	if w.after != nil {
		return w.after(n, what)
	}
	return nil
}

func (w *memory) Read(_ context.Context, key string) (r record, err error) {
	err = w.call("read", func() error {
		var ok bool
		if r, ok = w.records[key]; !ok {
			return errGone
		}
		return nil
	})
	return r, err
}

func (w *memory) Change(_ context.Context, key string, change func(record) record) (r record, err error) {
	err = w.call("change", func() error {
		old, ok := w.records[key]
		if !ok {
			return errGone
		}
		change(old) // change may be called more than once
		r = change(old)
		w.records[key] = r
		return nil
	})
	return r, err
}

func (w *memory) Unfinished(_ context.Context, after string, limit int) (keys []string, err error) {
	err = w.call("unfinished", func() error {
		for _, key := range slices.Sorted(maps.Keys(w.records)) {
			if key > after && w.records[key].due != "" && len(keys) < limit {
				keys = append(keys, key)
			}
		}
		return nil
	})
	return keys, err
}

func (w *memory) perform(key func(record) string) func(context.Context, record, string) (string, error) {
	return func(_ context.Context, r record, step string) (string, error) {
		k := key(r)
		err := w.call("perform", func() error {
			if w.active[k] {
				panic("two steps of " + k + " at once")
			}
			w.active[k] = true
			w.maxActive = max(w.maxActive, len(w.active))
			w.done[k] += step
			return nil
		})
		if w.during != nil {
			w.during(k)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.active, k)
		return step, err
	}
}

// runner returns a runner for these records. A record does not contain its key, so key derives it.
func (w *memory) runner(workers int, key func(record) string) *Runner[record, string, string] {
	r := New[record, string, string](w, Machine[record, string, string]{
		Next: next, Steps: steps, Perform: w.perform(key),
		StepFailed: func(step string, err error) string { return "failed " + step },
		Gone:       func(err error) bool { return errors.Is(err, errGone) },
	}, workers)
	r.Retry.Jitter = nil
	return r
}

func oneKey(record) string { return "k000" }

// get returns a record and the steps performed for its key.
func (w *memory) get(key string) (record, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[key], w.done[key]
}
