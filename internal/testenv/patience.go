package testenv

import (
	"flag"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen: a response, a state, the end of a process. It costs time only
// when the test fails, and a busy machine may need minutes. What must not happen is watched for a much shorter time.
const Patience = 10 * time.Minute

// Condition is what Until waits for: a result of true, or of no error.
type Condition interface {
	func() bool | func() error | func() (bool, error)
}

// Until calls a condition until it holds. It pauses as long as the condition took, and an eighth of the time since the
// first call, so that conditions that start processes, and long waits, leave the processor to what they wait for.
//
// After Patience, or shortly before the time limit of go test, it ends the test with what was awaited and the last
// error of the condition.
func Until[C Condition](t testing.TB, what string, condition C) {
	t.Helper()
	if held, err := Wait(condition); !held {
		t.Fatalf("never: %s (last error: %v)", what, err)
	}
}

// Wait is Until for callers with a message of their own: it returns whether the condition held in time and, if not, its
// last error.
func Wait[C Condition](condition C) (held bool, err error) {
	const shortest, longest = time.Millisecond, 200 * time.Millisecond
	start := time.Now()
	end := start.Add(left())
	for {
		called := time.Now()
		switch call := any(condition).(type) {
		case func() bool:
			held = call()
		case func() error:
			err = call()
			held = err == nil
		case func() (bool, error):
			held, err = call()
		}
		now := time.Now()
		if held || now.After(end) {
			return held, err
		}
		time.Sleep(max(shortest, min(max(now.Sub(start)/8, now.Sub(called)), longest)))
	}
}

// began is when the process of the tests was started.
var began = time.Now()

// left returns Patience, or less if the time limit of go test ends the tests earlier. In a bubble of synctest it is
// Patience, because the clock of the bubble is decades before the real one.
func left() time.Duration {
	const reserve = 5 * time.Second // for the message and the cleanup
	if limit := flag.Lookup("test.timeout"); limit != nil {
		if limit, ok := limit.Value.(flag.Getter).Get().(time.Duration); ok && limit > 0 {
			return min(Patience, time.Until(began.Add(limit))-reserve)
		}
	}
	return Patience
}
