package sim

import (
	"slices"
)

// ops returns all kinds of operations.
func ops() []op {
	return []op{
		{"step", 300, (*operations).stepSome},
		{"agent", 560, (*operations).agentSome},
		{"create", 45, (*operations).createSome},
		{"action", 40, (*operations).requestAction},
		{"delete", 12, (*operations).removeSome},
		{"evacuate", 6, (*operations).evacuate},
		{"restart", 6, (*operations).restartSome},
		{"down", 3, (*operations).downSome},
		{"up", 6, (*operations).upSome},
		{"unplug", 4, (*operations).unplugSome},
		{"plug", 6, (*operations).plugSome},
		{"rules", 2, (*operations).ruleSome},
		{"clean", 5, (*operations).cleanSome},
		{"foreign", 5, (*operations).foreignClient},
		{"late", 8, (*operations).arrive},
		{"unfollowed", 6, (*operations).checkFollowed},
		{"audit", 25, (*operations).auditSome},
		{"steal", 1, (*operations).stealAllocation},
		{"operator", 8, func(op *operations) { op.repairs.operatorSome() }},
		{RestartCompute, 1, (*operations).restartCompute},
		{Backup, 1, (*operations).backupSome},
		{Restore, 1, (*operations).restoreSome},
		{Copy, 1, (*operations).copySome},
		{Replace, 1, (*operations).replaceSome},
		{Jump, 1, (*operations).jumpSome},
		{Lose, 1, (*operations).loseSome},
		{Forget, 1, (*operations).forgetSome},
		{Ports, portShare - 8, (*operations).changePort}, // the last ones, see shares
		{Policy, 8, (*operations).changePolicy},
	}
}

// The sums of the shares of all kinds of operations without those on ports, and of these.
const sharesWithoutPorts, portShare = 1056, 24

// shares is the sum of the shares of all kinds of operations. Without ports the random numbers are used as if there
// were no operations on them.
func (op *operations) shares() int {
	if slices.Contains(op.options.Without, Ports) {
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
func (op *operations) operate() {
	before := op.noted
	for range 8 {
		n := op.drawOp()
		for _, o := range ops() {
			if n -= o.share; n < 0 {
				if !slices.Contains(op.options.Without, o.kind) {
					o.do(op)
				}
				break
			}
		}
		op.compute.restartEnded()
		if op.noted != before {
			return
		}
	}
}

// drawOp selects an operation at random, as a number below w.shares().
func (op *operations) drawOp() int {
	every := 120
	switch {
	case op.options.Direct && op.oneIn(15):
		return op.shares() - 1 - op.rng.IntN(portShare)
	case op.broken == Demolish: // agents must have the time to follow a restored database
		every = 1500
	case op.options.Often != "":
		every = 600
	}
	if kind := op.oftenDone(); kind != "" && op.oneIn(every) {
		n := 0
		for _, o := range ops() {
			if o.kind == kind {
				return n
			}
			n += o.share
		}
	}
	return op.rng.IntN(op.shares())
}

// stepSome has compute perform the step of a random server.
func (op *operations) stepSome() {
	if due := op.compute.due.list; len(due) > 0 {
		id := due[op.rng.IntN(len(due))]
		s := op.compute.servers[id]
		op.note("step", id, s.Host, s.Stage())
		op.compute.perform(id)
	}
}

// auditSome has compute perform the audits that are due.
func (op *operations) auditSome() {
	for audited := false; ; audited = true {
		if !op.compute.conductor.AuditNext(background) {
			if audited {
				op.note("audit", "", "", "")
			}
			return
		}
	}
}

// agentSome has a random agent do something that is due.
func (op *operations) agentSome() {
	for range 4 {
		if len(op.active.list) == 0 {
			return
		}
		m := op.byTag[op.active.list[op.rng.IntN(len(op.active.list))]]
		if op.agents.act(m) {
			return
		}
		op.active.drop(m.tag)
	}
}

func (op *operations) createSome() {
	if len(op.compute.ids.list) < 2*len(op.hosts) {
		op.create()
	} else {
		op.removeSome()
	}
}

func (op *operations) removeSome() {
	if ids := op.compute.ids.list; len(ids) > 0 {
		op.compute.remove(ids[op.rng.IntN(len(ids))])
	}
}

// buildLate executes a request that a hypervisor has not answered.
func (op *operations) buildLate() {
	if m := op.hypervisor.executeLate(); m != nil {
		op.agents.changed(m)
	}
}

// arrive lets a report of an agent arrive that was delayed, or executes a request that a hypervisor has not answered.
func (op *operations) arrive() {
	if len(op.hypervisor.late) > 0 && op.halfTheTime() {
		op.buildLate()
		return
	}
	if len(op.agents.delayed) == 0 {
		return
	}
	i := op.rng.IntN(len(op.agents.delayed))
	l := op.agents.delayed[i]
	op.agents.delayed = slices.Delete(op.agents.delayed, i, i+1)
	if l.e.Number <= op.compute.servers[op.compute.owners[l.id]].Latest(l.e.Host, l.e.Instance) {
		op.report.Happened["out of order"]++
	}
	op.note("late", l.id, l.from.tag, "")
	_ = op.compute.reportGuest(l.id, l.start, l.e)
}
