package powervm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// view is what the server reports of all partitions at one time.
type view struct {
	system uom.ManagedSystem
	byUUID map[string]uom.Partition // in upper case
	byName map[string]uom.Partition
}

// lastRead returns the managed system as the source of facts has read it, or reads it.
func (h *Hypervisor) lastRead(ctx context.Context) (uom.ManagedSystem, error) {
	if h.options.LastRead != nil {
		if system, ok := h.options.LastRead(); ok {
			return system, nil
		}
	}
	system, _, err := h.api.ManagedSystem(ctx)
	return system, err
}

// look reads the partitions of the system. Unavailable: it is not the system that has the guests of the records.
func (h *Hypervisor) look(ctx context.Context, records []record) (view, error) {
	system, err := h.lastRead(ctx)
	if err != nil {
		return view{}, err
	}
	for _, r := range records {
		if r.System != "" && !strings.EqualFold(r.System, system.UUID) {
			return view{}, fault.New(fault.Unavailable, "the REST API serves the system %s (%s), but the "+
				"guest %s is a partition of the system %s; nothing is changed: correct [powervm] url and system",
				system.SystemName, system.UUID, r.Guest.ID, r.System)
		}
	}
	v := view{system: system, byUUID: map[string]uom.Partition{}, byName: map[string]uom.Partition{}}
	list, err := h.api.Partitions(ctx, system.UUID)
	for _, p := range list {
		v.byUUID[strings.ToUpper(p.UUID)] = p
		v.byName[strings.TrimSpace(p.Name)] = p
	}
	return v, err
}

// partitionOf returns the partition of a record. Before the server has said which UUID it has, its name finds it.
//
// A partition with a UUID that the view lacks is read by itself. Unavailable: it exists, so the view is not complete;
// or the server does not find it, and has not said so before Recheck.
func (h *Hypervisor) partitionOf(ctx context.Context, v view, r record) (p uom.Partition, exists bool, err error) {
	if r.Partition == "" {
		p, exists = v.byName[r.Name]
		return p, exists, nil
	}
	if p, exists = v.byUUID[r.Partition]; exists {
		h.found(r.Partition)
		return p, true, nil
	}
	_, err = h.api.Partition(ctx, r.Partition)
	switch {
	case err == nil:
		h.found(r.Partition)
		return p, false, fault.New(fault.Unavailable, "the list of partitions lacks %s (%s), which exists; nothing is "+
			"concluded from the list, and it is read again", r.Name, r.Partition)
	case !fault.Is(err, fault.NotFound):
		return p, false, err
	case !h.missingTwice(r.Partition):
		return p, false, fault.New(fault.Unavailable, "the server does not find the partition %s (%s) of the guest %s; "+
			"it is read again before it counts as deleted", r.Name, r.Partition, r.Guest.ID)
	}
	return p, false, nil
}

// found forgets that the server did not find a partition.
func (h *Hypervisor) found(uuid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.missing, uuid)
}

// missingTwice records that the server does not find a partition, and reports whether it said so before Recheck.
func (h *Hypervisor) missingTwice(uuid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, before := h.missing[uuid]
	if !before {
		h.missing[uuid] = time.Now()
	}
	return before && time.Since(since) >= h.options.Recheck
}

// adopt stores the UUID of a record's partition, if it is not yet known. Unavailable: the partition may be that of a
// record that cannot be read.
func (h *Hypervisor) adopt(r *record, v view, p uom.Partition) error {
	if r.Partition != "" {
		return nil
	}
	if err := h.checkOwn(*r); err != nil {
		return err
	}
	r.Partition, r.System, r.Requested = strings.ToUpper(strings.TrimSpace(p.UUID)), v.system.UUID, false
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(*r)
}

// checkOwn returns Unavailable if a partition that has the name of a record, and was not requested for it or for an
// abandoned guest, may be that of a record that cannot be read.
func (h *Hypervisor) checkOwn(r record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Requested || len(h.damaged) == 0 {
		return nil
	}
	if late, err := h.abandoned.has(r.Name); err != nil || late {
		return err
	}
	return fault.New(fault.Unavailable, "the partition %s exists, and may be that of another "+
		"guest: %s", r.Name, strings.Join(slices.Sorted(maps.Values(h.damaged)), "; "))
}
