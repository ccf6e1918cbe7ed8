package sim

import (
	"maps"
	"slices"
)

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
