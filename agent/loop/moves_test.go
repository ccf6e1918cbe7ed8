package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// moved returns a server under another id, and moves its allocation in Placement.
func (w *testHost) moved(s host.Server, id string) host.Server {
	w.placement.move(resource.ConsumerID(s.ID), resource.ConsumerID(id))
	s.ID, s.Server, s.PreviousID = id, "s1", s.ID
	if s.Server == s.ID {
		s.Server = ""
	}
	return s
}

// off returns the server with power off.
func off(s host.Server) host.Server { s.Power = host.Off; return s }

// on returns the server with power on.
func on(s host.Server) host.Server { s.Power = ""; return s }

// guest returns a guest of the hypervisor.
func (w *testHost) guest(id string) hypervisor.Guest {
	w.t.Helper()
	guests, err := w.guests.Guests(w.t.Context())
	must(w.t, err)
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	if i < 0 {
		return hypervisor.Guest{}
	}
	return guests[i]
}

// never fails the test when the hypervisor is asked to do this.
func (w *testHost) never(operations ...string) {
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		if slices.Contains(operations, operation) {
			w.t.Errorf("%s %s", operation, guest)
		}
		return nil
	}
}

func TestPower(t *testing.T) {
	scenario(t, "stop and start keep the devices", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.never("destroy")
		w.compute.assign(off(s))
		w.untilPhase(host.Stopped, "s1")
		if !w.guest("s1").Stopped || !maps.Equal(w.holders(), was) || len(w.compute.guest("s1").Devices) != 1 {
			t.Errorf("%+v", w.guest("s1"))
		}
		must(t, stop())
		w.compute.forget()
		_, stop = w.begin()
		w.untilPhase(host.Stopped, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		if w.guest("s1").Stopped || !maps.Equal(w.holders(), was) {
			t.Errorf("%+v", w.guest("s1"))
		}
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "a rebuild keeps the devices and is reported with its number", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.never("destroy")
		s.Build = 1
		w.compute.assign(s)
		w.until("it is built anew", func() bool { return w.compute.guest("s1").Build == 1 })
		if g := w.guest("s1"); g.Build != 1 || !maps.Equal(w.holders(), was) {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "a guest that cannot be started keeps its devices, and a repeated request tries again",
		func(t *testing.T, w *testHost) {
			_, stop := w.begin()
			s := w.want("s1", name1)
			w.compute.assign(off(s))
			w.untilPhase(host.Stopped, "s1")
			broken := make(chan struct{})
			w.guests.Fail = func(_ context.Context, operation, _ string) error {
				select {
				case <-broken:
					return nil
				default:
				}
				if operation == "build" {
					return fault.New(fault.Internal, "test", "no such firmware")
				}
				return nil
			}
			w.compute.assign(s)
			w.untilPhase(host.Refused, "s1")
			if g := w.compute.guest("s1"); len(w.holders()) != 1 || g.Power != host.Off || g.Message != "no such firmware" {
				t.Errorf("%v %+v", w.holders(), g)
			}
			w.compute.assign(off(s)) // as compute does then
			w.untilPhase(host.Stopped, "s1")
			close(broken)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			w.consistent("s1")
		})
}

// Of a server that leaves, the source's devices go over to the migration, and come back with a revert.
func TestMoves(t *testing.T) {
	scenario(t, "moved, reverted, moved again and confirmed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1, name2)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.never("destroy")
		m := off(w.moved(s, "m1"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m1")
		if g := w.guest("m1"); !g.Stopped || g.Server != "s1" || len(w.holders()) != 2 || w.guest("s1").ID != "" {
			t.Errorf("%+v %v", g, w.holders())
		}
		w.consistent("m1")
		w.compute.forget()
		back := on(w.moved(m, "s1"))
		w.compute.assign(back)
		w.untilPhase(host.Running, "s1") // told anew
		if !maps.Equal(w.holders(), was) {
			t.Errorf("%v, before %v", w.holders(), was)
		}
		w.consistent("s1")
		m = off(w.moved(back, "m2"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m2")
		w.guests.Fail = nil
		w.compute.assign()
		w.untilPhase(host.Gone, "m2")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "resized on the same host, reverted", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s, m, resized := w.resize()
		if got := w.holders(); got["0000:3b:00.1"] != "m1" || got["0000:5e:00.1"] != "s1" || got["0000:5e:00.2"] != "s1" {
			t.Errorf("%v", got)
		}
		w.compute.assign(m, resized)
		time.Sleep(5 * time.Minute) // nothing is healed meanwhile
		if len(w.placement.Held("m1")) != 2 || w.placement.Held("s1")[w.provider(name1).ID] != nil {
			t.Errorf("%v", w.placement.all())
		}
		w.revertResize(s, m)
		must(t, stop())
		w.consistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "resized on the same host, confirmed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		_, _, resized := w.resize()
		w.compute.assign(resized)
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.consistent("s1")
		if got := w.holders(); len(got) != 2 || got["0000:3b:00.1"] != "" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "a rename from an unknown id claims again, and takes nothing from a later server of "+
		"that id", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		m := off(w.moved(s, "m1"))
		w.compute.assign(m, w.want("s1", name2))
		w.untilPhase(host.Stopped, "m1")
		w.untilPhase(host.Running, "s1")
		w.compute.assign(m, w.want("s1", name2), w.want("s3"))
		w.untilPhase(host.Running, "s3")
		must(t, stop())
		_, stop = w.begin()
		time.Sleep(time.Minute)
		must(t, stop())
		w.consistent("m1", "s1", "s3")
		if got := w.holders(); got["0000:3b:00.1"] != "m1" || got["0000:5e:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "a rename is forgotten when the assignments no longer mention it", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := off(w.moved(s, "m1"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m1")
		m.PreviousID = ""
		w.compute.assign(m)
		w.until("it is forgotten", func() bool { return len(w.journalled().Renames()) == 0 })
		must(t, stop())
		w.consistent("m1")
	})
}

// resize makes s1 run with one device of the first PF, then as resized with two of the second, while m1 keeps the
// source.
func (w *testHost) resize() (s, m, resized host.Server) {
	w.t.Helper()
	s = w.want("s1", name1)
	w.compute.assign(s)
	w.untilPhase(host.Running, "s1")
	m = off(w.moved(s, "m1"))
	resized = w.want("s1", name2, name2)
	resized.Requests[0].ID = "r-new"
	w.compute.forget()
	w.compute.assign(m, resized)
	w.untilPhase(host.Stopped, "m1")
	w.untilPhase(host.Running, "s1")
	w.consistent("m1", "s1")
	return s, m, resized
}

// revert is what compute wants after a revert on the same host.
func (w *testHost) revert(s, m host.Server) host.Server {
	w.placement.move("m1", "s1")
	s.PreviousID = m.ID
	return s
}

// After a crash at any call while a server is resized on its host and reverted, the final state is the same.
func TestCrashDuringMove(t *testing.T) {
	const most = 200
	for _, after := range []bool{false, true} {
		at, reached := 1, true
		for ; reached && at < most; at += testenv.Stride(7) {
			ok := t.Run(fmt.Sprintf("call %d after=%v", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newTestHost(t)
					_, stop := w.begin()
					s := w.want("s1", name1)
					w.compute.assign(s)
					w.untilPhase(host.Running, "s1")
					must(t, stop())
					deaths, first := crashOnce(at, after)
					m := off(w.moved(s, "m1"))
					resized := w.want("s1", name2, name2)
					resized.Requests[0].ID = "r-new"
					w.compute.forget()
					w.compute.assign(m, resized)
					w.runAgents(func() bool { return w.are(host.Stopped, "m1") && w.are(host.Running, "s1") }, deaths)
					w.consistent("m1", "s1")
					w.compute.assign(m)
					w.runAgents(func() bool { return w.are(host.Gone, "s1") }, deaths)
					w.compute.forget()
					w.compute.assign(w.revert(s, m))
					w.runAgents(func() bool { return w.are(host.Running, "s1") }, deaths)
					w.consistent("s1")
					if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
						t.Errorf("%v", got)
					}
					reached = first.dead
				})
			})
			if !ok {
				return
			}
		}
		if at < 30 || at >= most {
			t.Errorf("the story has %d calls", at)
		}
	}
}

// A guest leaves device by device, or stays.
func TestLiveMigration(t *testing.T) {
	outgoing := func(s host.Server) host.Server {
		s.Outgoing = &host.Outgoing{Host: "cmp2", Devices: map[string]string{"0000:3b:00.1": "0000:88:00.3"}}
		return s
	}
	scenario(t, "the source: departed, then gone", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		w.never("destroy")
		w.compute.assign(outgoing(w.moved(s, "m1")))
		w.untilPhase(host.Departed, "m1")
		if g := w.guest("m1"); !g.Departed || len(w.journalled().Claims()) != 1 {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.compute.forget()
		_, stop = w.begin()
		w.untilPhase(host.Departed, "m1") // said again, and not migrated again
		w.guests.Fail = nil
		w.compute.assign()
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "the source: a guest that cannot be migrated runs on", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "migrate" {
				return fault.New(fault.Internal, "test", "the firmware says no")
			}
			return nil
		}
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(outgoing(m))
		w.untilPhase(host.Failed, "m1")
		contains(t, w.compute.guest("m1").Message, "cmp2", "the firmware says no")
		time.Sleep(time.Minute)
		if n := strings.Count(w.compute.logText(), "m1 failed"); n != 1 {
			t.Errorf("said %d times", n)
		}
		w.compute.assign(w.moved(m, "s1"))
		w.until("it runs as before", func() bool { return w.guest("s1").ID == "s1" && w.compute.phase("s1") == host.Running })
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the source: assigned here again after it has departed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(outgoing(m))
		w.untilPhase(host.Departed, "m1")
		w.compute.forget()
		w.compute.assign(w.moved(m, "s1"))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the destination: claimed first, built when powered on", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.never("build")
		s := w.want("s1", name1)
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		time.Sleep(3 * time.Minute)
		must(t, stop())
		w.compute.forget()
		_, stop = w.begin()
		w.untilPhase(host.Claimed, "s1")
		if got := w.compute.guest("s1"); len(got.Devices) != 1 || got.Devices[0].Address != "0000:3b:00.1" {
			t.Errorf("%+v", got)
		}
		w.guests.Fail = nil
		s.Incoming = false
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the destination: cancelled before the guest arrived", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.never("build")
		s := w.want("s1", name1)
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
}

// goBack reverts a resize on the same host, as compute does: what is at the destination goes first.
func (w *testHost) revertResize(s, m host.Server) {
	w.t.Helper()
	w.compute.assign(m)
	w.untilPhase(host.Gone, s.ID)
	w.compute.forget()
	w.compute.assign(w.revert(s, m))
	w.untilPhase(host.Running, s.ID)
}

func TestCloud(t *testing.T) {
	scenario(t, "assignments of another cloud end no guest until they are adopted", func(t *testing.T, w *testHost) {
		w.compute.assignments.Cloud = "c1"
		a, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		if id, _ := w.journalled().Identity(); id.Cloud != "c1" {
			t.Errorf("%+v", id)
		}
		w.compute.setCloud("c2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent adopt") })
		time.Sleep(5 * time.Minute)
		w.consistent("s1")
		if err := a.Adopt(); !fault.Is(err, fault.Conflict) {
			t.Errorf("adopted beside the running agent: %v", err)
		}
		must(t, stop())
		must(t, a.Adopt())
		_, stop = w.begin()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		time.Sleep(5 * time.Minute)
		must(t, stop())
		w.consistent("s1")
		if id, _ := w.journalled().Identity(); id.Cloud != "c2" || id.Instance != a.Report().Instance {
			t.Errorf("%+v", id)
		}
	})
}

// become is a compute with an empty database of its own.
func (o *fakeCompute) setCloud(cloud string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.assignments = host.Assignments{Cloud: cloud, Position: host.Position{Revision: 1}}
	o.wake()
}

// A hypervisor that cannot rename while compute changes its mind.
func TestSlowRename(t *testing.T) {
	stuck := func(w *testHost) *atomic.Bool {
		var away atomic.Bool
		away.Store(true)
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if away.Load() && operation == "rename" {
				return fault.New(fault.Unavailable, "test", "busy")
			}
			return nil
		}
		return &away
	}
	scenario(t, "the move is confirmed, and the server is here again", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		away := stuck(w)
		m := off(w.moved(s, "m1"))
		resized := w.want("s1", name2)
		resized.Requests[0].ID = "r-new"
		w.compute.forget()
		w.compute.assign(m, resized)
		w.until("the first half is done", func() bool { return len(w.journalled().Renames()) == 1 })
		w.compute.assign(resized)
		time.Sleep(time.Minute)
		if w.compute.phase("s1") != "" {
			t.Errorf("told of s1: %+v", w.compute.guest("s1"))
		}
		away.Store(false)
		w.untilPhase(host.Gone, "m1")
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:5e:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "the move is reverted", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		away := stuck(w)
		m := off(w.moved(s, "m1"))
		w.compute.forget()
		w.compute.assign(m)
		w.until("the first half is done", func() bool { return len(w.journalled().Renames()) == 1 })
		must(t, stop())
		w.compute.assign(w.revert(s, m))
		_, stop = w.begin()
		time.Sleep(time.Minute)
		away.Store(false)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
}

// The journal was written before an agent crashed between the two parts of a rename.
func TestInterruptedRename(t *testing.T) {
	scenario(t, "the guest still has its old id", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		book, err := journal.Open(w.options.Dir)
		must(t, err)
		must(t, book.Write(journal.Renamed("s1", "m1", false)))
		must(t, book.Close())
		w.never("destroy", "build")
		w.compute.assign(w.moved(s, "m1"))
		_, stop = w.begin()
		w.untilPhase(host.Running, "m1")
		must(t, stop())
		w.consistent("m1")
	})
}

