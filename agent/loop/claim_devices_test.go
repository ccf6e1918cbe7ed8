package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

func TestClaimedDevices(t *testing.T) {
	scenario(t, "more servers than devices: those without one fail with a message",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			var all []host.Server
			for i := range 5 { // of two devices
				all = append(all, w.server(fmt.Sprintf("s%d", i), name1))
			}
			w.compute.assign(all...)
			running, failed := 0, 0
			for _, s := range all {
				w.until(s.ID+" ended", func() bool {
					return w.compute.phase(s.ID) == host.Running ||
						w.compute.phase(s.ID) == host.Failed
				})
				if g := w.compute.guest(s.ID); g.Phase == host.Running {
					running++
				} else {
					failed++
					contains(t, g.Message, name1, "2 of 2 held")
				}
			}
			must(t, stop())
			if running != 2 || failed != 3 || len(w.holders()) != 2 {
				t.Errorf("%d run, %d failed, held %v", running, failed, w.holders())
			}
		})
	scenario(t, "a server without an allocation gets no guest", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s1, s2 := w.server("s1", name1), w.server("s2", name1, name1)
		w.placement.remove("s1")
		w.placement.set("s2", w.provider(name1).ID, resource.Amounts{class: 1})
		w.compute.assign(s1, s2)
		w.untilPhase(host.Failed, "s1", "s2")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "no allocation of server s1 on cmp1")
		contains(t, w.compute.guest("s2").Message, "assigned 2 "+class, "has 1")
		w.checkConsistent()
	})
	scenario(t, "an unsupported assignment fails", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		s.Requests[0].Type = "type-Q"
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "type-Q")
	})
	scenario(t, "without providers any device that fits is claimed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1, name1, name2)
		s.Requests[0].Providers = nil
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a device of a removed server is claimed for a new one", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign(w.server("s2", name1, name1))
		w.untilPhase(host.Running, "s2")
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent("s2")
	})
	scenario(t, "a server that waits too long for devices fails", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "destroy" {
				return fault.New(fault.Internal, "the guest cannot be destroyed")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign(w.server("s2", name1))
		w.untilPhase(host.Failed, "s2")
		contains(t, w.compute.conditions(), "s1", "the guest cannot be destroyed")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "an assignment that changed before its guest was built is claimed again", func(t *testing.T, w *testHost) {
		stuck := make(chan struct{})
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation != "build" {
				return nil
			}
			select {
			case <-stuck:
				return nil
			case <-ctx.Done():
				return fault.Wrap(fault.Unavailable, ctx.Err())
			}
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign(w.server("s1", name2))
		w.until("claimed again", func() bool {
			g := w.compute.guest("s1")
			return len(g.Devices) == 1 && g.Devices[0].Address == "0000:5e:00.1"
		})
		close(stuck)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// The agent may restart with another class in its configuration between claim and build.
func TestDeviceOfAnotherClassIsNotAllocated(t *testing.T) {
	scenario(t, "the class of the device changes", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		s.Requests[0].Class = "CUSTOM_OLD"
		w.placement.set("s1", resource.ProviderID(s.Requests[0].Providers[0]), resource.Amounts{"CUSTOM_OLD": 1})
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		if text := w.compute.guest("s1").Message; !strings.Contains(text, "device_spec now gives it "+class) {
			t.Error(text)
		}
		must(t, stop())
	})
}
