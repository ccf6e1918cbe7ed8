package conductor

import (
	"context"
	"errors"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// Reclaim deletes the servers whose soft deletion is older than [DEFAULT] reclaim_instance_interval, and offloads those
// that have been shelved on their hosts for [DEFAULT] shelved_offload_time. An option that is off ends nothing: such
// servers wait for a user. The times are recorded, so a restart of compute changes no end.
func (c *Conductor) Reclaim(ctx context.Context) (failed error) {
	if c.ReclaimInterval > 0 {
		failed = c.eachOfStatus(ctx, lifecycle.StatusSoftDeleted, func(s lifecycle.Server) error {
			if s.Task != "" || c.Now().Before(s.SoftDeleted.Add(c.ReclaimInterval)) {
				return nil
			}
			return c.delete(ctx, s, lifecycle.DeleteRequested{Reclaims: s.SoftDeleted})
		})
	}
	if c.OffloadTime <= 0 {
		return failed
	}
	return errors.Join(failed, c.eachOfStatus(ctx, lifecycle.StatusShelved, func(s lifecycle.Server) error {
		if s.ShelvedAt.IsZero() || c.Now().Before(s.ShelvedAt.Add(c.OffloadTime)) {
			return nil
		}
		_, err := c.runner.Apply(ctx, s.ID, lifecycle.OffloadDue{ShelvedAt: s.ShelvedAt})
		return err
	}))
}

// eachOfStatus calls do for each server that has the status. A server that is deleted meanwhile is left out, and one
// that cannot be read or changed does not keep the others from it.
func (c *Conductor) eachOfStatus(ctx context.Context, status string, do func(lifecycle.Server) error) (failed error) {
	ids, err := c.store.IDsOfStatus(ctx, status)
	if err != nil {
		return err
	}
	for _, id := range ids {
		s, err := c.store.Read(ctx, id)
		if err == nil && s.Status() == status {
			err = do(s)
		}
		if fault.Is(err, fault.Unavailable) {
			return err
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// keepsShelved reports whether a server that is shelved keeps its guest on its host for a time.
func (o Options) keepsShelved() bool { return o.OffloadTime != 0 }
