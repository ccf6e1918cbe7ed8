package loop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
)

// shuttingDown is a hypervisor whose guest s1 has shut down by itself, until it is built again.
type shuttingDown struct {
	hypervisor.Hypervisor
	mu      sync.Mutex
	down    bool
	built   int // how often s1 was built since it has shut down
	changed func()
}

func (h *shuttingDown) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	guests, err := h.Hypervisor.Guests(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	guests = slices.Clone(guests)
	for i := range guests {
		if h.down {
			guests[i].Stopped, guests[i].ShutDown = true, true
		}
	}
	return guests, err
}

func (h *shuttingDown) Build(ctx context.Context, g hypervisor.Guest) error {
	err := h.Hypervisor.Build(ctx, g)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.built++
	h.down = h.down && g.Stopped
	return err
}

// Watch keeps changed for shutDown.
func (h *shuttingDown) Watch(ctx context.Context, changed func()) {
	h.mu.Lock()
	h.changed = changed
	h.mu.Unlock()
	<-ctx.Done()
}

func (h *shuttingDown) shutDown() {
	h.mu.Lock()
	h.down, h.built = true, 0
	changed := h.changed
	h.mu.Unlock()
	changed()
}

func (h *shuttingDown) builds() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.built
}

func TestGuestThatShutsDown(t *testing.T) {
	start := func(w *testHost) (h *shuttingDown, s host.Server, stop func() error) {
		h = &shuttingDown{Hypervisor: w.options.Hypervisor}
		w.options.Hypervisor = h
		_, stop = w.startReported()
		s = w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		h.shutDown()
		w.until("it is reported", func() bool { return w.compute.guest("s1").ShutDown })
		if g := w.compute.guest("s1"); g.Phase != host.Stopped || len(g.Devices) != 1 {
			t.Errorf("%+v", g)
		}
		return h, s, stop
	}
	scenario(t, "it is reported and stays stopped, until it is started", func(t *testing.T, w *testHost) {
		h, s, stop := start(w)
		w.compute.assign(poweredOff(s))
		w.until("its state is confirmed", func() bool { return !w.compute.guest("s1").ShutDown })
		time.Sleep(time.Hour)
		if h.builds() != 0 || w.compute.phase("s1") != host.Stopped {
			t.Errorf("built %d times, %s", h.builds(), w.compute.phase("s1"))
		}
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		if h.builds() != 1 {
			t.Errorf("built %d times", h.builds())
		}
		must(t, stop())
	})
	scenario(t, "it is started if its server must still run", func(t *testing.T, w *testHost) {
		h, _, stop := start(w)
		w.untilPhase(host.Running, "s1")
		if h.builds() != 1 {
			t.Errorf("built %d times", h.builds())
		}
		must(t, stop())
	})
}
