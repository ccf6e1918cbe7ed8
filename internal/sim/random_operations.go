package sim

import (
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// op is a kind of operation with its share.
type op struct {
	kind  string
	share int
	do    func(*World)
}

// ops returns all kinds of operations.
func ops() []op {
	return []op{
		{"step", 300, (*World).stepSome},
		{"agent", 560, (*World).agentSome},
		{"create", 45, (*World).createSome},
		{"action", 40, (*World).requestAction},
		{"delete", 12, (*World).removeSome},
		{"evacuate", 6, (*World).evacuate},
		{"restart", 6, (*World).restartSome},
		{"down", 3, (*World).downSome},
		{"up", 6, (*World).upSome},
		{"unplug", 4, (*World).unplugSome},
		{"plug", 6, (*World).plugSome},
		{"rules", 2, (*World).ruleSome},
		{"clean", 5, (*World).cleanSome},
		{"foreign", 5, (*World).foreignClient},
		{"late", 8, (*World).arrive},
		{"audit", 25, (*World).auditSome},
		{"steal", 1, (*World).stealAllocation},
		{"operator", 8, (*World).operatorSome},
		{RestartCompute, 1, (*World).restartCompute},
		{Backup, 1, (*World).backupSome},
		{Restore, 1, (*World).restoreSome},
		{Copy, 1, (*World).copySome},
		{Replace, 1, (*World).replaceSome},
		{Jump, 1, (*World).jumpSome},
		{Lose, 1, (*World).loseSome},
		{Forget, 1, (*World).forgetSome},
	}
}

// shares is the sum of the shares of all kinds of operations.
const shares = 1050

func kindsOfOps() (list []string) {
	for _, o := range ops() {
		if o.kind != "step" && o.kind != "agent" {
			list = append(list, o.kind)
		}
	}
	return list
}

// operate does one operation. If the drawn one is not possible now, another one is drawn.
func (w *World) operate() {
	before := w.noted
	for range 8 {
		n := w.drawOp()
		for _, o := range ops() {
			if n -= o.share; n < 0 {
				if !slices.Contains(w.o.Without, o.kind) {
					o.do(w)
				}
				break
			}
		}
		w.restartEnded()
		if w.noted != before {
			return
		}
	}
}

// often is the kind of operation that is done more often, so that what is broken on purpose has consequences soon.
var often = map[string]string{Demolish: Restore, Ungated: Restore, WallClock: Jump}

// drawOp selects an operation at random, as a number below shares.
func (w *World) drawOp() int {
	every := 120
	if w.broken == Demolish { // agents must have the time to follow a restored database
		every = 1500
	}
	if kind := often[w.broken]; kind != "" && w.oneIn(every) {
		n := 0
		for _, o := range ops() {
			if o.kind == kind {
				return n
			}
			n += o.share
		}
	}
	return w.rng.IntN(shares)
}

func (w *World) some() *simHost { return w.hosts[w.rng.IntN(len(w.hosts))] }

// stepSome has compute perform the step of a random server.
func (w *World) stepSome() {
	if due := w.compute.due.list; len(due) > 0 {
		id := due[w.rng.IntN(len(due))]
		s := w.compute.servers[id]
		w.note("step", id, s.Host, s.Stage())
		w.compute.perform(id)
	}
}

// auditSome has compute perform the audits that are due.
func (w *World) auditSome() {
	for audited := false; ; audited = true {
		if !w.compute.conductor.AuditNext(background) {
			if audited {
				w.note("audit", "", "", "")
			}
			return
		}
	}
}

// agentSome has a random agent do something that is due.
func (w *World) agentSome() {
	for range 4 {
		if len(w.active.list) == 0 {
			return
		}
		m := w.byTag[w.active.list[w.rng.IntN(len(w.active.list))]]
		if w.act(m) {
			return
		}
		w.active.drop(m.tag)
	}
}

func (w *World) createSome() {
	if len(w.compute.ids.list) < 2*len(w.hosts) {
		w.create()
	} else {
		w.removeSome()
	}
}

func (w *World) removeSome() {
	if ids := w.compute.ids.list; len(ids) > 0 {
		w.remove(ids[w.rng.IntN(len(ids))])
	}
}

// restartSome kills an agent and starts it again, sometimes after a reboot of the host.
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
	if m.cut || m.host.row.dead {
		return
	}
	w.note("restart", "", m.tag, "")
	w.crash(m)
	if w.rng.IntN(4) == 0 {
		m.boot++
	}
	w.start(m)
}

