package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The machine of these tests: a record is a word of steps to be done, one letter each, and what has been done. A done
// step is taken off; "x" from outside calls all off.
type record struct{ due, done, stumbles string }

func next(r record, event string, _ time.Time) (record, []string) {
	switch {
	case event == "x":
		r.due = ""
	case strings.HasPrefix(event, "stumbled "):
		r.stumbles += strings.TrimPrefix(event, "stumbled ")
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

var (
	errGone  = errors.New("there is no such record")
	errAgain = errors.New("does not answer")
)

// world keeps the records and does the steps.
type world struct {
	mu      sync.Mutex
	records map[string]record
	done    map[string]string // what has really been done for each key, repeats included
	at      map[string]bool   // keys whose step is being performed
	most    int               // how many were at once
	calls   int
	before  func(call int, what string) error // asked before each call
	after   func(call int, what string) error // and after its effect
	during  func(key string)                  // in the middle of a step
}

func newWorld(dues ...string) *world {
	w := &world{records: map[string]record{}, done: map[string]string{}, at: map[string]bool{}}
	for i, due := range dues {
		w.records[fmt.Sprintf("k%03d", i)] = record{due: due}
	}
	return w
}

// call is one access from the runner to what is outside: it can fail before or after it had its effect.
func (w *world) call(what string, effect func() error) error {
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

func (w *world) Read(_ context.Context, key string) (r record, err error) {
	err = w.call("read", func() error {
		var ok bool
		if r, ok = w.records[key]; !ok {
			return errGone
		}
		return nil
	})
	return r, err
}

func (w *world) Change(_ context.Context, key string, change func(record) record) (r record, err error) {
	err = w.call("change", func() error {
		old, ok := w.records[key]
		if !ok {
			return errGone
		}
		change(old) // it may be called more than once
		r = change(old)
		w.records[key] = r
		return nil
	})
	return r, err
}

func (w *world) Unfinished(_ context.Context, after string, limit int) (keys []string, err error) {
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

func (w *world) perform(key func(record) string) func(context.Context, record, string) (string, error) {
	return func(_ context.Context, r record, step string) (string, error) {
		k := key(r)
		err := w.call("perform", func() error {
			if w.at[k] {
				panic("two steps of " + k + " at once")
			}
			w.at[k] = true
			w.most = max(w.most, len(w.at))
			w.done[k] += step
			return nil
		})
		if w.during != nil {
			w.during(k)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.at, k)
		return step, err
	}
}

// runner works on the world; records of these tests do not know their key, so all but one key need another way.
func (w *world) runner(workers int, key func(record) string) *Runner[record, string, string] {
	r := New[record, string, string](w, Machine[record, string, string]{
		Next: next, Steps: steps, Perform: w.perform(key),
		StepFailed: func(step string, err error) string { return "stumbled " + step },
		Gone:       func(err error) bool { return errors.Is(err, errGone) },
	}, workers)
	r.jitter = func(d time.Duration) time.Duration { return d }
	return r
}

func only(record) string { return "k000" }

// run starts the runner and gives what stops it and waits for its end.
func run(t *testing.T, r *Runner[record, string, string]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func (w *world) get(key string) (record, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[key], w.done[key]
}

func TestStepsArePerformedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("abc")
		defer run(t, w.runner(3, only))()
		synctest.Wait()
		if r, done := w.get("k000"); r.done != "abc" || done != "abc" {
			t.Errorf("%+v, done %s", r, done)
		}
	})
}

// Keys go side by side, at most as many as there are workers, and each gets all its steps once.
func TestKeysRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range resumePage + 7 { // more than one page to resume
			key := fmt.Sprintf("k%03d", i)
			w.records[key] = record{due: "ab", done: key + ":"}
		}
		w.during = func(string) { time.Sleep(time.Second) }
		start := time.Now()
		stop := run(t, w.runner(5, func(r record) string { return r.done[:4] }))
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		for key := range w.records {
			if r, done := w.get(key); r.done != key+":ab" || done != "ab" {
				t.Fatalf("%s: %+v, done %s", key, r, done)
			}
		}
		if w.most != 5 {
			t.Errorf("%d steps at once with 5 workers, begun %s", w.most, start)
		}
	})
}

// A step that cannot be done is done again after a wait that doubles and has an end; the failure can be seen.
func TestWaitsDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		start := time.Now()
		var at []time.Duration
		w.before = func(_ int, what string) error {
			if what != "perform" {
				return nil
			}
			if at = append(at, time.Since(start)); len(at) <= 12 {
				return errAgain
			}
			return nil
		}
		stop := run(t, w.runner(1, only))
		time.Sleep(time.Hour)
		stop()
		r, _ := w.get("k000")
		if r.done != "a" || r.stumbles != strings.Repeat("a", 12) || len(at) != 13 {
			t.Fatalf("%+v after %d tries", r, len(at))
		}
		for i := range 12 {
			if wait, want := at[i+1]-at[i], min(firstWait<<i, longestWait); wait != want {
				t.Errorf("wait %d is %s, want %s", i, wait, want)
			}
		}
	})
}

