package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// refusedStart runs an agent that must not start, and returns the message.
func (w *testHost) refusedStart(kind fault.Kind) string {
	w.t.Helper()
	err := w.agent().Run(w.t.Context())
	if !fault.Is(err, kind) {
		w.t.Fatalf("the start ended with %v, want %s", err, kind)
	}
	return err.Error()
}

// rules sets device_spec for the agents that start later.
func rules(w *testHost, text string) {
	w.t.Helper()
	parsed, err := pci.ParseSpecs(text)
	must(w.t, err)
	w.options.Rules = parsed
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %q", word, text)
		}
	}
}

func TestClaims(t *testing.T) {
	scenario(t, "more servers than devices: those without one fail with a message",
		func(t *testing.T, w *testHost) {
			_, stop := w.begin()
			var all []host.Server
			for i := range 5 { // of two devices
				all = append(all, w.want(fmt.Sprintf("s%d", i), name1))
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
	scenario(t, "no allocation, no guest", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s1, s2 := w.want("s1", name1), w.want("s2", name1, name1)
		w.placement.remove("s1")
		w.placement.set("s2", w.provider(name1).ID, resource.Amounts{class: 1})
		w.compute.assign(s1, s2)
		w.untilPhase(host.Failed, "s1", "s2")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "no allocation of server s1 on cmp1")
		contains(t, w.compute.guest("s2").Message, "assigned 2 "+class, "has 1")
		w.consistent()
	})
	scenario(t, "an unsupported assignment fails", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		s.Requests[0].Type = "type-Q"
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "type-Q")
	})
	scenario(t, "without providers any device that fits is claimed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1, name1, name2)
		s.Requests[0].Providers = nil
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "a device passes from a removed server to a new one", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign(w.want("s2", name1, name1))
		w.untilPhase(host.Running, "s2")
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent("s2")
	})
	scenario(t, "a server that waits too long for devices fails", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "destroy" {
				return fault.New(fault.Internal, "test", "it will not die")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign(w.want("s2", name1))
		w.untilPhase(host.Failed, "s2")
		contains(t, w.compute.conditions(), "s1", "it will not die")
		must(t, stop())
		w.consistent("s1")
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
				return fault.Wrap(fault.Unavailable, "test", ctx.Err())
			}
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign(w.want("s1", name2))
		w.until("claimed anew", func() bool {
			g := w.compute.guest("s1")
			return len(g.Devices) == 1 && g.Devices[0].Address == "0000:5e:00.1"
		})
		close(stuck)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
}

