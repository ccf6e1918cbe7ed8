package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// maxRounds is the maximum number of rounds until the cloud is quiescent. In a round, compute and each agent do
// everything that is due. The operator repairs one thing after another and waits for its effects: a cloud of 24 hosts
// has needed 129 rounds after compute's database was lost and later restored.
const maxRounds = 240

// quiesce stops the failures, ends the outages of all hosts, and checks that the cloud reaches a lasting state.
func (w *World) quiesce() {
	w.noFailures = true
	defer func() { w.noFailures = false }()
	for _, id := range w.placement.foreignConsumers {
		w.placement.drop(resource.ConsumerID(id))
	}
	w.placement.foreignConsumers = nil
	for len(w.hypervisor.late) > 0 {
		w.buildLate()
	}
	for len(w.agents.delayed) > 0 {
		w.arrive()
	}
	for len(w.copies) > 0 {
		w.switchOff(w.copies[0])
	}
	w.skew = 0
	for _, m := range w.hosts {
		clear(m.away)
		if m.agent == nil || m.cut || m.frozen {
			w.bringUp(m)
		}
		w.compute.hostUp(m.host)
		w.agents.settle(m)
		w.agents.changed(m)
	}
	w.report.Quiescences++
	w.settleAll()
	for _, m := range w.hosts {
		m.zombie, m.orphaned, m.host.unheard = false, false, false
		m.service.lost = m.service.lost && w.reservesHeld(m)
	}
	w.exemptions.end()
	clear(w.runs)
	if w.failure == "" {
		w.checkAll()
		w.checkLate()
	}
	if w.failure == "" {
		w.probes.check()
	}
}

// settleAll lets everybody do what is due, and the operator repair what is left, until there is nothing to do.
func (w *World) settleAll() {
	quiet := 0 // rounds since all hosts were looked at, after the operator had repaired something
	for round := 1; w.failure == ""; round++ {
		if round > maxRounds {
			w.violation(nil, "rest: the cloud is still busy after %d rounds", maxRounds)
			return
		}
		w.advance(30 * time.Second)
		if w.round() {
			if round%4 == 0 { // something may wait for the operator
				w.repairHosts()
			}
			continue
		}
		if w.repair() {
			quiet = 0
			continue
		}
		w.report.LongestRounds = max(w.report.LongestRounds, round)
		switch quiet++; quiet {
		case 1:
			w.rescan()
		case 3: // an allocation that the first sync missed is written by the second one
			return
		}
	}
}

// reservesHeld reports whether Placement has devices of a host as reserved that are held: whether that is right shows
// when they are free again.
func (w *World) reservesHeld(m *simHost) bool {
	return slices.ContainsFunc(m.host.row.report.Devices, func(d pci.Offered) bool {
		p, _ := w.placement.Provider(d.Provider)
		return d.Holder != "" && slices.ContainsFunc(slices.Collect(maps.Values(p.Inventories)),
			func(inv resource.Inventory) bool { return inv.Reserved > 0 })
	})
}

// rescan has agents compare their hosts with Placement again, as they do periodically: while another consumer had
// something of the same provider, an allocation could not be written, or a class not changed. A guest that was renamed
// during a sync may lack what it uses of NUMA nodes until the next one. A list of guests from before another one was
// built does not count, so a guest that was built too late may be seen by the next one. Bandwidth that is not
// configured any more is removed when no port uses it, and so are devices that are not offered any more, when the
// claims of servers are gone that were refused there.
func (w *World) rescan() {
	for _, m := range w.hosts {
		if len(w.altered)+len(m.late) > 0 || m.nodesInPlacement || w.lacksShares(m) ||
			w.placement.hasFormerBandwidth(m) || w.placement.hasFormerDevices(m) {
			w.agents.changed(m)
		}
	}
}

// lacksShares reports whether a server on a host does not have what it must have in Placement.
func (w *World) lacksShares(m *simHost) bool {
	for _, s := range w.compute.servers {
		for _, residence := range s.Residences() {
			held := lifecycle.WithoutPorts(w.placement.Held(resource.ConsumerID(residence.Consumer)))
			if residence.Host == m.name && residence.Choice != nil && !w.shareOf(s, residence).Equal(held) {
				return true
			}
		}
	}
	return false
}

// round lets compute and all agents do what is due. It reports whether something was done, or will be due by itself.
func (w *World) round() (busy bool) {
	opened := w.compute.opened // otherwise steps that waited for the hosts' reports may be performed in the next round
	for _, id := range slices.Sorted(slices.Values(w.compute.due.list)) {
		s := w.compute.servers[id]
		for range 8 {
			if now := w.compute.servers[id]; len(now.Steps()) == 0 {
				break
			}
			w.compute.perform(id)
		}
		now := w.compute.servers[id]
		busy = busy || s.Stage() != now.Stage() || s.Try != now.Try || s.Round != now.Round ||
			len(s.Leftovers) != len(now.Leftovers)
	}
	w.compute.reconcileDead()
	w.auditSome()
	w.agents.progress = false
	for _, m := range w.hosts {
		if m.agent == nil && !m.stuck {
			w.agents.start(m)
		}
		for n := 0; n < 200 && w.agents.act(m); n++ {
			w.checkMarked()
		}
		busy = busy || !m.stuck && w.servedBy(m.host) != m
		w.checkMarked()
	}
	w.compute.watchGate()
	return busy || w.agents.progress || !opened
}

// finish deletes all servers. Then no allocation may be left.
func (w *World) finish() {
	if w.quiesce(); w.failure != "" {
		return
	}
	w.noFailures = true
	for _, id := range slices.Sorted(maps.Keys(w.compute.servers)) {
		w.compute.remove(id)
	}
	if w.quiesce(); w.failure != "" {
		return
	}
	if n := len(w.placement.Consumers()); n > 0 {
		w.violation(nil, "orphan: all servers are deleted, and %d consumers hold something", n)
	}
	if n := len(w.compute.servers); n > 0 {
		w.violation(nil, "rest: all servers are deleted, and %d are not gone", n)
	}
	for _, m := range w.hosts {
		// the finished ones are forgotten with the next assignments
		begun := slices.ContainsFunc(slices.Collect(maps.Values(m.disk.found.Renames())), func(r journal.Rename) bool {
			return !r.Done
		})
		if len(m.known()) > 0 || begun {
			w.violation(m, "left: all servers are deleted, and the host has %v", m.known())
		}
	}
}