// Each access fails once, before and after its effect: the steps are done all the same.
func TestFailAtEachStep(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 2; ; at++ { // the first call is Unfinished: TestCannotResume
			calls := 0
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("abc")
				fail := func(n int, _ string) error {
					if n == at {
						return errAgain
					}
					return nil
				}
				if late {
					w.after = fail
				} else {
					w.before = fail
				}
				stop := run(t, w.runner(2, only))
				time.Sleep(time.Hour)
				stop()
				calls = w.calls
				whole(t, w, fmt.Sprintf("late %v, call %d", late, at))
			})
			if calls < at {
				if at < 10 {
					t.Errorf("only %d calls", calls)
				}
				break
			}
		}
	}
}

// whole: all steps are stored as done once, in order; outside each was done at least once, in order.
func whole(t *testing.T, w *world, when string) {
	t.Helper()
	r, done := w.get("k000")
	if r.done != "abc" || r.due != "" {
		t.Errorf("%s: %+v", when, r)
	}
	if outside := string(slices.Compact([]byte(done))); outside != "abc" {
		t.Errorf("%s: done outside: %s", when, done)
	}
}

// The process ends at each access, before and after its effect; the next one finishes.
func TestCrashAtEachStep(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			calls := 0
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("abc")
				ctx, cancel := context.WithCancel(context.Background())
				crash := func(n int, _ string) error {
					if n < at {
						return nil
					}
					cancel()
					return context.Canceled
				}
				w.before = func(n int, what string) error {
					if late && n == at {
						return nil
					}
					return crash(n, what)
				}
				w.after = crash
				go func() { time.Sleep(time.Hour); cancel() }() // the run in which nothing crashes any more
				_ = w.runner(2, only).Run(ctx)
				cancel()
				calls = w.calls
				w.before, w.after = nil, nil
				stop := run(t, w.runner(2, only))
				time.Sleep(time.Hour)
				stop()
				whole(t, w, fmt.Sprintf("late %v, call %d", late, at))
			})
			if calls < at {
				if at < 10 {
					t.Errorf("only %d calls", calls)
				}
				break
			}
		}
	}
}

func TestCannotResume(t *testing.T) {
	w := newWorld("a")
	w.before = func(int, string) error { return errAgain }
	if err := w.runner(1, only).Run(t.Context()); !errors.Is(err, errAgain) {
		t.Errorf("got %v", err)
	}
}

// Who resumes first hears at once whether the records can be read, and Run does not read them again.
func TestResumeBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("abc")
		w.before = func(n int, _ string) error {
			if n == 1 {
				return errAgain
			}
			return nil
		}
		r := w.runner(2, only)
		if err := r.Resume(t.Context()); !errors.Is(err, errAgain) {
			t.Errorf("got %v", err)
		}
		if err := r.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, done := w.get("k000"); done != "" {
			t.Errorf("%s was done before Run", done)
		}
		w.before = func(_ int, what string) error {
			if what == "unfinished" {
				t.Error("Run has read again what is unfinished")
			}
			return nil
		}
		stop := run(t, r)
		synctest.Wait()
		stop()
		if rec, done := w.get("k000"); rec.done != "abc" || done != "abc" {
			t.Errorf("%+v, done %s", rec, done)
		}
	})
}

// An event from outside is taken in while a step is being performed, and what is due after it is seen.
func TestApplyDuringAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("abc")
		w.during = func(string) { time.Sleep(time.Minute) }
		r := w.runner(1, only)
		defer run(t, r)()
		time.Sleep(time.Second)
		got, err := r.Apply(t.Context(), "k000", "x")
		if err != nil || got.due != "" {
			t.Errorf("%+v %v", got, err)
		}
		time.Sleep(time.Hour)
		if r, done := w.get("k000"); r.done != "" || done != "a" {
			t.Errorf("%+v, done %s: more than the step that was on its way", r, done)
		}
		if _, err := r.Apply(t.Context(), "none", "x"); !errors.Is(err, errGone) {
			t.Errorf("telling nobody: %v", err)
		}
	})
}

// A record that is stored by somebody else is taken up when the runner is woken, also while it works on that key.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		r := w.runner(2, only)
		r.Wake("k000") // before Run
		defer run(t, r)()
		synctest.Wait()
		for _, more := range []string{"a", "b"} {
			w.mu.Lock()
			old := w.records["k000"]
			old.due += more
			w.records["k000"] = old
			w.mu.Unlock()
			r.Wake("k000")
			r.Wake("k000")
		}
		r.Wake("none")
		synctest.Wait()
		if got, done := w.get("k000"); got.done != "ab" || done != "ab" {
			t.Errorf("%+v, done %s", got, done)
		}
		if len(r.keys) != 0 || len(r.queue) != 0 {
			t.Errorf("%d jobs, %d in the queue when all is done", len(r.keys), len(r.queue))
		}
	})
}