func TestBuilding(t *testing.T) {
	scenario(t, "a guest that cannot be built holds nothing", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Internal, "test", "no such image")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "no such image")
		time.Sleep(time.Minute)
		must(t, stop())
		w.consistent()
		if n := strings.Count(w.compute.logText(), "failed"); n != 1 {
			t.Errorf("told %d times that it failed", n)
		}
		if said := w.compute.logText(); !strings.Contains(said[strings.Index(said, "claimed"):strings.Index(said, "failed")],
			"report free=4") {
			t.Errorf("compute heard of the failure before it heard of the free device: %s", said)
		}
	})
	scenario(t, "the hypervisor is unavailable for a while", func(t *testing.T, w *testHost) {
		var builds atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && builds.Add(1) < buildTries {
				return fault.New(fault.Unavailable, "test", "restarting")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the hypervisor stays unavailable", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Unavailable, "test", "no daemon")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "no daemon")
		w.consistent()
	})
	scenario(t, "the slow build of an unassigned guest is cancelled", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation == "build" {
				<-ctx.Done()
				return fault.Wrap(fault.Unavailable, "test", ctx.Err())
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "a vanished guest is built again with its devices", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, w.guests.Destroy(t.Context(), "s1"))
		w.until("it is back", func() bool { return slices.Equal(w.running(), []string{"s1"}) })
		time.Sleep(time.Minute)
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "an observation older than a guest is ignored", func(t *testing.T, w *testHost) {
		slow := make(chan struct{})
		var looks atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "capacity" && looks.Add(1) == 2 { // asked after the guests
				<-slow
			}
			return nil
		}
		_, stop := w.begin()
		time.Sleep(90 * time.Second)
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		close(slow)
		time.Sleep(10 * time.Second)
		must(t, stop())
		if n := strings.Count(w.compute.logText(), "s1 running"); n != 1 {
			t.Errorf("said %d times that it runs", n)
		}
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
		_, stop := w.begin()
		var all []host.Server
		for i := range 10 {
			all = append(all, w.want(fmt.Sprintf("s%d", i)))
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

func TestObservationFreesNothing(t *testing.T) {
	scenario(t, "a claim without guest waits for compute's confirmation", func(t *testing.T, w *testHost) {
		a, stop := w.begin()
		j, err := a.state.Devices().At(device.PCI(pci.Address{Bus: 0x3b, Func: 1}))
		if !err {
			t.Fatal("no device")
		}
		must(t, stop())
		book, fail := journal.Open(w.options.Dir)
		must(t, fail)
		set, claims, refusal := a.state.Devices().Claim("s9", pci.Request{ID: "r", Count: 1,
			Providers:   []resource.ProviderID{j.Provider},
			Requirement: pci.Requirement{Type: pci.Virtual}})
		if refusal != "" || set.Len() != 4 {
			t.Fatal(refusal)
		}
		must(t, book.Write(journal.Put("s9", claims)))
		must(t, book.Close())
		w.compute.muteStreams(true)
		_, stop = w.begin()
		time.Sleep(10 * time.Minute)
		if got := w.journalled().Servers(); !slices.Equal(got, []string{"s9"}) {
			t.Errorf("the journal has %v", got)
		}
		w.compute.muteStreams(false)
		w.untilPhase(host.Gone, "s9")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "a vanished device stays claimed, also in Placement", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.sysfs.remove("0000:3b:00.1")
		w.sysfs.remove("0000:3b:00.2")
		w.until("a note", func() bool { return strings.Contains(w.compute.conditions(), "0000:3b:00.1") })
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("%+v", p)
		}
		must(t, stop())
		_, stop = w.begin() // the journal alone knows the device now
		w.untilPhase(host.Running, "s1")
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("after the restart: %+v", p)
		}
		w.placement.remove("s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.until("the provider goes with its last holder", func() bool { return w.provider(name1).ID == "" })
		must(t, stop())
	})
	scenario(t, "an unreadable device is not gone", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.sysfs.makeUnreadable("0000:5e:00.1")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "0000:5e:00.1") })
		if p := w.provider(name2); p.Inventories[class].Total != 2 {
			t.Errorf("%+v", p)
		}
		w.sysfs.remove("0000:5e:00.1")
		w.until("it is gone", func() bool { return w.provider(name2).Inventories[class].Total == 1 })
		must(t, stop())
	})
	scenario(t, "an agent without a journal restores the claims of guests", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1, name2))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.forgetJournal()
		w.compute.assign(w.want("s1", name1, name2), w.want("s2", name1))
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.consistent("s1", "s2")
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	scenario(t, "the guest wins over a contradicting journal", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		book, err := journal.Open(w.options.Dir)
		must(t, err)
		claims, _ := book.State().Of("s1")
		must(t, book.Write(journal.Put("s2", claims)))
		must(t, book.Close())
		w.compute.assign(w.want("s1", name1), w.want("s2", name1))
		w.compute.muteStreams(true) // until compute sends assignments, s2 has no other device
		_, stop = w.begin()
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(), "0000:3b:00.1: the journal gives it to server s2")
		})
		w.compute.muteStreams(false)
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.consistent("s1", "s2")
	})
}

func TestWatch(t *testing.T) {
	scenario(t, "ended streams are opened again", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		for i := range 5 {
			id := fmt.Sprintf("s%d", i)
			w.compute.endStreams()
			w.compute.assign(w.want(id))
			w.untilPhase(host.Running, id)
		}
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n != 7 { // the first only asks for admission
			t.Errorf("%d streams", n)
		}
	})
	scenario(t, "a silent stream is closed after three heartbeats", func(t *testing.T, w *testHost) {
		w.compute.muteStreams(true)
		_, stop := w.begin()
		time.Sleep(10 * host.Heartbeat)
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n < 3 || n > 5 {
			t.Errorf("%d streams in ten heartbeats", n)
		}
	})
	scenario(t, "older assignments are not followed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1"))
		w.untilPhase(host.Running, "s1")
		w.compute.mu.Lock()
		w.compute.assignments.Revision = -5
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign(w.want("s2"))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "restored backup") })
		time.Sleep(5 * time.Minute)
		if w.compute.phase("s2") != "" || w.compute.lastReport().Behind == "" {
			t.Errorf("s2 is %q, the report says %q", w.compute.phase("s2"), w.compute.lastReport().Behind)
		}
		must(t, stop())
		w.consistent("s1")
		_, stop = w.begin() // and not after a restart of the agent
		time.Sleep(5 * time.Minute)
		w.compute.mu.Lock()
		w.compute.assignments.Revision = 7 // the newest database is back
		w.compute.mu.Unlock()
		w.compute.assign(w.want("s1"), w.want("s2"))
		w.untilPhase(host.Running, "s2")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
		w.consistent("s1", "s2")
	})
}

// A guest of the hypervisor holds a device that the journal does not have and device_spec no longer offers.
func TestUnknownDeviceOfAGuest(t *testing.T) {
	scenario(t, "it is held and does not prevent reporting", func(t *testing.T, w *testHost) {
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "s1",
			Devices: []hypervisor.Device{{ID: device.PCI(pci.Address{Bus: 9}), Request: "r"}}}))
		w.compute.assign(host.Server{ID: "s1"})
		_, stop := w.begin()
		w.untilPhase(host.Running, "s1")
		contains(t, w.compute.conditions(), "0000:09:00.0", "s1")
		must(t, stop())
		w.consistent("s1")
	})
}
