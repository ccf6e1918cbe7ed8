package sim

import "github.com/openberth/berth/compute/lifecycle"

// put stores a record, and what follows from it.
func (o *compute) put(before, now lifecycle.Server) {
	if len(now.History) > 8 {
		now.History = now.History[len(now.History)-4:]
	}
	o.w.seq++
	o.servers[now.ID], o.versions[now.ID] = now, o.w.seq
	o.owners[now.ID], o.w.owners[now.ID] = now.ID, now.ID
	if now.Migration != nil {
		o.owners[now.Migration.ID], o.w.owners[now.Migration.ID] = now.ID, now.ID
	}
	if before.State == lifecycle.AwaitingMinCount && now.State == lifecycle.Failing {
		o.reason(now.ID, "another server of its request has no host")
	}
	if now.PortsRefused != "" {
		o.reason(now.ID, "its ports cannot be bound")
	}
	if now.PortChange != nil && now.PortChange.Device != nil {
		o.w.portChanges[now.PortChange.Device.ID] = true
	}
	o.keepRemovals(before, now)
	for _, s := range before.Residences() {
		if h := o.hosts[s.Host]; h != nil {
			delete(h.servers, now.ID)
		}
	}
	if now.State == lifecycle.Deleted {
		delete(o.servers, now.ID)
	}
	o.index(now)
	for _, host := range touched(before, now) {
		o.raiseRevision(o.hosts[host])
	}
	o.settleReasons(now)
	o.w.markResidences(now)
	if o.guest != nil {
		o.w.reported(o.guest.host, o.guest.id, o.guest.start)
	}
	o.w.logChange(before, o.event, now)
}

// keepRemovals records the guests that a change leaves on dead hosts.
func (o *compute) keepRemovals(before, now lifecycle.Server) {
	if o.w.broken == Unrecorded {
		return
	}
	for _, r := range lifecycle.EndedResidences(before, now) {
		if row := o.hosts[r.Host].row; row.dead {
			if before.WaitsForAgent(r.Host) {
				o.reason(now.ID, "it left a dead host before its guest was built")
			}
			o.recordRemoval(row, r.Consumer, now.ID)
		}
	}
}
