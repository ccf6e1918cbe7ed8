package sim

import (
	"iter"
	"maps"
	"slices"

	"github.com/openberth/berth/pci"
)

func mapsKeys[M ~map[K]V, K comparable, V any](m M) iter.Seq[K] { return maps.Keys(m) }

// op is a kind of operation with its share.
type op struct {
	kind  string
	share int
	do    func(*World)
}

// ops are all kinds of operations.
func ops() []op {
	return []op{
		{"step", 300, (*World).stepSome},
		{"agent", 560, (*World).agentSome},
		{"create", 45, (*World).createSome},
		{"wish", 40, (*World).wish},
		{"delete", 12, (*World).removeSome},
		{"evacuate", 6, (*World).evacuate},
		{"restart", 6, (*World).restartSome},
		{"down", 3, (*World).downSome},
		{"up", 6, (*World).upSome},
		{"unplug", 4, (*World).unplugSome},
		{"plug", 6, (*World).plugSome},
		{"rules", 2, (*World).ruleSome},
		{"clean", 5, (*World).cleanSome},
		{"foreign", 5, (*World).other},
		{"late", 8, (*World).arrive},
		{"rob", 1, (*World).rob},
	}
}

func kindsOfOps() (list []string) {
	for _, o := range ops() {
		if o.kind != "step" && o.kind != "agent" {
			list = append(list, o.kind)
		}
	}
	return list
}

// operate does one operation. What cannot be done now is let go, and another is tried; some operation is done each time.
func (w *World) operate() {
	before := len(w.log)
	for range 8 {
		n := w.rng.IntN(1009)
		for _, o := range ops() {
			if n -= o.share; n < 0 {
				if !slices.Contains(w.o.Without, o.kind) {
					o.do(w)
				}
				break
			}
		}
		if len(w.log) != before {
			return
		}
	}
}

func (w *World) some() *machine { return w.hosts[w.rng.IntN(len(w.hosts))] }

// stepSome lets compute do a step of some server.
func (w *World) stepSome() {
	if due := w.office.due.list; len(due) > 0 {
		id := due[w.rng.IntN(len(due))]
		s := w.office.servers[id]
		w.note("step", id, s.Host, string(s.State))
		w.office.perform(id)
	}
}

// agentSome lets some agent do something that is due.
func (w *World) agentSome() {
	for range 4 {
		if len(w.hot.list) == 0 {
			return
		}
		m := w.byName[w.hot.list[w.rng.IntN(len(w.hot.list))]]
		if w.act(m) {
			w.mark(m)
			return
		}
		w.hot.drop(m.name)
	}
}

// act lets an agent do one thing, if there is one to do.
func (w *World) act(m *machine) bool {
	a := m.agent
	if a == nil || m.cut {
		return false
	}
	if !a.restored {
		w.note("sync", "", m.name, "first")
		_ = w.sync(m)
		return true
	}
	first := w.rng.IntN(4)
	for i := range 4 {
		switch (first + i) % 4 {
		case 0:
			if !a.heard || a.rev != m.rev {
				w.note("hear", "", m.name, "")
				w.hear(m)
				return true
			}
		case 1:
			if due := m.due(); len(due) > 0 {
				id := due[w.rng.IntN(len(due))]
				err := w.work(m, id)
				text := "done"
				if err != nil {
					text = err.Error()
				}
				w.note("work", id, m.name, text)
				return true
			}
		case 2:
			if a.look && w.broken != Unlooked {
				w.note("sync", "", m.name, "")
				_ = w.sync(m)
				return true
			}
		case 3:
			if m.behind {
				w.note("report", "", m.name, "")
				_ = w.send(m)
				return true
			}
		}
	}
	return false
}

func (w *World) createSome() {
	if len(w.office.ids.list) < 2*len(w.hosts) {
		w.create()
	} else {
		w.removeSome()
	}
}

func (w *World) removeSome() {
	if ids := w.office.ids.list; len(ids) > 0 {
		w.remove(ids[w.rng.IntN(len(ids))])
	}
}

