package conductor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/lifecycle"
)

// A conductor that does not run performs one step a call, with the time and the waits of its clock.
func TestPerformOnAGivenClock(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"] = true
	env.agents.mu.Unlock()
	waits, closed, config := 0, errors.New("closed"), quiet(t)
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	config.Clock = Clock{Now: func() time.Time { return at }, Since: func() time.Duration { return time.Second },
		Pause: func(context.Context, int) {}, NewID: uuid.NewString,
		Wait: func(context.Context, <-chan struct{}) error {
			waits++
			return closed
		}}
	c := New(env.store, env.client(nil), config)
	keepAsks(c)
	made, err := c.Create(t.Context(), server("young"))
	if err != nil || !made[0].Created.Equal(at) {
		t.Fatalf("%v: %v", made, err)
	}
	old := server("old")
	old.State, old.Host = lifecycle.Failing, "a"
	if err := env.store.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := c.Perform(t.Context(), "old"); !errors.Is(err, closed) || waits != 1 {
		t.Errorf("a step behind the gate: %v, after %d waits", err, waits)
	}
	for _, want := range []lifecycle.State{lifecycle.Claiming, lifecycle.Spawning} {
		if err := c.Perform(t.Context(), "young"); err != nil {
			t.Fatal(err)
		}
		if now, err := env.store.Read(t.Context(), "young"); err != nil || now.State != want {
			t.Errorf("state %s, want %s: %v", now.State, want, err)
		}
	}
	if waits != 1 {
		t.Errorf("%d waits", waits)
	}
}
