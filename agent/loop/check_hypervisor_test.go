package loop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// A hypervisor that refuses or hangs is reported within ten seconds. Meanwhile no server is begun, so that compute can
// place it elsewhere, and guests stay as they are. When it answers again, the servers that wait are built.
func TestHypervisorThatDoesNotAnswer(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context) error{
		"refuses": func(context.Context) error { return fault.New(fault.Unavailable, "connection refused") },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return fault.Wrap(fault.Unavailable, ctx.Err())
		},
		"hangs longer than the check may take": func(context.Context) error {
			time.Sleep(20 * time.Second)
			return nil
		},
	} {
		scenario(t, "a hypervisor that "+name, func(t *testing.T, w *testHost) {
			var down atomic.Bool
			w.guests.Fail = func(ctx context.Context, _, _ string) error {
				if down.Load() {
					return answer(ctx)
				}
				return nil
			}
			agent, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			down.Store(true)
			time.Sleep(10 * time.Second)
			report := w.compute.lastReport()
			conditions := strings.Join(condition.Texts(report.Conditions), "\n")
			if report.Down == "" || !strings.Contains(conditions, "the hypervisor can build no guests") {
				t.Errorf("after ten seconds compute has %q, %v", report.Down, report.Conditions)
			}
			w.compute.assign(w.server("s1", name1), w.server("s2", name1))
			time.Sleep(time.Minute)
			if got := w.compute.guest("s2"); got.Phase != "" {
				t.Errorf("s2 is %s", got.Phase)
			}
			if got := w.compute.guest("s1"); got.Phase != host.Running {
				t.Errorf("s1 is %s", got.Phase)
			}
			down.Store(false)
			w.untilPhase(host.Running, "s2")
			w.until("the condition ends", func() bool { return w.compute.lastReport().Down == "" })
			if got := agent.Report().Conditions; strings.Contains(strings.Join(condition.Texts(got), "\n"), "hypervisor") {
				t.Errorf("the conditions are %v", got)
			}
			must(t, stop())
			w.checkConsistent("s1", "s2")
		})
	}
}

// The hypervisor fails while a guest is built. The attempts do not count until it answers again.
func TestHypervisorFailsDuringABuild(t *testing.T) {
	scenario(t, "builds fail for minutes, and so do checks", func(t *testing.T, w *testHost) {
		var down, ends atomic.Bool
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				down.Store(true)
			}
			if down.Load() && !ends.Load() {
				return fault.New(fault.Unavailable, "connection refused")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		time.Sleep(5 * time.Minute)
		if got := w.compute.guest("s1"); got.Phase != host.Claimed {
			t.Errorf("s1 is %s: %s", got.Phase, got.Message)
		}
		ends.Store(true)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}