// interruptRename stops the agent and journals an unfinished rename of the guest.
func (w *testHost) interruptRename(stop func() error, was, id string) {
	w.t.Helper()
	must(w.t, stop())
	book, err := journal.Open(w.options.Dir)
	must(w.t, err)
	must(w.t, book.Write(journal.Renamed(was, id, false)))
	must(w.t, book.Close())
}

// A started rename is finished also when the assignments have changed meanwhile. The guest must neither be forgotten
// nor lose its devices.
func TestInterruptedRenameNoLongerAssigned(t *testing.T) {
	scenario(t, "the guest is to be removed under its old id, which it still has", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(m)
		w.untilPhase(host.Running, "m1")
		w.interruptRename(stop, "m1", "s1")
		w.compute.mu.Lock()
		w.compute.remove["m1"] = host.Removal{ID: "m1", PreviousID: "s1"}
		w.compute.next(nil)
		w.compute.mu.Unlock()
		_, stop = w.begin()
		w.untilPhase(host.Gone, "m1")
		if got := w.holders(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		must(t, stop())
		w.consistent()
	})
	scenario(t, "the assignments mention neither id", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.interruptRename(stop, "s1", "m1")
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		w.never("destroy")
		_, stop = w.begin()
		w.until("the guest is reported as unassigned, with its server", func() bool {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			return slices.Equal(w.compute.report.Guests, []host.Present{{ID: "m1", Server: "s1"}})
		})
		must(t, stop())
		w.consistent("m1")
	})
	scenario(t, "the server is assigned under the new id without a former one", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(m)
		w.untilPhase(host.Running, "m1")
		w.interruptRename(stop, "m1", "s1")
		back := w.moved(m, "s1")
		back.PreviousID = ""
		w.compute.assign(back)
		w.compute.mu.Lock()
		w.compute.remove = map[string]host.Removal{}
		w.compute.next(w.compute.assignments.Servers)
		w.compute.mu.Unlock()
		w.never("destroy", "build")
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
}
