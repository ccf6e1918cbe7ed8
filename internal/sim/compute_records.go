package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
)

// put stores a record, and what follows from it.
func (cm *computeModel) put(before, now lifecycle.Server) {
	if len(now.History) > 8 {
		now.History = now.History[len(now.History)-4:]
	}
	cm.seq++
	cm.servers[now.ID], cm.versions[now.ID] = now, cm.seq
	cm.owners[now.ID], cm.ownerOf[now.ID] = now.ID, now.ID
	if now.Migration != nil {
		cm.owners[now.Migration.ID], cm.ownerOf[now.Migration.ID] = now.ID, now.ID
	}
	if before.State == lifecycle.AwaitingMinCount && now.State == lifecycle.Failing {
		cm.reason(now.ID, "another server of its request has no host")
	}
	if now.PortsRefused != "" {
		cm.reason(now.ID, "its ports cannot be bound")
	}
	if now.PortChange != nil && now.PortChange.Device != nil {
		cm.portChanges[now.PortChange.Device.ID] = true
	}
	cm.keepRemovals(before, now)
	for _, s := range before.Residences() {
		if h := cm.states[s.Host]; h != nil {
			delete(h.servers, now.ID)
		}
	}
	if now.State == lifecycle.Deleted {
		delete(cm.servers, now.ID)
	}
	cm.index(now)
	for _, host := range lifecycle.AssignmentsTouched(before, now) {
		cm.raiseRevision(cm.states[host])
	}
	cm.settleReasons(now)
	if others, broken := cm.brokenPolicy(before, now); broken != "" {
		cm.violation(nil, "cloud: group: %s", broken)
	} else if others {
		cm.report.Happened[besideOthers]++
	}
	cm.markResidences(now)
	if cm.guest != nil {
		cm.checkReported(cm.guest.host, cm.guest.id, cm.guest.start)
	}
	cm.logChange(before, cm.event, now)
}

// keepRemovals records the guests that a change leaves on dead hosts.
func (cm *computeModel) keepRemovals(before, now lifecycle.Server) {
	if cm.broken == Unrecorded {
		return
	}
	for _, r := range lifecycle.EndedResidences(before, now) {
		if row := cm.states[r.Host].row; row.dead {
			if before.WaitsForAgent(r.Host) {
				cm.reason(now.ID, "it left a dead host before its guest was built")
			}
			cm.recordRemoval(row, r.Consumer, now.ID)
		}
	}
}

// hostDown is `berth host down`. It reports whether the host is dead then.
func (cm *computeModel) hostDown(h *hostState) bool {
	cm.reasonsOfDead(h)
	err := cm.conductor.HostDown(background, h.name)
	if err != nil {
		cm.retryAll(h)
	}
	return h.row.dead
}

// hostUp undoes hostDown. It reports whether the host is not dead then.
func (cm *computeModel) hostUp(h *hostState) bool {
	_ = cm.conductor.HostUp(background, h.name)
	return !h.row.dead
}

// reconcileDead repeats what hostDown does, as the conductor does every few seconds.
func (cm *computeModel) reconcileDead() {
	for _, h := range cm.deadHosts() {
		cm.reasonsOfDead(h)
	}
	if cm.conductor.ReconcileDeadHosts(background) != nil {
		for _, h := range cm.deadHosts() {
			cm.retryAll(h)
		}
	}
}

func (cm *computeModel) deadHosts() (list []*hostState) {
	for _, name := range cm.dead {
		list = append(list, cm.states[name])
	}
	return list
}

func (cm *computeModel) reasonsOfDead(h *hostState) {
	for id := range h.servers {
		cm.reason(id, "dead")
	}
}

func (cm *computeModel) retryAll(h *hostState) {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		cm.due.add(id)
	}
}