// downSome ends an agent or cuts its host off. An operator may declare a host dead that has been away for a while.
func (w *World) downSome() {
	m, down := w.some(), 0
	w.compute.reconcileDead()
	for _, o := range w.hosts {
		if o.agent == nil || o.cut {
			down++
		}
	}
	if down > len(w.hosts)/10 {
		return
	}
	text := "silent"
	if m.agent != nil && !m.cut {
		if w.halfTheTime() {
			w.disconnect(m)
			m.cut, text = true, "cut off"
		} else {
			w.crash(m)
		}
	} else if !m.host.row.dead && w.away(m) > far/4 {
		w.declareDead(m)
		text = "dead"
	}
	w.note("down", "", m.tag, text)
}

func (w *World) halfTheTime() bool { return w.rng.IntN(2) == 0 }

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

// mayHaveGuests notes that guests may exist on a dead host.
func (w *World) mayHaveGuests(m *simHost) {
	for _, o := range w.machines(m.name) {
		o.zombie = true
	}
}

// upSome brings a host back, with its journal.
func (w *World) upSome() {
	for _, m := range w.hosts {
		if (m.agent == nil || m.cut) && w.away(m) > far/8 && w.rng.IntN(3) == 0 {
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
	m.cut = false
	w.mark(m)
	if m.agent == nil {
		w.start(m)
	} else {
		w.changed(m)
	}
}

// unplugSome unplugs a device, or the VFs of a PF too.
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
	w.note("unplug", "", m.tag, d.Address.String())
	w.changed(m)
}

func (w *World) plugSome() {
	m := w.some()
	for _, d := range m.made {
		if m.away[d.Address] {
			w.note("plug", "", m.tag, d.Address.String())
			delete(m.away, d.Address)
			w.changed(m)
			return
		}
	}
}

// changed reports to the agent that the devices of its host have changed, as the kernel does.
func (w *World) changed(m *simHost) {
	if m.agent != nil && w.broken != Unlooked {
		w.event(m, reconcile.DevicesChanged{})
	}
	w.mark(m)
}

// ruleSome changes the configuration of a host and restarts its agent.
func (w *World) ruleSome() {
	m := w.some()
	if m.agent == nil || m.cut {
		return
	}
	if m.rule = w.rng.IntN(usualRules); w.rng.IntN(2) == 0 {
		m.rule = 0
	}
	w.note("rules", "", m.tag, m.rules[m.rule][0].String())
	w.crash(m)
	w.start(m)
}

// cleanSome requests that a device for one-time use is cleaned.
func (w *World) cleanSome() {
	for range 6 {
		m := w.some()
		for _, d := range m.host.row.report.Devices {
			if w.requestClean(m, d) {
				return
			}
		}
	}
}

// requestClean is `berth device clean`: it refuses devices that need not be cleaned, or that a server has.
func (w *World) requestClean(m *simHost, d schedule.Device) bool {
	if !d.Spent || d.Holder != "" {
		return false
	}
	row := m.host.row
	if row.cleans == nil {
		row.cleans = map[pci.Address]time.Time{}
	}
	row.cleans[d.Address] = beginning().Add(w.clock)
	w.note("clean", "", m.tag, d.Address.String())
	w.compute.raiseRevision(m.host)
	return true
}

// arrive lets what an agent said long ago arrive.
func (w *World) arrive() {
	if len(w.delayed) == 0 {
		return
	}
	i := w.rng.IntN(len(w.delayed))
	l := w.delayed[i]
	w.delayed = slices.Delete(w.delayed, i, i+1)
	if l.e.Number <= w.compute.servers[w.compute.owners[l.id]].Latest(l.e.Host, l.e.Instance) {
		w.report.Happened["out of order"]++
	}
	w.note("late", l.id, l.from.tag, "")
	_ = w.compute.reportGuest(l.id, l.start, l.e)
}
