package sim

import "github.com/openberth/berth/compute/lifecycle"

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
