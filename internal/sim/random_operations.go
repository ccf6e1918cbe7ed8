package sim

import (
	"slices"
)

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
		{"unfollowed", 6, (*World).checkFollowed},
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
		{Ports, portShare - 8, (*World).changePort}, // the last ones, see shares
		{Policy, 8, (*World).changePolicy},
	}
}

// The sums of the shares of all kinds of operations without those on ports, and of these.
const sharesWithoutPorts, portShare = 1056, 24

// shares is the sum of the shares of all kinds of operations. Without ports the random numbers are used as if there
// were no operations on them.
func (w *World) shares() int {
	if slices.Contains(w.o.Without, Ports) {
		return sharesWithoutPorts
	}
	return sharesWithoutPorts + portShare
}

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

// drawOp selects an operation at random, as a number below w.shares().
func (w *World) drawOp() int {
	every := 120
	switch {
	case w.o.Direct && w.oneIn(15):
		return w.shares() - 1 - w.rng.IntN(portShare)
	case w.broken == Demolish: // agents must have the time to follow a restored database
		every = 1500
	case w.o.Often != "":
		every = 600
	}
	if kind := w.oftenDone(); kind != "" && w.oneIn(every) {
		n := 0
		for _, o := range ops() {
			if o.kind == kind {
				return n
			}
			n += o.share
		}
	}
	return w.rng.IntN(w.shares())
}

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

// buildLate executes a request that a hypervisor has not answered.
func (w *World) buildLate() {
	if m := w.executeLate(); m != nil {
		w.changed(m)
	}
}

// arrive lets a report of an agent arrive that was delayed, or executes a request that a hypervisor has not answered.
func (w *World) arrive() {
	if len(w.late) > 0 && w.halfTheTime() {
		w.buildLate()
		return
	}
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
