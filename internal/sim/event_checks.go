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
func (o *compute) reason(server, why string) { o.reasons[server] = why }

// settleReasons deletes the reason when the request is done and no guest has to be removed any more.
func (o *compute) settleReasons(s lifecycle.Server) {
	gone := s.State == lifecycle.Deleted
	shelving := s.State == lifecycle.Active && s.ShelvedImage != nil
	rest := s.Requested.IsZero() && s.Move == nil && len(s.Leftovers) == 0 && !shelving &&
		slices.Contains([]lifecycle.State{lifecycle.Active, lifecycle.Shelved, lifecycle.Error}, s.State)
	if (gone || rest) && o.leaving[s.ID] == 0 {
		delete(o.reasons, s.ID)
	}
	if gone {
		delete(o.versions, s.ID)
	}
}

// checkRemovals checks that each removal of a line has a reason.
func (o *compute) checkRemovals(h *hostState, l *line) {
	for _, r := range l.remove {
		owner := o.w.owners[r.ID]
		if o.reasons[owner] == "" {
			o.w.violation(o.w.byName[h.name], "removal: %s of server %s is to be destroyed, and it was not deleted, moved or "+
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

// destroyed checks each guest that an agent destroys: compute must have named it for removal. One that has departed
// runs elsewhere, and one that was never reported as built may be removed when a later call to build it has failed.
func (w *World) destroyed(m *simHost, g *hypervisor.Guest, named bool) {
	if g == nil {
		return
	}
	w.report.Happened["guest destroyed"]++
	if !g.Departed && !named && !m.built[g.ID] {
		w.violation(m, "destroyed: the guest %s of server %s, and compute has not named it for removal", g.ID, w.owners[g.ID])
	}
}

// admits checks the admission of a machine's agent: the agent that was admitted before must not be alive. If that one
// ran on another machine, its guests stay there and compute does not know them any more.
func (w *World) admits(m *simHost) {
	h := m.host
	if old := w.compute.servedBy(h); old != nil && old.agent.start != m.agent.start {
		w.violation(m, "admitted: compute admits the start %s, and the start %s of %s is alive",
			m.agent.start, old.agent.start, old.tag)
	}
	if last := h.served; last != nil && last != m {
		w.report.Happened["host taken over"]++
		m.orphaned, last.orphaned = true, true
		last.zombie = true
	}
	h.served, h.admitted = m, m.agent.start
}

// reported checks a guest report that compute records: it must be from the start that was admitted last.
func (w *World) reported(h *hostState, id, start string) {
	if h.admitted != start {
		w.violation(w.byName[h.name], "reported: compute takes in what the start %s says of %s, and has admitted the "+
			"start %s",
			start, id, h.admitted)
	}
}

// places reports whether compute places a consumer on the host of a machine.
func (w *World) places(m *simHost, c resource.ConsumerID) bool {
	s := w.compute.servers[w.compute.owners[string(c)]]
	return slices.ContainsFunc(s.Residences(), func(r lifecycle.Residence) bool {
		return r.Consumer == string(c) && r.Host == m.name
	})
}

// notePlaced notes of which consumers an agent may write allocations, when it reads them.
func (w *World) notePlaced(m *simHost, consumers []resource.ConsumerID) {
	for _, c := range consumers {
		if m.agent != nil {
			m.agent.placed[c] = w.places(m, c) && m.agent.confirmed[string(c)]
		}
	}
}

// shared checks an allocation that an agent has written to Placement: compute must place the consumer there, and must
// have confirmed that to this process of the agent, now or when the agent read the allocation. A record or an
// allocation that was restored since is exempt: the agent may read the allocation from before a move that it does not
// know yet.
func (w *World) shared(m *simHost, c resource.ConsumerID) {
	a, owner := m.agent, w.owners[string(c)]
	if !a.placed[c] && !(w.places(m, c) && a.confirmed[string(c)]) && !w.rolledBack[owner] && !w.putBack[owner] {
		w.violation(m, "shared: the agent writes an allocation of %s to Placement, and compute does not place it here, "+
			"or has "+
			"not confirmed that", c)
	}
}

// exempt reports whether the guests of a server may run twice: an operator has evacuated it from a host that was
// unreachable and not dead.
func (w *World) exempt(server string, machines ...*simHost) bool {
	return w.evacuated[server] || slices.ContainsFunc(machines, func(m *simHost) bool { return m.zombie })
}

// mayBeUnknown reports whether a machine may have a guest that compute does not know: a restored database has another
// record of its server, an operator has had compute forget the host, or machines with a copied directory took turns.
func (w *World) mayBeUnknown(m *simHost, guest string) bool {
	return m.orphaned || w.rolledBack[w.owners[guest]]
}

// checkOnce: no server runs twice.
func (w *World) checkOnce(m *simHost) {
	for _, g := range m.guests {
		if g.Stopped || g.Departed {
			continue
		}
		owner := w.owners[g.ID]
		for _, other := range w.runs[owner] {
			for _, twin := range other.guests {
				if twin != g && !twin.Stopped && !twin.Departed && w.owners[twin.ID] == owner && !w.exempt(owner, m, other) {
					w.violation(m, "running twice: server %s runs here as %s, and on %s as %s", owner, g.ID, other.tag, twin.ID)
				}
			}
		}
		if !slices.Contains(w.runs[owner], m) {
			w.runs[owner] = append(w.runs[owner], m)
		}
	}
}

// outOfReach reports whether compute has had no sign of life of a host for so long that an operator may evacuate it.
func (w *World) outOfReach(name string) bool {
	h := w.compute.hosts[name]
	return h.row.dead || w.compute.servedBy(h) == nil && w.clock-h.sign >= schedule.Silence
}
