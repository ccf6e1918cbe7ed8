package loop

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/fault"
)

// The kernel reports a VF, and the agent syncs at once.
func TestHotPlug(t *testing.T) {
	scenario(t, "a VF appears between two rescans", func(t *testing.T, w *testHost) {
		w.options.Rescan = time.Hour
		uevents := make(chan struct{})
		w.options.Events = func(ctx context.Context, changed func()) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-uevents:
					changed()
				}
			}
		}
		_, stop := w.startReported()
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		began := time.Now()
		for range 5 {
			uevents <- struct{}{}
		}
		w.until("it is reported", func() bool { return w.provider(name1).Inventories[class].Total == 3 })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, stop())
	})
	scenario(t, "without kernel events the rescan finds changes", func(t *testing.T, w *testHost) {
		w.options.Events = func(context.Context, func()) error {
			return fault.New(fault.Unavailable, "not in this container")
		}
		_, stop := w.startReported()
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.until("it is reported", func() bool { return w.provider(name1).Inventories[class].Total == 3 })
		must(t, stop())
	})
}

// A changed NUMA node of a device takes effect at once.
func TestDeviceMovesToAnotherNode(t *testing.T) {
	scenario(t, "numa_node changes", func(t *testing.T, w *testHost) {
		w.numaNodes()
		_, stop := w.startReported()
		w.sysfs.change(func(m fstest.MapFS) {
			m["bus/pci/devices/0000:3b:00.1/numa_node"] = &fstest.MapFile{Data: []byte("1\n")}
		})
		w.until("it is reported", func() bool {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			return w.compute.report.Devices[0].NUMANode == 1
		})
		must(t, stop())
	})
}
