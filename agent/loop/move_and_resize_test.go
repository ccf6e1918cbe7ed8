package loop

import (
	"maps"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

// The devices of a server at the source of a move belong to the migration, and to the server again after a revert.
func TestMoves(t *testing.T) {
	scenario(t, "moved, reverted, moved again and confirmed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1, name2)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.holders()
		w.forbid("destroy")
		m := poweredOff(w.moved(s, "m1"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m1")
		if g := w.guest("m1"); !g.Stopped || g.Server != "s1" || len(w.holders()) != 2 || w.guest("s1").ID != "" {
			t.Errorf("%+v %v", g, w.holders())
		}
		w.checkConsistent("m1")
		w.compute.forget()
		back := poweredOn(w.moved(m, "s1"))
		w.compute.assign(back)
		w.untilPhase(host.Running, "s1") // reported again
		if !maps.Equal(w.holders(), was) {
			t.Errorf("%v, before %v", w.holders(), was)
		}
		w.checkConsistent("s1")
		m = poweredOff(w.moved(back, "m2"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m2")
		w.guests.Fail = nil
		w.compute.assign()
		w.untilPhase(host.Gone, "m2")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "resized on the same host, reverted", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
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
		w.checkConsistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "resized on the same host, confirmed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		_, _, resized := w.resize()
		w.compute.assign(resized)
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.checkConsistent("s1")
		if got := w.holders(); len(got) != 2 || got["0000:3b:00.1"] != "" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "a rename from an unknown id claims devices again, and none of a later server with "+
		"that id", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		m := poweredOff(w.moved(s, "m1"))
		w.compute.assign(m, w.server("s1", name2))
		w.untilPhase(host.Stopped, "m1")
		w.untilPhase(host.Running, "s1")
		w.compute.assign(m, w.server("s1", name2), w.server("s3"))
		w.untilPhase(host.Running, "s3")
		must(t, stop())
		_, stop = w.startReported()
		time.Sleep(time.Minute)
		must(t, stop())
		w.checkConsistent("m1", "s1", "s3")
		if got := w.holders(); got["0000:3b:00.1"] != "m1" || got["0000:5e:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "a rename is forgotten when the assignments no longer mention it", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := poweredOff(w.moved(s, "m1"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m1")
		m.PreviousID = ""
		w.compute.assign(m)
		w.until("it is forgotten", func() bool { return len(w.journalled().Renames()) == 0 })
		must(t, stop())
		w.checkConsistent("m1")
	})
}

// resize runs s1 with one device of the first PF, then resizes it to two devices of the second, while m1 keeps the
// guest of the source.
func (w *testHost) resize() (s, m, resized host.Server) {
	w.t.Helper()
	s = w.server("s1", name1)
	w.compute.assign(s)
	w.untilPhase(host.Running, "s1")
	m = poweredOff(w.moved(s, "m1"))
	resized = w.server("s1", name2, name2)
	resized.Requests[0].ID = "r-new"
	w.compute.forget()
	w.compute.assign(m, resized)
	w.untilPhase(host.Stopped, "m1")
	w.untilPhase(host.Running, "s1")
	w.checkConsistent("m1", "s1")
	return s, m, resized
}

// revert returns the assignment of s after a resize on the same host was reverted.
func (w *testHost) revert(s, m host.Server) host.Server {
	w.placement.move("m1", "s1")
	s.PreviousID = m.ID
	return s
}

// revertResize reverts a resize on the same host, as compute does: the guest of the destination is removed first.
func (w *testHost) revertResize(s, m host.Server) {
	w.t.Helper()
	w.compute.assign(m)
	w.untilPhase(host.Gone, s.ID)
	w.compute.forget()
	w.compute.assign(w.revert(s, m))
	w.untilPhase(host.Running, s.ID)
}
