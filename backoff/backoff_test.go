package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitDoublesUpToMax(t *testing.T) {
	e := Exponential{First: 200 * time.Millisecond, Max: 15 * time.Second}
	for failures, want := range []time.Duration{200, 200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000} {
		if got := e.Wait(failures); got != want*time.Millisecond {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want*time.Millisecond)
		}
	}
	if got := e.Wait(math.MaxInt); got != e.Max {
		t.Errorf("after the most failures: got %s, want %s", got, e.Max)
	}
	if got := e.Wait(-1); got != e.First {
		t.Errorf("after -1 failures: got %s, want %s", got, e.First)
	}
}

func TestWaitNeverExceedsMaxAndDoesNotOverflow(t *testing.T) {
	for _, e := range []Exponential{{First: 3, Max: 2}, {First: 3, Max: 7}, {First: 1, Max: math.MaxInt64},
		{First: math.MaxInt64 - 1, Max: math.MaxInt64}} {
		last := time.Duration(0)
		for failures := range 70 {
			got := e.Wait(failures)
			if got < last || got > e.Max {
				t.Fatalf("%+v after %d failures: got %d after %d", e, failures, got, last)
			}
			last = got
		}
		if last != e.Max {
			t.Errorf("%+v ends at %d", e, last)
		}
	}
}

func TestZeroValueDoesNotWait(t *testing.T) {
	if got := (Exponential{Jitter: Around}).Wait(5); got != 0 {
		t.Errorf("got %s", got)
	}
}

// Jitter receives the wait that Max has limited.
func TestJitterChangesTheLimitedWait(t *testing.T) {
	e := Exponential{First: time.Second, Max: 3 * time.Second,
		Jitter: func(d time.Duration) time.Duration { return d + 1 }}
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 3 * time.Second,
		9: 3 * time.Second} {
		if got := e.Wait(failures); got != want+1 {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want+1)
		}
	}
}

func TestAroundStaysInItsBoundsAndVaries(t *testing.T) {
	const d = time.Second
	seen := map[time.Duration]bool{}
	for range 1000 {
		got := Around(d)
		if got < d/2 || got >= d+d/2 {
			t.Fatalf("got %s", got)
		}
		seen[got] = true
	}
	if len(seen) < 2 {
		t.Error("1000 waits are equal")
	}
	if got := Around(-d); got != -d {
		t.Errorf("a negative wait became %s", got)
	}
}

func TestUpperHalfUsesTheGivenNumber(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 5, 0.5: 7, 0.999: 9} {
		jitter := UpperHalf(func() float64 { return random })
		if got := jitter(10 * time.Second).Truncate(time.Second); got != want*time.Second {
			t.Errorf("with %v: got %s, want %s", random, got, want*time.Second)
		}
	}
}

func TestSleepWaitsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s", took)
		}
		if err := Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context: got %v", err)
		}
	})
}
