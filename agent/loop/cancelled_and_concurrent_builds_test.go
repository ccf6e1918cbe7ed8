package loop

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func TestCancelledAndConcurrentBuilds(t *testing.T) {
	scenario(t, "the slow build of an unassigned guest is cancelled", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation == "build" {
				<-ctx.Done()
				return fault.Wrap(fault.Unavailable, ctx.Err())
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "the number of concurrent builds is limited", func(t *testing.T, w *testHost) {
		var now, most atomic.Int32
		w.options.Parallel = 3
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return nil
		}
		_, stop := w.startReported()
		var all []host.Server
		for i := range 10 {
			all = append(all, w.server(fmt.Sprintf("s%d", i)))
		}
		w.compute.assign(all...)
		for _, s := range all {
			w.untilPhase(host.Running, s.ID)
		}
		must(t, stop())
		if most.Load() != 3 {
			t.Errorf("%d at once", most.Load())
		}
	})
}
