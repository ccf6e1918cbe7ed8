package sim

import (
	"maps"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// heldFor is how long a deleted server can be restored, and a shelved one stays on its host, with Options.Held.
const heldFor = 10 * time.Minute

// reclaim has compute delete and offload what has been kept long enough.
func (op *operations) reclaim() {
	cm := op.compute
	if !cm.options.Held {
		return
	}
	for _, id := range cm.ids.list {
		if s := cm.servers[id]; s.State == lifecycle.Active && (s.IsSoftDeleted() || !s.ShelvedAt.IsZero()) {
			cm.reason(id, "reclaim")
		}
	}
	before := maps.Clone(cm.servers)
	_ = cm.conductor.Reclaim(background)
	for id, was := range before {
		s := cm.servers[id]
		cm.settleReasons(s)
		if was.IsSoftDeleted() && was.Requested.IsZero() && !s.Requested.IsZero() {
			cm.report.Happened["reclaimed"]++
		}
		if !was.ShelvedAt.IsZero() && s.State == lifecycle.Shelving {
			cm.report.Happened["offloaded"]++
		}
	}
}

// softDelete requests the deletion of a server, which can be restored.
func (op *operations) softDelete(id string) {
	cm := op.compute
	s := cm.servers[id]
	cm.note("soft delete", id, s.Host, string(s.State))
	cm.reason(id, "delete")
	cm.event = lifecycle.DeleteRequested{}
	cm.retryLater(id, cm.conductor.Delete(background, id, lifecycle.Caller{}))
	cm.event = nil
}
