package conductor

import (
	"context"
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/internal/testenv"
)

// Each call of compute's to the database and to Placement fails once, before its effect or with its answer lost.
func TestFailAtEachStep(t *testing.T) { atEachCall(t, failAt) }

// The process ends at each call, before or after its effect, and is started again. Records, Placement and agents
// agree.
func TestCrashAtEachStep(t *testing.T) { atEachCall(t, crashAt) }

// atEachCall runs a test once for each call in it. live returns whether the call was reached.
func atEachCall(t *testing.T, live func(t *testing.T, at int, late bool) bool) {
	for _, late := range []bool{false, true} {
		at := 1 - testenv.Stride(5)
		for reached := true; reached; {
			at += testenv.Stride(5)
			reached = false // also if the test ends early
			t.Run(fmt.Sprintf("call %d late %v", at, late), func(t *testing.T) { reached = live(t, at, late) })
		}
		if at < 12 {
			t.Errorf("late %v: only %d calls: the test checks nothing", late, at-1)
		}
	}
}

// failAt creates and deletes servers while one call fails.
func failAt(t *testing.T, at int, late bool) bool {
	c := newCloud(t, map[string]int{"a": 1})
	tr := &trouble{fails: once(at, late)}
	c.start(t.Context(), troubledStore{c.store, tr}, c.client(tr.failPlacement))
	for _, id := range []string{"s1", "s2"} {
		_, _ = c.conductor().Create(t.Context(), server(id)) // with an error it may have been stored or not
	}
	c.waitSettled()
	c.checkConsistent("created")
	if len(c.servers()) == 2 && c.count(lifecycle.Active) != 1 {
		t.Errorf("%d active", c.count(lifecycle.Active))
	}
	c.deleteAll()
	return tr.count() >= at
}

// crashAt creates and deletes servers with one crash.
func crashAt(t *testing.T, at int, late bool) bool {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	tr := &trouble{fails: crash(at, late, end)}
	c.start(ctx, troubledStore{c.store, tr}, c.client(tr.failPlacement))
	again := func() bool {
		if ctx.Err() == nil {
			return false
		}
		c.restart()
		return true
	}
	for _, id := range []string{"s1", "s2", "s3"} {
		_, _ = c.conductor().Create(t.Context(), server(id)) // the clients of a service that ends get an error
	}
	c.waitFor("settled, or the crash", func() bool {
		return ctx.Err() != nil ||
			c.count(lifecycle.Active)+c.count(lifecycle.Error) == 3
	})
	crashed := again()
	c.waitSettled()
	c.checkConsistent("created")
	if n := len(c.servers()); n == 3 && c.count(lifecycle.Active) != 2 {
		t.Errorf("%d active\n%s", c.count(lifecycle.Active), c.histories())
	}
	for _, s := range c.servers() {
		_ = c.conductor().Delete(t.Context(), s.ID, lifecycle.Caller{})
	}
	c.waitFor("deleted, or the crash", func() bool {
		return crashed || ctx.Err() != nil ||
			c.count(lifecycle.Deleted) == 3
	})
	if !crashed {
		again()
	}
	c.deleteAll()
	return tr.count() >= at
}

// Each call to the database and to Placement fails once in every operation, before its effect or with its answer
// lost.
func TestEveryOperationFailsAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st operation, at int, late bool) bool {
		c := st.prepare(t)
		tr := &trouble{fails: once(at, late)}
		c.start(t.Context(), troubledStore{c.store, tr}, c.client(tr.failPlacement))
		st.run(c)
		c.waitSettled()
		tr.rest()
		st.finish(c)
		return tr.count() >= at
	})
}

// The process ends at each call of every operation, before or after its effect, and is started again. Records,
// Placement and agents agree.
func TestEveryOperationCrashesAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st operation, at int, late bool) bool {
		c := st.prepare(t)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		tr := &trouble{fails: crash(at, late, end)}
		c.start(ctx, troubledStore{c.store, tr}, c.client(tr.failPlacement))
		crashed := false
		c.onWait = func() {
			if ctx.Err() != nil && !crashed {
				crashed = true
				c.restart()
			}
		}
		st.run(c)
		c.waitSettled()
		tr.rest()
		c.waitFor("the crash has been seen", func() bool { return ctx.Err() == nil || crashed })
		st.finish(c)
		return crashed
	})
}

// stride returns the distance between the calls that fail. The race detector makes each operation many times slower:
// with it, each operation runs with some failures, and without it with a failure of each call.
func stride() int {
	switch {
	case testing.Short():
		return 32
	case raceDetector:
		return 16
	}
	return 1
}

// atEachCallOfEach runs every operation once for each call in it, until no call is left.
func atEachCallOfEach(t *testing.T, live func(t *testing.T, st operation, at int, late bool) bool) {
	for _, st := range allOperations() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				if late && testing.Short() {
					continue
				}
				at := 0
				for reached := true; reached; {
					at++
					if at%stride() != 1%stride() {
						continue
					}
					reached = false // also if the test ends early
					t.Run(fmt.Sprintf("call %d late %v", at, late), func(t *testing.T) { reached = live(t, st, at, late) })
				}
				if at < 2 {
					t.Errorf("late %v: only %d calls: the test checks nothing", late, at-1)
				}
			}
		})
	}
}
