package powervm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// Maintain removes the partitions that the server creates after the driver has given them up, until ctx ends.
func (h *Hypervisor) Maintain(ctx context.Context) {
	ticker := time.NewTicker(h.options.Sweep)
	defer ticker.Stop()
	for {
		if err := h.sweep(ctx); err != nil && ctx.Err() == nil {
			h.options.Log.Warn("search for abandoned partitions failed, will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep removes the abandoned partitions that the server has created since, and returns the first fault.
func (h *Hypervisor) sweep(ctx context.Context) error {
	h.mu.Lock()
	list, _, err := h.abandoned.read()
	h.mu.Unlock()
	if err != nil || len(list) == 0 {
		return err
	}
	records, err := h.locked()
	if err != nil {
		return err
	}
	v, err := h.look(ctx, records)
	if err != nil {
		return err
	}
	for _, one := range list {
		p, exists := v.byName[one.Name]
		switch {
		case one.System != v.system.UUID:
		case exists:
			err = errors.Join(err, h.removeLate(ctx, one, p))
		case one.Removing != "":
			err = errors.Join(err, h.confirmRemoval(ctx, one))
		}
	}
	return err
}

// removeLate removes a partition that the server has created late, unless it is that of a record: a later guest of the
// same server has adopted it. The file stays, because another request to create it may be executed still later.
func (h *Hypervisor) removeLate(ctx context.Context, one abandoned, p uom.Partition) error {
	one.Removing = strings.ToUpper(strings.TrimSpace(p.UUID))
	if free, err := h.beginRemoval(one); err != nil || !free {
		return err
	}
	h.options.Log.Warn("removing a partition that was created late", "partition", one.Name, "guest", one.Guest)
	if err := h.setPower(ctx, p, true); err != nil {
		return err
	}
	if err := h.api.Delete(ctx, partitionPath(one.Removing)); err != nil {
		return err
	}
	return h.endRemoval(one)
}

// beginRemoval records that a partition is being removed, and returns false if it is that of a record. From then on
// reserve refuses a guest whose partition would have its name, so that no guest adopts it.
func (h *Hypervisor) beginRemoval(one abandoned) (free bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	records, err := h.read()
	if err != nil {
		return false, err
	}
	for _, r := range records {
		if r.Name == one.Name || r.Partition == one.Removing {
			return false, nil
		}
	}
	return true, h.abandoned.write(one)
}

// endRemoval records that the partition is gone.
func (h *Hypervisor) endRemoval(one abandoned) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	one.Removing = ""
	return h.abandoned.write(one)
}

// confirmRemoval ends the removal of a partition that the server does not list, if the server does not find it either.
func (h *Hypervisor) confirmRemoval(ctx context.Context, one abandoned) error {
	_, err := h.api.Partition(ctx, one.Removing)
	if fault.Is(err, fault.NotFound) {
		return h.endRemoval(one)
	}
	return err
}
