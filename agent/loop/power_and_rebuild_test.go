package loop

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func TestPower(t *testing.T) {
	scenario(t, "stop and start keep the devices", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.forbid("destroy")
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		if !w.guest("s1").Stopped || !maps.Equal(w.holders(), was) || len(w.compute.guest("s1").Devices) != 1 {
			t.Errorf("%+v", w.guest("s1"))
		}
		must(t, stop())
		w.compute.forget()
		_, stop = w.startReported()
		w.untilPhase(host.Stopped, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		if w.guest("s1").Stopped || !maps.Equal(w.holders(), was) {
			t.Errorf("%+v", w.guest("s1"))
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a rebuild keeps the devices and is reported with its number", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.forbid("destroy")
		s.Build = 1
		w.compute.assign(s)
		w.until("it is rebuilt", func() bool { return w.compute.guest("s1").Build == 1 })
		if g := w.guest("s1"); g.Build != 1 || !maps.Equal(w.holders(), was) {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a guest that cannot be started keeps its devices, and a repeated request tries again",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			s := w.server("s1", name1)
			w.compute.assign(poweredOff(s))
			w.untilPhase(host.Stopped, "s1")
			broken := make(chan struct{})
			w.guests.Fail = func(_ context.Context, operation, _ string) error {
				select {
				case <-broken:
					return nil
				default:
				}
				if operation == "build" {
					return fault.New(fault.Internal, "no such firmware")
				}
				return nil
			}
			w.compute.assign(s)
			w.untilPhase(host.Refused, "s1")
			if g := w.compute.guest("s1"); len(w.holders()) != 1 || g.Power != host.Off || g.Message != "no such firmware" {
				t.Errorf("%v %+v", w.holders(), g)
			}
			w.compute.assign(poweredOff(s)) // as compute does then
			w.untilPhase(host.Stopped, "s1")
			close(broken)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			w.checkConsistent("s1")
		})
}

// forbid fails the test when the hypervisor receives one of these operations.
func (w *testHost) forbid(operations ...string) {
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		if slices.Contains(operations, operation) {
			w.t.Errorf("%s %s", operation, guest)
		}
		return nil
	}
}
