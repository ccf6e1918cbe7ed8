package loop

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

const (
	cardRule  = `{"vendor_id":"8086","product_id":"1572","resource_class":"CUSTOM_CARD","shapes":["pf","vf"]}`
	cardClass = "CUSTOM_CARD"
)

// cards makes the host offer its cards as their PFs and as their VFs. It fails the test when a guest with a PF is built
// while the PF has VFs.
func (w *testHost) cards() {
	w.t.Helper()
	setRules(w, cardRule)
	w.options.VFs = w.sysfs
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		assigned := w.assignment(guest)
		if operation == "build" && len(assigned.Requests) > 0 && assigned.Requests[0].Type == string(pci.Physical) &&
			assigned.Power != host.Off && w.sysfs.numVFs(pf1) > 0 {
			w.t.Errorf("the guest %s is built, and its PF has VFs", guest)
		}
		return nil
	}
}

// assignment returns the assignment of a server; empty without one.
func (w *testHost) assignment(id string) host.Server {
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	i := slices.IndexFunc(w.compute.assignments.Servers, func(s host.Server) bool { return s.ID == id })
	if i < 0 {
		return host.Server{}
	}
	return w.compute.assignments.Servers[i]
}

// cardServer returns the assignment of a server with a device of the first card, and writes its allocation.
func (w *testHost) cardServer(id string, kind pci.Type, amount int) host.Server {
	s, p := w.server(id), w.provider(name1)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "card", Count: 1, Class: cardClass, Type: string(kind),
		Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{cardClass: amount})
	return s
}

// restored reports whether the first card is as it was before any server had it.
func (w *testHost) restored() bool {
	state := w.journalled()
	return w.sysfs.numVFs(pf1) == 2 && len(state.VFs()) == 0 && len(state.Gone()) == 0
}

