package sim

import (
	"slices"
	"time"
)

// far limits how long a host is away.
const far = 20 * time.Minute

// restartSome kills an agent and starts it again, as after a reboot of the host.
func (w *World) restartSome() {
	m := w.some()
	if w.rng.IntN(2) == 0 {
		for _, o := range slices.Concat(w.copies, w.hosts) {
			if o.agent == nil && !o.host.row.dead {
				m = o
				break
			}
		}
	}
	if m.cut || m.frozen || m.host.row.dead {
		return
	}
	w.note("restart", "", m.tag, "")
	w.crash(m)
	w.start(m)
}

// downSome ends an agent or cuts its host off. An operator may declare a host dead that has been away for a while.
func (w *World) downSome() {
	m, down := w.some(), 0
	w.compute.reconcileDead()
	for _, o := range w.hosts {
		if o.agent == nil || o.cut || o.frozen {
			down++
		}
	}
	if down > len(w.hosts)/10 {
		return
	}
	text := "silent"
	if m.agent != nil && !m.cut && !m.frozen {
		switch w.rng.IntN(3) {
		case 0:
			w.disconnect(m)
			m.cut, text = true, "cut off"
		case 1:
			m.frozen, text = true, "frozen"
			w.report.Happened["agent frozen"]++
		default:
			w.crash(m)
		}
	} else if !m.host.row.dead && w.away(m) > far/4 {
		w.declareDead(m)
		text = "dead"
	}
	w.note("down", "", m.tag, text)
}

// checkFollowed lets compute compare the assignments of all hosts with what their agents have followed.
func (w *World) checkFollowed() {
	w.note("unfollowed", "", "", "")
	_ = w.compute.conductor.CheckAssignments(background)
}

// away returns how long compute has had no sign of life of a host.
func (w *World) away(m *simHost) time.Duration {
	if w.compute.servedBy(m.host) != nil {
		return 0
	}
	return w.clock - m.host.sign
}

// declareDead has an operator declare a host dead. Its guests may exist.
func (w *World) declareDead(m *simHost) {
	if w.compute.hostDown(m.host) {
		w.mayHaveGuests(m)
	}
}

// upSome brings a host back, with its journal.
func (w *World) upSome() {
	for _, m := range w.hosts {
		if (m.agent == nil || m.cut || m.frozen) && w.away(m) > far/8 && w.rng.IntN(3) == 0 {
			if w.rng.IntN(4) == 0 && !m.host.row.dead {
				w.declareDead(m)
				w.note("dead", "", m.tag, "")
				return
			}
			w.bringUp(m)
			return
		}
	}
}

// bringUp ends the outage of a host.
func (w *World) bringUp(m *simHost) {
	w.note("up", "", m.tag, "")
	if !w.compute.hostUp(m.host) {
		return
	}
	m.cut, m.frozen = false, false
	w.mark(m)
	if m.agent == nil {
		w.start(m)
	} else {
		w.changed(m)
	}
}
