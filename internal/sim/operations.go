package sim

import "slices"

// operations are the random operations.
type operations struct {
	*cloud
	*losses
	repairs *repairs
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
	op.reclaim()
	for audited := false; ; audited = true {
		if !op.compute.conductor.Audits.AuditNext(background) {
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
