package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errGone     = errors.New("there is no such record")
	errNoAnswer = errors.New("does not answer")
)

// run starts the runner. stop stops it and waits for its end.
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

func TestStepsArePerformedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("abc")
		defer run(t, w.runner(3, oneKey))()
		synctest.Wait()
		if r, done := w.get("k000"); r.done != "abc" || done != "abc" {
			t.Errorf("%+v, done %s", r, done)
		}
	})
}

// TestPureStepsAreStoredWithTheNext checks that the result of a pure step is stored with that of the step after it,
// also if that fails, and alone if it is the last.
func TestPureStepsAreStoredWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("pqapbp")
		failed := false
		var stored []string
		w.before = func(_ int, what string) error {
			if what == "perform" && !failed && w.done["k000"] == "pqapb" {
				failed = true
				return errNoAnswer // the last step
			}
			return nil
		}
		w.after = func(_ int, what string) error {
			if what == "change" {
				stored = append(stored, w.records["k000"].done)
			}
			return nil
		}
		r := w.runner(3, oneKey)
		r.machine.Pure = func(step string) bool { return step == "p" || step == "q" }
		defer run(t, r)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if r, done := w.get("k000"); r.done != "pqapbp" || done != "pqapbp" || r.failed != "p" {
			t.Errorf("%+v, done %s", r, done)
		}
		if want := []string{"pqa", "pqapb", "pqapb", "pqapbp"}; !slices.Equal(stored, want) {
			t.Errorf("stored %q, want %q", stored, want)
		}
	})
}

// TestKeysRunInParallel checks that there are at most as many active keys as workers, and that each step is performed
// once.
func TestKeysRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory()
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
		if w.maxActive != 5 {
			t.Errorf("%d steps at once with 5 workers, begun %s", w.maxActive, start)
		}
	})
}

// TestRetryWaitsDoubleUpToLimit checks the waits between the attempts of a failing step, and that failures are
// recorded.
func TestRetryWaitsDoubleUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("a")
		start := time.Now()
		var at []time.Duration
		w.before = func(_ int, what string) error {
			if what != "perform" {
				return nil
			}
			if at = append(at, time.Since(start)); len(at) <= 12 {
				return errNoAnswer
			}
			return nil
		}
		stop := run(t, w.runner(1, oneKey))
		time.Sleep(time.Hour)
		stop()
		r, _ := w.get("k000")
		if r.done != "a" || r.failed != strings.Repeat("a", 12) || len(at) != 13 {
			t.Fatalf("%+v after %d tries", r, len(at))
		}
		for i := range 12 {
			if wait, want := at[i+1]-at[i], min(firstWait<<i, longestWait); wait != want {
				t.Errorf("wait %d is %s, want %s", i, wait, want)
			}
		}
	})
}

// TestFailureOfEachAccessIsRetried makes each access fail once, before or after its effect: all steps are performed.
func TestFailureOfEachAccessIsRetried(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 2; ; at++ { // the first call is Unfinished: TestRunReturnsErrorOfResume
			calls := 0
			synctest.Test(t, func(t *testing.T) {
				w := newMemory("abc")
				fail := func(n int, _ string) error {
					if n == at {
						return errNoAnswer
					}
					return nil
				}
				if late {
					w.after = fail
				} else {
					w.before = fail
				}
				stop := run(t, w.runner(2, oneKey))
				time.Sleep(time.Hour)
				stop()
				calls = w.calls
				checkComplete(t, w, fmt.Sprintf("late %v, call %d", late, at))
			})
			if calls < at {
				if at < 8 {
					t.Errorf("only %d calls", calls)
				}
				break
			}
		}
	}
}

// checkComplete checks that all steps are recorded as done once, and were performed at least once, in order.
func checkComplete(t *testing.T, w *memory, when string) {
	t.Helper()
	r, done := w.get("k000")
	if r.done != "abc" || r.due != "" {
		t.Errorf("%s: %+v", when, r)
	}
	if outside := string(slices.Compact([]byte(done))); outside != "abc" {
		t.Errorf("%s: steps performed: %s", when, done)
	}
}

// TestCrashAtEachAccessIsResumed ends the process at each access, before or after its effect: the next process performs
// the other steps.
func TestCrashAtEachAccessIsResumed(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			calls := 0
			synctest.Test(t, func(t *testing.T) {
				w := newMemory("abc")
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
				go func() { time.Sleep(time.Hour); cancel() }() // for the run without a crash
				_ = w.runner(2, oneKey).Run(ctx)
				cancel()
				calls = w.calls
				w.before, w.after = nil, nil
				stop := run(t, w.runner(2, oneKey))
				time.Sleep(time.Hour)
				stop()
				checkComplete(t, w, fmt.Sprintf("late %v, call %d", late, at))
			})
			if calls < at {
				if at < 8 {
					t.Errorf("only %d calls", calls)
				}
				break
			}
		}
	}
}

func TestRunReturnsErrorOfResume(t *testing.T) {
	w := newMemory("a")
	w.before = func(int, string) error { return errNoAnswer }
	if err := w.runner(1, oneKey).Run(t.Context()); !errors.Is(err, errNoAnswer) {
		t.Errorf("got %v", err)
	}
}

