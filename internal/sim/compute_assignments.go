package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/pci"
)

// past returns what the database records of the epoch of a position; nil if that is the present one or unknown.
func (cm *computeModel) past(h *hostState, p host.Position) *host.Position {
	named := epoch{p.Epoch, p.EpochID}
	if p.Epoch == 0 || named == cm.epoch || !slices.Contains(cm.epochs, named) {
		return nil
	}
	out := host.Position{Epoch: p.Epoch, EpochID: p.EpochID}
	for _, e := range h.row.epochEnds {
		if e.epoch <= p.Epoch {
			out.Revision = max(out.Revision, e.revision)
		}
	}
	return &out
}

// head is the present assignments of a host without their content.
func (cm *computeModel) head(h *hostState, past *host.Position) host.Assignments {
	return host.Assignments{Cloud: cm.cloud, Past: past,
		Position: host.Position{Epoch: cm.epoch.number, EpochID: cm.epoch.id, Revision: h.row.revision}}
}

// deliver is the present assignments of a host.
func (cm *computeModel) deliver(h *hostState, past *host.Position) delivery {
	l, out := cm.lines(h), cm.head(h, past)
	out.Servers, out.Remove = l.servers, l.remove
	for _, at := range slices.SortedFunc(maps.Keys(h.row.cleans), pci.Address.Compare) {
		out.Clean = append(out.Clean, host.CleanRequest{Address: at.String(), Asked: h.row.cleans[at]})
	}
	h.row.devices.assign(&out, cm.now)
	return delivery{assignments: out, changed: l.changed, state: stamp{cm.branch, cm.seq}}
}

// lines is what compute assigns to a host now.
func (cm *computeModel) lines(h *hostState) *line {
	if h.line != nil && h.line.revision == h.row.revision {
		return h.line
	}
	l := &line{revision: h.row.revision, changed: h.row.changed}
	var here []lifecycle.Server
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		s := cm.servers[id]
		here = append(here, s)
		for _, e := range s.Entries() {
			if e.Host == h.name {
				l.servers = append(l.servers, record.ToAssignment(e, s))
			}
		}
	}
	for _, r := range lifecycle.RemovalsAt(h.name, here, slices.Sorted(maps.Keys(h.row.removals))) {
		l.remove = append(l.remove, removal{ID: r.Consumer, PreviousID: r.PreviousConsumer})
	}
	if cm.broken == Once && h.line != nil {
		l.remove = slices.DeleteFunc(l.remove, func(r removal) bool { return slices.Contains(h.line.remove, r) })
	}
	h.line = l
	cm.checkRemovals(h, l)
	return l
}

// raiseRevision counts a change of a host's assignments.
func (cm *computeModel) raiseRevision(h *hostState) {
	h.row.revision++
	h.row.changed = stamp{cm.branch, cm.seq}
	cm.markHost(h.name)
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
