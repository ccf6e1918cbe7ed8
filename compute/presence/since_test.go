package presence

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// noHosts is a store in which no agent has reported.
type noHosts struct{ Store }

func (noHosts) Host(context.Context, string) (schedule.Host, error) {
	return schedule.Host{}, fault.New(fault.NotFound, "none")
}

// agentsAt returns agents with clocks that a test sets.
func agentsAt(clock *time.Duration, wall *time.Time) *Agents {
	return New(noHosts{}, Options{Silence: time.Minute, FollowWithin: 10 * time.Second, FirstReports: time.Nanosecond,
		Since: func() time.Duration { return *clock }, Now: func() time.Time { return *wall }})
}

// The failure of a start has the time at which it was sent first, and another one after the agent was silent.
func TestSinceOfStartFailure(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	clock, wall := time.Hour, noon
	a := agentsAt(&clock, &wall)
	for _, c := range []struct {
		after time.Duration
		want  time.Time
	}{{0, noon}, {20 * time.Second, noon}, {59 * time.Second, noon}, {61 * time.Second, noon.Add(140 * time.Second)},
		{time.Second, noon.Add(140 * time.Second)}} {
		clock, wall = clock+c.after, wall.Add(c.after)
		if err := a.StartFailed(t.Context(), "h", schedule.Sender{}, "no /sys"); err != nil {
			t.Fatal(err)
		}
		if f := a.StartFailures()["h"]; f.Why != "no /sys" || !f.Since.Equal(c.want) {
			t.Errorf("after %s: %+v, want since %s", c.after, f, c.want)
		}
	}
}

// The condition of an agent that does not follow its assignments has the time at which it was late, whenever that is
// asked for and however the wall clock is set, and its text does not change.
func TestSinceOfNotFollowing(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	clock, wall := time.Hour, noon
	a := agentsAt(&clock, &wall)
	a.Reported(schedule.Host{Name: "h"})
	a.Compare("h", "e", 2)
	if list := a.Conditions("h"); len(list) > 0 {
		t.Errorf("it still has time: %v", list)
	}
	clock, wall = clock+25*time.Second, wall.Add(25*time.Second)
	a.Compare("h", "e", 3)
	first := a.Conditions("h")
	if len(first) != 1 || !first[0].Since.Equal(noon.Add(10*time.Second)) {
		t.Fatalf("%+v", first)
	}
	clock, wall = clock+5*time.Second, wall.Add(-time.Hour)
	if later := a.Conditions("h"); len(later) != 1 || later[0] != first[0] {
		t.Errorf("%+v, before %+v", later, first)
	}
	a.Followed("h", "e", 3)
	a.Compare("h", "e", 3)
	if list := a.Conditions("h"); len(list) > 0 || len(a.Conditions("other")) > 0 {
		t.Errorf("it has followed them: %v", list)
	}
}
