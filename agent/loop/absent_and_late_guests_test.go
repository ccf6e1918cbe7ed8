package loop

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// forgetful is a hypervisor whose list lacks guests.
type forgetful struct {
	hypervisor.Hypervisor
	lacks atomic.Pointer[[]string]
	built atomic.Int32 // guests that were built as new ones although they exist
}

func (f *forgetful) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	guests, err := f.Hypervisor.Guests(ctx)
	if lacks := f.lacks.Load(); lacks != nil {
		guests = slices.DeleteFunc(guests, func(g hypervisor.Guest) bool { return slices.Contains(*lacks, g.ID) })
	}
	return guests, err
}

func (f *forgetful) Build(ctx context.Context, g hypervisor.Guest) error {
	guests, err := f.Hypervisor.Guests(ctx)
	there := slices.ContainsFunc(guests, func(h hypervisor.Guest) bool { return h.ID == g.ID && h.Build == g.Build })
	if err == nil && there && !g.Kept {
		f.built.Add(1)
	}
	return f.Hypervisor.Build(ctx, g)
}

// Guests that an answer of the hypervisor lacks are neither built as new ones nor destroyed, and keep their devices,
// also while the assignments do not mention them.
func TestAnswersWithoutGuests(t *testing.T) {
	for what, lacks := range map[string][]string{"an empty answer": {"s1", "s2"}, "a partial answer": {"s1"}} {
		scenario(t, what, func(t *testing.T, w *testHost) {
			h := &forgetful{Hypervisor: w.options.Hypervisor}
			w.options.Hypervisor = h
			w.compute.omitRemovals = true
			a, stop := w.startReported()
			w.compute.assign(w.server("s1", name1), w.server("s2", name1))
			w.untilPhase(host.Running, "s1", "s2")
			h.lacks.Store(&lacks)
			time.Sleep(10 * time.Minute)
			w.compute.assign(w.server("s2", name1))
			time.Sleep(10 * time.Minute)
			if got := claimedBy(a, "s1"); got != 1 || len(w.holders()) != 2 {
				t.Errorf("%d devices of s1, holders %v", got, w.holders())
			}
			must(t, stop())
			a, stop = w.startReported()
			time.Sleep(10 * time.Minute)
			if got := claimedBy(a, "s1"); got != 1 || len(w.holders()) != 2 {
				t.Errorf("after a restart: %d devices of s1, holders %v", got, w.holders())
			}
			h.lacks.Store(nil)
			w.compute.assign(w.server("s1", name1), w.server("s2", name1))
			time.Sleep(10 * time.Minute)
			must(t, stop())
			w.checkConsistent("s1", "s2")
			if n := h.built.Load(); n > 0 {
				t.Errorf("%d guests were built as new ones", n)
			}
		})
	}
}

// claimedBy returns the number of devices that an agent reports as held by a server.
func claimedBy(a *Agent, server string) (n int) {
	for _, d := range a.Report().Devices {
		if d.Holder == server {
			n++
		}
	}
	return n
}

// A build whose answer was lost, and which the hypervisor executes after the server has gone to another host, is
// destroyed when it appears, also after a restart of the agent.
func TestLateBuild(t *testing.T) {
	for what, restart := range map[string]bool{"": false, " at the next start": true} {
		scenario(t, "a guest that is built too late is destroyed"+what, func(t *testing.T, w *testHost) {
			var late hypervisor.Guest
			build := fault.New(fault.Unavailable, "libvirt hangs")
			h := &hanging{Hypervisor: w.options.Hypervisor, fail: build, got: &late}
			w.options.Hypervisor = h
			_, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Failed, "s1")
			w.compute.assign() // it goes to another host
			w.untilPhase(host.Gone, "s1")
			time.Sleep(6 * time.Minute)
			if restart {
				must(t, stop())
			}
			must(t, w.guests.Build(t.Context(), late))
			if restart {
				_, stop = w.startReported()
			}
			w.until("it is destroyed", func() bool { return len(w.running()) == 0 })
			time.Sleep(time.Minute)
			if got := w.compute.conditions(); got != "" {
				t.Errorf("conditions %q", got)
			}
			must(t, stop())
			w.checkConsistent()
		})
	}
}

// hanging is a hypervisor that does not answer to builds, and keeps the last one.
type hanging struct {
	hypervisor.Hypervisor
	fail error
	got  *hypervisor.Guest
}

func (h *hanging) Build(_ context.Context, g hypervisor.Guest) error {
	*h.got = g
	return h.fail
}

// A guest that ends again and again is started with growing waits, each restart is reported once, and a guest that
// cannot be started is tried again when the cause is gone.
func TestGuestsEndByThemselves(t *testing.T) {
	scenario(t, "killed several times", func(t *testing.T, w *testHost) {
		w.options.Rescan = time.Second
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		var waits []int
		for range 4 {
			kill(t, w, "s1")
			w.until("it is started again", func() bool {
				g := w.compute.guest("s1")
				if g.Phase == host.Refused && (len(waits) == 0 || waits[len(waits)-1] != g.RetryIn) {
					waits = append(waits, g.RetryIn)
				}
				return g.Phase == host.Running && strings.Contains(g.Happened, "it was started again at ")
			})
			w.compute.mu.Lock()
			g := w.compute.guests["s1"]
			g.Happened = ""
			w.compute.guests["s1"] = g
			w.compute.mu.Unlock()
		}
		if len(waits) != 3 || waits[0] > waits[1] || waits[1] > waits[2] {
			t.Errorf("the waits are %v", waits)
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	for what, kind := range map[string]fault.Kind{"a bridge that appears later": fault.Internal,
		"an image service that does not answer": fault.Unavailable} {
		bootWithout(t, what, kind)
	}
}

// bootWithout starts the agent while guests cannot be started because of a fault.
func bootWithout(t *testing.T, what string, kind fault.Kind) {
	scenario(t, what, func(t *testing.T, w *testHost) {
		var absent atomic.Bool
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && absent.Load() {
				return fault.New(kind, "there is no bridge br0")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1), w.server("s2", name1))
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		kill(t, w, "s1")
		kill(t, w, "s2") // the host boots
		absent.Store(true)
		_, stop = w.startReported()
		w.untilPhase(host.Refused, "s1", "s2")
		if g := w.compute.guest("s1"); g.RetryIn == 0 || !strings.Contains(g.Message, "no bridge br0") {
			t.Errorf("reported as %+v", g)
		}
		time.Sleep(20 * time.Minute)
		absent.Store(false)
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
}

// kill ends a guest as kill -9 of its QEMU does. No fault may be set for its build.
func kill(t *testing.T, w *testHost, id string) {
	t.Helper()
	guests, err := w.options.Hypervisor.Guests(t.Context())
	must(t, err)
	for _, g := range guests {
		if g.ID == id {
			g.Stopped = true
			must(t, w.guests.Build(t.Context(), g))
		}
	}
}
