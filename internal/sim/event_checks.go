package sim

import (
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// This file holds what the simulation knows and no part of the cloud does, and the invariants that need it. They are
// checked when something happens, not by the state after it.

// reason notes why guests of a server may have to be removed: a user or an operator has requested something.
func (db *database) reason(server, why string) { db.reasons[server] = why }

// settleReasons deletes the reason when the request is done and no guest has to be removed any more.
func (db *database) settleReasons(s lifecycle.Server) {
	gone := s.State == lifecycle.Deleted
	shelving := s.State == lifecycle.Active && s.ShelvedImage != nil
	rest := s.Requested.IsZero() && s.Move == nil && len(s.Leftovers) == 0 && !shelving &&
		slices.Contains([]lifecycle.State{lifecycle.Active, lifecycle.Shelved, lifecycle.Error}, s.State)
	if (gone || rest) && db.leaving[s.ID] == 0 {
		delete(db.reasons, s.ID)
	}
	if gone {
		delete(db.versions, s.ID)
	}
}

// checkRemovals checks that each removal of a line has a reason.
func (cm *computeModel) checkRemovals(h *hostState, l *line) {
	for _, r := range l.remove {
		owner := cm.ownerOf[r.ID]
		if cm.reasons[owner] == "" {
			cm.violation(cm.byName[h.name], "removal: %s of server %s is to be destroyed, and it was not deleted, moved or "+
				"shelved", r.ID, owner)
		}
	}
}

// noteNamed notes which guests the assignments that an agent follows name for removal.
func (a *agent) noteNamed(l host.Assignments) {
	for _, r := range l.Remove {
		a.named[r.ID], a.named[r.PreviousID] = true, true
	}
	for _, want := range l.Servers {
		delete(a.named, want.ID)
	}
}

// checkDestroyed checks each guest that an agent destroys: compute must have named it for removal. One that has
// departed runs elsewhere, and one that was never reported as built may be removed when a later call to build it has
// failed.
func (hv *hypervisorModel) checkDestroyed(m *simHost, g *hypervisor.Guest, named bool) {
	if g == nil {
		return
	}
	hv.report.Happened["guest destroyed"]++
	if !g.Departed && !named && !m.built[g.ID] {
		hv.violation(m, "destroyed: the guest %s of server %s, and compute has not named it for removal", g.ID,
			hv.ownerOf[g.ID])
	}
}

// checkAdmission checks the admission of a machine's agent: the agent that was admitted before must not be alive. If
// that one ran on another machine, its guests stay there and compute does not know them any more.
func (cm *computeModel) checkAdmission(m *simHost) {
	h := m.host
	if old := cm.servedBy(h); old != nil && old.agent.start != m.agent.start {
		cm.violation(m, "admitted: compute admits the start %s, and the start %s of %s is alive",
			m.agent.start, old.agent.start, old.tag)
	}
	if last := h.served; last != nil && last != m {
		cm.report.Happened["host taken over"]++
		m.orphaned, last.orphaned = true, true
		last.zombie = true
	}
	h.served, h.admitted = m, m.agent.start
}

// checkReported checks a guest report that compute records: it must be from the start that was admitted last.
func (cm *computeModel) checkReported(h *hostState, id, start string) {
	if h.admitted != start {
		cm.violation(cm.byName[h.name], "reported: compute takes in what the start %s says of %s, and has admitted the "+
			"start %s",
			start, id, h.admitted)
	}
}

// places reports whether compute places a consumer on the host of a machine.
func (db *database) places(m *simHost, c resource.ConsumerID) bool {
	s := db.servers[db.owners[string(c)]]
	return slices.ContainsFunc(s.Residences(), func(r lifecycle.Residence) bool {
		return r.Consumer == string(c) && r.Host == m.name
	})
}

// notePlaced notes of which consumers an agent may write allocations, when it reads them.
func (am *agentModel) notePlaced(m *simHost, consumers []resource.ConsumerID) {
	for _, c := range consumers {
		if m.agent != nil {
			m.agent.placed[c] = am.compute.places(m, c) && m.agent.confirmed[string(c)]
		}
	}
}

// checkShared checks an allocation that an agent has written to Placement: compute must place the consumer there, and
// must have confirmed that to this process of the agent, now or when the agent read the allocation. A record or an
// allocation that was restored since is exempt: the agent may read the allocation from before a move that it does not
// know yet.
func (am *agentModel) checkShared(m *simHost, c resource.ConsumerID) {
	a, owner := m.agent, am.ownerOf[string(c)]
	if !a.placed[c] && !(am.compute.places(m, c) && a.confirmed[string(c)]) && !am.rolledBack[owner] &&
		!am.putBack[owner] {
		am.violation(m, "shared: the agent writes an allocation of %s to Placement, and compute does not place it here, "+
			"or has "+
			"not confirmed that", c)
	}
}

// exempt reports whether the guests of a server may run twice: an operator has evacuated it from a host that was
// unreachable and not dead.
func (x *exemptions) exempt(server string, machines ...*simHost) bool {
	return x.evacuated[server] || slices.ContainsFunc(machines, func(m *simHost) bool { return m.zombie })
}

// mayBeUnknown reports whether a machine may have a guest that compute does not know: a restored database has another
// record of its server, an operator has had compute forget the host, or machines with a copied directory took turns.
func (rp *repairs) mayBeUnknown(m *simHost, guest string) bool {
	return m.orphaned || rp.rolledBack[rp.ownerOf[guest]]
}

// checkOnce: no server runs twice.
func (ck *checks) checkOnce(m *simHost) {
	for _, g := range m.guests {
		if g.Stopped || g.Departed {
			continue
		}
		owner := ck.ownerOf[g.ID]
		for _, other := range ck.runs[owner] {
			for _, twin := range other.guests {
				if twin != g && !twin.Stopped && !twin.Departed && ck.ownerOf[twin.ID] == owner && !ck.exempt(owner, m, other) {
					ck.violation(m, "running twice: server %s runs here as %s, and on %s as %s", owner, g.ID, other.tag, twin.ID)
				}
			}
		}
		if !slices.Contains(ck.runs[owner], m) {
			ck.runs[owner] = append(ck.runs[owner], m)
		}
	}
}

// outOfReach reports whether compute has had no sign of life of a host for so long that an operator may evacuate it.
func (cm *computeModel) outOfReach(name string) bool {
	h := cm.states[name]
	return h.row.dead || cm.servedBy(h) == nil && cm.clock-h.sign >= schedule.Silence
}
