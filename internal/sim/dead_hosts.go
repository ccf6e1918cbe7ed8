package sim

import (
	"maps"
	"slices"
)

// hostDown is `berth host down`. It reports whether the host is dead then.
func (o *compute) hostDown(h *hostState) bool {
	o.reasonsOfDead(h)
	err := o.conductor.HostDown(background, h.name)
	if err != nil {
		o.retryAll(h)
	}
	return h.row.dead
}

// hostUp undoes hostDown. It reports whether the host is not dead then.
func (o *compute) hostUp(h *hostState) bool {
	_ = o.conductor.HostUp(background, h.name)
	return !h.row.dead
}

// reconcileDead repeats what hostDown does, as the conductor does every few seconds.
func (o *compute) reconcileDead() {
	for _, h := range o.deadHosts() {
		o.reasonsOfDead(h)
	}
	if o.conductor.ReconcileDeadHosts(background) != nil {
		for _, h := range o.deadHosts() {
			o.retryAll(h)
		}
	}
}

func (o *compute) deadHosts() (list []*hostState) {
	for _, name := range o.dead {
		list = append(list, o.hosts[name])
	}
	return list
}

func (o *compute) reasonsOfDead(h *hostState) {
	for id := range h.servers {
		o.reason(id, "dead")
	}
}

func (o *compute) retryAll(h *hostState) {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		o.due.add(id)
	}
}