func TestWholeCards(t *testing.T) {
	held := func(w *testHost) (stop func() error) {
		w.cards()
		_, stop = w.startReported()
		w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
		w.compute.assign(w.cardServer("s1", pci.Physical, 2))
		w.untilPhase(host.Running, "s1")
		return stop
	}
	scenario(t, "a PF and its VFs in turn", func(t *testing.T, w *testHost) {
		stop := held(w)
		for range 3 {
			if w.sysfs.numVFs(pf1) != 0 || w.total(name1, cardClass) != 2 || w.compute.conditions() != "" {
				t.Errorf("%d VFs, %d slices, %q", w.sysfs.numVFs(pf1), w.total(name1, cardClass), w.compute.conditions())
			}
			time.Sleep(time.Minute)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("its VFs are back", w.restored)
		w.compute.assign(w.cardServer("s2", pci.Virtual, 1))
		w.untilPhase(host.Running, "s2")
		if w.holders()["0000:3b:00.1"] != "s2" || w.sysfs.numVFs(pf1) != 2 || w.total(name1, cardClass) != 2 {
			t.Errorf("%v, %d VFs, %d slices", w.holders(), w.sysfs.numVFs(pf1), w.total(name1, cardClass))
		}
		must(t, stop())
		w.checkConsistent("s2")
	})
	scenario(t, "no rule offers it any more when its VFs are removed", func(t *testing.T, w *testHost) {
		w.cards()
		_, stop := w.startReported()
		w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
		s := w.cardServer("s1", pci.Physical, 2)
		s.ClaimOnly = true
		w.compute.assign(s)
		w.until("the claim", func() bool { return len(w.journalled().Claims()) == 1 })
		must(t, stop())
		setRules(w, `{"vendor_id":"ffff","product_id":"ffff"}`)
		_, stop = w.startReported()
		s.ClaimOnly = false
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		if vfs := w.journalled().VFs(); w.sysfs.numVFs(pf1) != 0 || len(vfs) != 1 {
			t.Errorf("%d VFs, and the journal has %v", w.sysfs.numVFs(pf1), vfs)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("its VFs are back", func() bool { return w.sysfs.numVFs(pf1) == 2 })
		must(t, stop())
	})
	scenario(t, "an allocation of another number of slices", func(t *testing.T, w *testHost) {
		w.cards()
		_, stop := w.startReported()
		w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
		w.compute.assign(w.cardServer("s1", pci.Physical, 1), w.cardServer("s2", pci.Physical, 3))
		w.untilPhase(host.Failed, "s1", "s2")
		contains(t, w.compute.guest("s1").Message, "is assigned 2 CUSTOM_CARD", "has 1")
		contains(t, w.compute.guest("s2").Message, "is assigned 2 CUSTOM_CARD", "has 3")
		if !w.restored() {
			t.Error("the card has changed")
		}
		must(t, stop())
	})
	scenario(t, "its VFs cannot be restored for a time", func(t *testing.T, w *testHost) {
		broken := &brokenVFs{VFSetter: w.sysfs}
		stop := held(w)
		must(t, stop())
		w.options.VFs = broken
		broken.fails.Store(true)
		_, stop = w.startReported()
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("the condition", func() bool { return w.compute.conditions() != "" })
		contains(t, w.compute.conditions(), pf1, "2 VFs", "the driver is not bound")
		if w.total(name1, cardClass) != 2 {
			t.Errorf("%d slices", w.total(name1, cardClass))
		}
		w.compute.assign(w.cardServer("s2", pci.Physical, 2)) // as a whole it can be used
		w.until("it is claimed", func() bool { return len(w.journalled().Claims()) == 1 })
		w.compute.assign()
		w.untilPhase(host.Gone, "s2")
		w.deleteAllocations("s2")
		broken.fails.Store(false)
		w.until("its VFs are back", func() bool { return w.restored() && w.compute.conditions() == "" })
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "the journal is lost", func(t *testing.T, w *testHost) {
		stop := held(w)
		must(t, stop())
		w.forgetJournal()
		_, stop = w.startReported()
		time.Sleep(2 * time.Minute)
		if w.total(name1, cardClass) != 2 || len(w.journalled().VFs()) != 1 {
			t.Errorf("%d slices, journal %v", w.total(name1, cardClass), w.journalled().VFs())
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("its VFs are back", w.restored)
		must(t, stop())
	})
	for name, afterShapes := range map[string]bool{"with": false, "after": true} {
		scenario(t, "the journal is lost "+name+" the change to shapes", func(t *testing.T, w *testHost) {
			setRules(w, `{"vendor_id":"8086","product_id":"1572","resource_class":"CUSTOM_CARD"}`)
			w.options.VFs = w.sysfs
			_, stop := w.startReported()
			w.until("one device", func() bool { return w.total(name1, cardClass) == 1 })
			w.compute.assign(w.cardServer("s1", pci.Physical, 1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			setRules(w, cardRule)
			if afterShapes {
				_, stop = w.startReported()
				w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
				must(t, stop())
			}
			w.forgetJournal()
			_, stop = w.startReported()
			time.Sleep(5 * time.Minute)
			if n := w.placement.Held("s1")[w.provider(name1).ID][cardClass]; n != 1 {
				t.Errorf("its allocation has %d slices, and compute has claimed one", n)
			}
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.deleteAllocations("s1")
			w.until("its VFs are there", w.restored)
			must(t, stop())
		})
	}
	scenario(t, "the host was restarted", func(t *testing.T, w *testHost) {
		stop := held(w)
		s1 := w.assignment("s1")
		w.compute.assign(poweredOff(s1))
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
		address, err := pci.ParseAddress(pf1)
		must(t, err)
		must(t, w.sysfs.SetVFs(address, 2)) // as the operator's program does at each start of the host
		_, stop = w.startReported()
		w.compute.assign(poweredOn(s1))
		w.untilPhase(host.Running, "s1")
		if w.sysfs.numVFs(pf1) != 0 || w.total(name1, cardClass) != 2 {
			t.Errorf("%d VFs, %d slices", w.sysfs.numVFs(pf1), w.total(name1, cardClass))
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("its VFs are back", w.restored)
		must(t, stop())
	})
	scenario(t, "a VF is disabled, then the PF, also while it is held", func(t *testing.T, w *testHost) {
		w.cards()
		_, stop := w.startReported()
		w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
		reserved := func(n int) func() bool {
			return func() bool { return w.provider(name1).Inventories[cardClass].Reserved == n }
		}
		w.compute.disable([]host.DisabledDevice{disabled("d1", "0000:3b:00.1")})
		w.until("one slice is reserved", reserved(1))
		w.compute.disable([]host.DisabledDevice{disabled("d2", pf1)}, "d1")
		w.until("all are reserved", reserved(2))
		w.compute.disable(nil, "d2")
		w.until("none is reserved", reserved(0))
		w.compute.assign(w.cardServer("s1", pci.Physical, 2))
		w.untilPhase(host.Running, "s1")
		w.until("its VFs are gone", func() bool { return !w.compute.isDisabled("0000:3b:00.1") && w.sysfs.numVFs(pf1) == 0 })
		w.compute.disable([]host.DisabledDevice{disabled("d3", pf1)})
		w.until("all are reserved while it is held", reserved(2))
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("its VFs are back", w.restored)
		time.Sleep(2 * time.Minute)
		if !reserved(2)() || w.compute.conditions() != "" {
			t.Errorf("%+v %s", w.provider(name1).Inventories, w.compute.conditions())
		}
		must(t, stop())
	})
	scenario(t, "an operator changes the number of VFs of a free card", func(t *testing.T, w *testHost) {
		w.cards()
		_, stop := w.startReported()
		w.until("slices", func() bool { return w.total(name1, cardClass) == 2 })
		w.sysfs.change(func(tree fstest.MapFS) { setFile(pf1, "sriov_numvfs", "1")(tree) })
		w.sysfs.remove("0000:3b:00.2")
		w.until("one slice", func() bool { return w.total(name1, cardClass) == 1 })
		must(t, stop())
	})
}

// brokenVFs is a VFSetter that can fail.
type brokenVFs struct {
	VFSetter
	fails atomic.Bool
}

func (b *brokenVFs) SetVFs(pf pci.Address, count int) error {
	if b.fails.Load() && count > 0 {
		return fault.New(fault.Unavailable, "the driver is not bound")
	}
	return b.VFSetter.SetVFs(pf, count)
}

// A server gets the PF of a card, then another one a VF, then a third one the PF. With a crash at any call, each guest
// gets its device, no guest is built with a PF that has VFs, the card always has two slices, and in the end its VFs are
// there.
func TestCrashWithWholeCards(t *testing.T) {
	crashAtCalls(t, testenv.Stride(5), 30, 400, func(t *testing.T, crashes func() *crash) {
		w := newTestHost(t)
		w.cards()
		two := func() bool { return w.total(name1, cardClass) == 2 }
		w.runAgents(two, crashes)
		w.compute.assign(w.cardServer("s1", pci.Physical, 2))
		w.runAgents(func() bool { return two() && w.inPhase(host.Running, "s1") }, crashes)
		w.checkConsistent("s1")
		w.compute.assign()
		w.runAgents(func() bool { return w.inPhase(host.Gone, "s1") && w.restored() }, crashes)
		w.deleteAllocations("s1")
		w.compute.assign(w.cardServer("s2", pci.Virtual, 1))
		w.runAgents(func() bool { return w.inPhase(host.Running, "s2") }, crashes)
		w.checkConsistent("s2")
		w.compute.assign()
		w.runAgents(func() bool { return w.inPhase(host.Gone, "s2") }, crashes)
		w.deleteAllocations("s2")
		w.compute.assign(w.cardServer("s3", pci.Physical, 2))
		w.runAgents(func() bool { return w.inPhase(host.Running, "s3") }, crashes)
		w.compute.assign()
		w.runAgents(func() bool { return w.inPhase(host.Gone, "s3") && w.restored() }, crashes)
		w.checkConsistent()
		if !two() {
			t.Errorf("the card has %d slices", w.total(name1, cardClass))
		}
	})
}