// restartSome kills an agent and begins another.
func (w *World) restartSome() {
	m := w.some()
	if w.rng.IntN(2) == 0 {
		for _, o := range w.hosts {
			if o.agent == nil && !o.dead {
				m = o
				break
			}
		}
	}
	if m.cut || m.dead {
		return
	}
	w.note("restart", "", m.name, "")
	w.halt(m)
	w.mark(m)
	_ = w.start(m)
}

// downSome takes a host away: its agent ends, or nobody hears it. An operator may say that it is dead.
func (w *World) downSome() {
	m, down := w.some(), 0
	for _, o := range w.hosts {
		if o.dead { // compute tells it again and again
			w.office.bury(o)
		}
		if o.agent == nil || o.cut {
			down++
		}
	}
	if down > len(w.hosts)/10 {
		return
	}
	text := "silent"
	if m.agent != nil && !m.cut {
		m.seen = w.now
		if w.rng.IntN(2) == 0 {
			m.cut, text = true, "cut off"
		} else {
			w.halt(m)
		}
	} else if !m.dead && w.now.Sub(m.seen) > far/4 {
		m.dead, m.zombie, text = true, true, "dead"
	}
	w.note("down", "", m.name, text)
	if m.dead {
		w.office.bury(m)
	}
}

// upSome brings a host back, with its journal.
func (w *World) upSome() {
	for _, m := range w.hosts {
		if (m.agent == nil || m.cut) && w.now.Sub(m.seen) > far/8 && w.rng.IntN(3) == 0 {
			if w.rng.IntN(4) == 0 && !m.dead {
				m.dead, m.zombie = true, true
				w.note("dead", "", m.name, "")
				w.office.bury(m)
				return
			}
			w.bring(m)
			return
		}
	}
}

// bring brings a host back.
func (w *World) bring(m *machine) {
	w.note("up", "", m.name, "")
	m.dead, m.cut = false, false
	w.mark(m)
	if m.agent == nil {
		_ = w.start(m)
	} else {
		m.agent.look, m.behind = true, true
	}
}

// unplugSome takes a device away, or all VFs of a PF.
func (w *World) unplugSome() {
	m := w.some()
	if len(m.away) > 3 || len(m.made) == 0 {
		return
	}
	d := m.made[w.rng.IntN(len(m.made))]
	for _, o := range m.made {
		if o.Address == d.Address || o.Parent != nil && *o.Parent == d.Holder() && d.Type != pci.Plain && w.rng.IntN(2) == 0 {
			m.away[o.Address] = true
		}
	}
	w.note("unplug", "", m.name, d.Address.String())
	w.changed(m)
}

func (w *World) plugSome() {
	m := w.some()
	for _, d := range m.made {
		if m.away[d.Address] {
			w.note("plug", "", m.name, d.Address.String())
			delete(m.away, d.Address)
			w.changed(m)
			return
		}
	}
}

// changed notes that a host is another, as the kernel tells its agent.
func (w *World) changed(m *machine) {
	if m.agent != nil {
		m.agent.look = true
	}
	w.mark(m)
}

// ruleSome configures a host otherwise and restarts its agent.
func (w *World) ruleSome() {
	m := w.some()
	if m.agent == nil || m.cut {
		return
	}
	if m.rule = w.rng.IntN(len(m.rules)); w.rng.IntN(2) == 0 {
		m.rule = 0
	}
	w.note("rules", "", m.name, m.rules[m.rule][0].String())
	w.halt(m)
	w.mark(m)
	_ = w.start(m)
}

// cleanSome gives a device for one-time use back.
func (w *World) cleanSome() {
	for range 6 {
		m := w.some()
		if m.agent == nil || m.cut || !m.agent.restored {
			continue
		}
		for _, at := range slices.SortedFunc(maps.Keys(m.book.spent), pci.Address.Compare) {
			if w.clean(m, at) {
				w.note("clean", "", m.name, at.String())
				w.mark(m)
				return
			}
		}
	}
}

// arrive lets what an agent said long ago arrive.
func (w *World) arrive() {
	if len(w.late) == 0 {
		return
	}
	i := w.rng.IntN(len(w.late))
	l := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	if l.e.Number <= w.office.servers[w.office.owners[l.id]].Latest(l.from.name, l.from.name) {
		w.report.Happened["out of order"]++
	}
	w.note("late", l.id, l.from.name, "")
	w.office.guest(l.id, l.e)
}