// TestResumeBeforeRunReturnsErrors checks that Resume returns the error of reading the records, and that Run does not
// read them again after a successful Resume.
func TestResumeBeforeRunReturnsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("abc")
		w.before = func(n int, _ string) error {
			if n == 1 {
				return errNoAnswer
			}
			return nil
		}
		r := w.runner(2, oneKey)
		if err := r.Resume(t.Context()); !errors.Is(err, errNoAnswer) {
			t.Errorf("got %v", err)
		}
		if err := r.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, done := w.get("k000"); done != "" {
			t.Errorf("%s was performed before Run", done)
		}
		w.before = func(_ int, what string) error {
			if what == "unfinished" {
				t.Error("Run has read the unfinished keys again")
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

// TestApplyDuringStep applies an external event during a step: the next steps follow from it.
func TestApplyDuringStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("abc")
		w.during = func(string) { time.Sleep(time.Minute) }
		r := w.runner(1, oneKey)
		defer run(t, r)()
		time.Sleep(time.Second)
		got, err := r.Apply(t.Context(), "k000", "x")
		if err != nil || got.due != "" {
			t.Errorf("%+v %v", got, err)
		}
		time.Sleep(time.Hour)
		if r, done := w.get("k000"); r.done != "" || done != "a" {
			t.Errorf("%+v, done %s, want only the step that was active", r, done)
		}
		if _, err := r.Apply(t.Context(), "none", "x"); !errors.Is(err, errGone) {
			t.Errorf("an unknown key: %v", err)
		}
	})
}

// TestWakePerformsStoredSteps checks that Wake performs the steps of a record that another component has stored, also
// while the runner performs a step of that key.
func TestWakePerformsStoredSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("")
		r := w.runner(2, oneKey)
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
		if len(r.keys) != 0 || len(r.queue.waiting) != 0 || r.queue.busy != 0 {
			t.Errorf("%d keys after all steps, and the queue is %+v", len(r.keys), &r.queue)
		}
	})
}

// TestAloneExcludesSteps checks that Alone does not call its function while a step of the key is waiting or performed,
// and that a step that becomes due in the meantime is performed afterwards.
func TestAloneExcludesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("")
		r := w.runner(2, oneKey)
		stop := run(t, r)
		synctest.Wait()
		store := func(due string) {
			w.mu.Lock()
			w.records["k000"] = record{due: due}
			w.mu.Unlock()
			r.Wake("k000")
		}
		called := 0
		if !r.Alone("k000", func() {
			called++
			store("a")
			synctest.Wait()
			if _, done := w.get("k000"); done != "" {
				t.Errorf("step %s was performed meanwhile", done)
			}
			if r.Alone("k000", func() { called++ }) {
				t.Error("two functions ran for one key")
			}
		}) {
			t.Error("the function was not called, although no step was due")
		}
		synctest.Wait()
		if _, done := w.get("k000"); done != "a" {
			t.Errorf("done afterwards: %q", done)
		}
		w.during = func(string) {
			if r.Alone("k000", func() { called++ }) {
				t.Error("the function was called during a step")
			}
		}
		store("b")
		synctest.Wait()
		stop()
		if r.Alone("k000", func() { called++ }) || called != 1 {
			t.Errorf("the function was called %d times, want once, and not after the end", called)
		}
	})
}

// TestWakeEndsWaitAfterFailure checks that Wake retries a key that waits after a failure at once.
func TestWakeEndsWaitAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("a")
		broken := true
		w.before = func(_ int, what string) error {
			if what == "perform" && broken {
				return errNoAnswer
			}
			return nil
		}
		r := w.runner(1, oneKey)
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

// TestNoStepIsRepeatedWithoutPause checks that a state machine without progress, which is a bug, uses little time.
func TestNoStepIsRepeatedWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("a")
		r := w.runner(1, oneKey)
		r.machine.Next = func(r record, _ string, _ time.Time) (record, []string) { return r, steps(r) }
		stop := run(t, r)
		time.Sleep(time.Second)
		stop()
		if _, done := w.get("k000"); len(done) < longestRun || len(done) > 20*longestRun {
			t.Errorf("%d steps in a second", len(done))
		}
	})
}

// TestFailingAndMissingRecords checks that the runner drops a key without a record, and retries when the records cannot
// be read for a while.
func TestFailingAndMissingRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("a", "")
		reads := 0
		w.before = func(_ int, what string) error {
			if reads++; what != "unfinished" && reads < 9 {
				return errNoAnswer
			}
			return nil
		}
		r := w.runner(1, oneKey)
		defer run(t, r)()
		r.Wake("missing")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, _ := w.get("k000"); got.done != "a" || len(r.keys) != 0 {
			t.Errorf("%+v, %d keys left", got, len(r.keys))
		}
	})
}

// Keys that failed together are not retried together.
func TestWaitsAreRandom(t *testing.T) {
	retry := New[record, string, string](nil, Machine[record, string, string]{}, 1).Retry
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := retry.Wait(1)
		if d < firstWait/2 || d >= 3*firstWait/2 {
			t.Fatal(d)
		}
		seen[d] = true
	}
	if len(seen) < 2 {
		t.Error("1000 waits are equal")
	}
}

// Step performs one step of a record; a step that fails stays due, and is performed by the next call.
func TestStep(t *testing.T) {
	w := newMemory("ab")
	r := w.runner(1, oneKey)
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
	if len(r.queue.waiting) != 0 || len(r.keys) != 0 {
		t.Errorf("%v and %v are left", r.queue.waiting, r.keys)
	}
	if err := r.Step(t.Context(), "unknown"); err != nil {
		t.Errorf("a record that does not exist: %v", err)
	}
}

// Step does nothing while a step of the key is performed.
func TestStepDuringAStep(t *testing.T) {
	w := newMemory("a")
	r := w.runner(1, oneKey)
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
