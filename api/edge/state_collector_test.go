package edge

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestStateIsReadSeldom checks that reading the state takes at most a fiftieth of the time, and that a failure is not
// hidden by what was read before.
func TestStateIsReadSeldom(t *testing.T) {
	now, reads, takes, failing := time.Unix(0, 0), 0, 100*time.Millisecond, false
	m := NewMetrics("x_")
	g := m.Gauges("things", "Things.")
	c := &stateCollector{gauges: []*Gauges{g}, failures: m.panics, now: func() time.Time { return now },
		read: func(context.Context) ([]Sample, error) {
			reads++
			now = now.Add(takes)
			if failing {
				return nil, errors.New("no")
			}
			return []Sample{{Of: g, Value: float64(reads)}}, nil
		}}
	for _, step := range []struct {
		wait  time.Duration
		takes time.Duration
		fails bool
		want  float64 // 0: no sample
	}{
		{0, 100 * time.Millisecond, false, 1},
		{9 * time.Second, 0, false, 1},
		{time.Second, time.Second, false, 2}, // 10 s are more than 50 times 100 ms
		{49 * time.Second, 0, false, 2},
		{time.Second, 0, true, 0},
		{0, 0, true, 0},
		{0, 0, false, 5},
	} {
		now, takes, failing = now.Add(step.wait), step.takes, step.fails
		got := 0.0
		for _, s := range c.state() {
			got = s.Value
		}
		if got != step.want {
			t.Errorf("%+v: got %v", step, got)
		}
	}
}
