package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A guest with devices is live-migrated, or keeps running at the source.
func TestLiveMigration(t *testing.T) {
	outgoing := func(s host.Server) host.Server {
		s.Outgoing = &host.Outgoing{Host: "cmp2", Devices: map[string]string{"0000:3b:00.1": "0000:88:00.3"}}
		return s
	}
	scenario(t, "the source: departed, then gone", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		w.forbid("destroy")
		w.compute.assign(outgoing(w.moved(s, "m1")))
		w.untilPhase(host.Departed, "m1")
		if g := w.guest("m1"); !g.Departed || len(w.journalled().Claims()) != 1 {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.compute.forget()
		_, stop = w.startReported()
		w.untilPhase(host.Departed, "m1") // reported again, and not migrated again
		w.guests.Fail = nil
		w.compute.assign()
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "the source: a guest that cannot be migrated runs on", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "migrate" {
				return fault.New(fault.Internal, "the firmware refuses")
			}
			return nil
		}
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(outgoing(m))
		w.untilPhase(host.Failed, "m1")
		contains(t, w.compute.guest("m1").Message, "cmp2", "the firmware refuses")
		time.Sleep(time.Minute)
		if n := strings.Count(w.compute.logText(), "m1 failed"); n != 1 {
			t.Errorf("reported %d times", n)
		}
		w.compute.assign(w.moved(m, "s1"))
		w.until("it runs as before", func() bool { return w.guest("s1").ID == "s1" && w.compute.phase("s1") == host.Running })
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the source: assigned here again after it has departed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(outgoing(m))
		w.untilPhase(host.Departed, "m1")
		w.compute.forget()
		w.compute.assign(w.moved(m, "s1"))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the destination: claimed first, built when powered on", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.forbid("build")
		s := w.server("s1", name1)
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		time.Sleep(3 * time.Minute)
		must(t, stop())
		w.compute.forget()
		_, stop = w.startReported()
		w.untilPhase(host.Claimed, "s1")
		if got := w.compute.guest("s1"); len(got.Devices) != 1 || got.Devices[0].Address != "0000:3b:00.1" {
			t.Errorf("%+v", got)
		}
		w.guests.Fail = nil
		s.Incoming = false
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the destination: cancelled before the guest arrived", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.forbid("build")
		s := w.server("s1", name1)
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
}

// A live_migratable rule refuses the start when the hypervisor cannot live-migrate guests with devices.
func TestLiveMigratableOnOldHypervisor(t *testing.T) {
	scenario(t, "live-migratable devices are refused", func(t *testing.T, w *testHost) {
		guests, err := fake.New(w.dir+"/old", hypervisor.Capacity{VCPUs: 8, MemoryMB: 1024, DiskGB: 10,
			NoLive: "QEMU is older than 8.2.2"})
		must(t, err)
		w.guests, w.options.Hypervisor = guests, guests
		setRules(w, strings.TrimSuffix(vfRule, "}")+`,"live_migratable":true}`)
		contains(t, w.refusedStart(fault.Invalid), "live_migratable", "QEMU is older than 8.2.2")
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
		setRules(w, strings.TrimSuffix(vfRule, "}")+`,"live_migratable":false}`) // as without the tag
		_, stop := w.startReported()
		must(t, stop())
	})
}
