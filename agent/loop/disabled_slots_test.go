package loop

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/api/host"
)

// An I/O slot of PowerVM is disabled and enabled as a PCI device is: free, and while a partition has it.
func TestDisabledSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		_, stop := w.startReported()
		const first, second = "1C0FFEE1", "1C0FFEE2"
		reserved := func(n int) int { return w.provider(slotName(n)).Inventories[slotClass].Reserved }
		w.compute.assign(w.slotServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		w.compute.disable([]host.DisabledDevice{disabled("d1", first), disabled("d2", second)})
		w.until("both are reserved", func() bool { return reserved(1) == 1 && reserved(2) == 1 })
		w.compute.assign(w.slotServer("s1", 1), w.slotServer("s2", 2)) // although Placement has it reserved
		w.untilPhase(host.Failed, "s2")
		contains(t, w.compute.guest("s2").Message, "it is disabled: fan d2")
		w.deleteAllocations("s2")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		time.Sleep(2 * time.Minute)
		if reserved(1) != 1 {
			t.Error("it was offered when its holder had freed it")
		}
		w.compute.disable(nil, "d1", "d2")
		w.until("both are offered", func() bool { return reserved(1) == 0 && reserved(2) == 0 })
		w.compute.assign(w.slotServer("s3", 1))
		w.untilPhase(host.Running, "s3")
		must(t, stop())
	})
}