// Alone does not call its function while a step of the key is waiting or performed. A step that becomes due in the
// meantime is performed afterwards.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		r := w.runner(2, only)
		stop := run(t, r)
		synctest.Wait()
		tell := func(due string) {
			w.mu.Lock()
			w.records["k000"] = record{due: due}
			w.mu.Unlock()
			r.Wake("k000")
		}
		called := 0
		if !r.Alone("k000", func() {
			called++
			tell("a")
			synctest.Wait()
			if _, done := w.get("k000"); done != "" {
				t.Errorf("step %s was performed meanwhile", done)
			}
			if r.Alone("k000", func() { called++ }) {
				t.Error("two functions ran for one key")
			}
		}) {
			t.Error("no step was due, and it was not called")
		}
		synctest.Wait()
		if _, done := w.get("k000"); done != "a" {
			t.Errorf("done afterwards: %q", done)
		}
		w.during = func(string) {
			if r.Alone("k000", func() { called++ }) {
				t.Error("it was called while a step was performed")
			}
		}
		tell("b")
		synctest.Wait()
		stop()
		if r.Alone("k000", func() { called++ }) || called != 1 {
			t.Errorf("it was called %d times, the last time after the end", called)
		}
	})
}

// Who waits after a failure is tried at once when something happens to it.
func TestWakeShortensTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		broken := true
		w.before = func(_ int, what string) error {
			if what == "perform" && broken {
				return errAgain
			}
			return nil
		}
		r := w.runner(1, only)
		defer run(t, r)()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		broken = false
		w.mu.Unlock()
		r.Wake("k000")
		synctest.Wait()
		if got, _ := w.get("k000"); got.done != "a" {
			t.Errorf("%+v", got)
		}
	})
}

// A machine that does not move on is a mistake; it costs little.
func TestNoStepIsRepeatedWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		r := w.runner(1, only)
		r.machine.Next = func(r record, _ string, _ time.Time) (record, []string) { return r, steps(r) }
		stop := run(t, r)
		time.Sleep(time.Second)
		stop()
		if _, done := w.get("k000"); len(done) < longestRun || len(done) > 20*longestRun {
			t.Errorf("%d steps in a second", len(done))
		}
	})
}

// A record that vanishes is let go; a keeper that fails for a while is asked again.
func TestRecordsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "")
		reads := 0
		w.before = func(_ int, what string) error {
			if reads++; what != "unfinished" && reads < 9 {
				return errAgain
			}
			return nil
		}
		r := w.runner(1, only)
		defer run(t, r)()
		r.Wake("vanished")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, _ := w.get("k000"); got.done != "a" || len(r.keys) != 0 {
			t.Errorf("%+v, %d jobs left", got, len(r.keys))
		}
	})
}

func TestSpread(t *testing.T) {
	for range 1000 {
		if d := spread(time.Second); d < time.Second/2 || d >= 3*time.Second/2 {
			t.Fatal(d)
		}
	}
}

// Step performs one step of a record; a step that fails stays due, and is performed by the next call.
func TestStep(t *testing.T) {
	w := newWorld("ab")
	r := w.runner(1, only)
	lost := errors.New("lost")
	w.after = func(_ int, what string) error {
		if what == "perform" && w.done["k000"] == "a" {
			return lost
		}
		return nil
	}
	if err := r.Step(t.Context(), "k000"); !errors.Is(err, lost) {
		t.Errorf("a lost answer: %v", err)
	}
	for _, want := range []string{"aa", "aab", "aab"} {
		if err := r.Step(t.Context(), "k000"); err != nil {
			t.Error(err)
		}
		if _, done := w.get("k000"); done != want {
			t.Errorf("done %q, want %q", done, want)
		}
	}
	if len(r.queue) != 0 || len(r.keys) != 0 {
		t.Errorf("%v and %v are left", r.queue, r.keys)
	}
	if err := r.Step(t.Context(), "unknown"); err != nil {
		t.Errorf("a record that does not exist: %v", err)
	}
}

// Step does nothing while a step of the key is performed.
func TestStepDuringAStep(t *testing.T) {
	w := newWorld("a")
	r := w.runner(1, only)
	w.during = func(string) {
		if err := r.Step(t.Context(), "k000"); err != nil {
			t.Error(err)
		}
	}
	if err := r.Step(t.Context(), "k000"); err != nil {
		t.Error(err)
	}
	if _, done := w.get("k000"); done != "a" {
		t.Errorf("done %q", done)
	}
}
