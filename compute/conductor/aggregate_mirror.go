package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// mirrorEvery is how often the aggregates of providers are compared with those of hosts. A change does not wait for it.
const mirrorEvery = 10 * time.Minute

// Aggregates are the aggregates of providers in Placement; *placement.Client implements it. Both methods return
// fault.NotFound for a provider that does not exist. PutAggregates returns fault.Conflict for an old generation.
type Aggregates interface {
	Aggregates(ctx context.Context, id provider.ID) (placement.AggregatesDoc, error)
	PutAggregates(ctx context.Context, id provider.ID, doc placement.AggregatesDoc) error
}

// aggregateStore has the aggregates of hosts; *store.Store implements it.
type aggregateStore interface {
	Aggregates(ctx context.Context) ([]store.Aggregate, error)
	AggregateRemovals(ctx context.Context) (map[string][]string, error)
	AggregateRemovalDone(ctx context.Context, host, uuid string) error
}

// MirrorAggregates has Placement follow the aggregates of hosts soon.
func (c *Conductor) MirrorAggregates() {
	select {
	case c.mirror <- struct{}{}:
	default: // it is to be done already
	}
}

// runMirror mirrors the aggregates at the start, after each change, and from time to time, until ctx ends. After an
// error it tries again soon.
func (c *Conductor) runMirror(ctx context.Context) {
	of, is := c.dependencies.store.(aggregateStore)
	if !is || c.Config.Aggregates == nil {
		return
	}
	first := true
	for failures := 0; ctx.Err() == nil; {
		wait := mirrorEvery
		if err := c.mirrorAll(ctx, of, first); err != nil && ctx.Err() == nil {
			failures++
			wait = min(time.Duration(failures)*time.Second, time.Minute)
			c.Log.Warn("aggregates of hosts not written to Placement, will retry", "error", err)
		} else {
			first, failures = false, 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.mirror:
		}
		timer.Stop()
	}
}

// mirrorAll makes the root provider of each host a member of the host's aggregates, and ends memberships that were
// removed. Other aggregates of the providers stay, except those whose ids compute has made: the host has left them, or
// they were created after the backup from which compute's database was restored. every is whether all hosts are read,
// as at a start: a restore needs one. A host that is refused does not keep the others from it.
func (c *Conductor) mirrorAll(ctx context.Context, of aggregateStore, every bool) (failed error) {
	all, err := of.Aggregates(ctx)
	if err != nil {
		return err
	}
	ended, err := of.AggregateRemovals(ctx)
	if err != nil || len(all)+len(ended) == 0 && !every {
		return err
	}
	roots, err := c.dependencies.store.Roots(ctx)
	if err != nil {
		return err
	}
	for _, host := range roots {
		var wanted []resource.AggregateID
		for _, a := range all {
			if slices.Contains(a.Hosts, host.Name) {
				wanted = append(wanted, resource.AggregateID(a.UUID))
			}
		}
		if host.Root == "" || len(wanted)+len(ended[host.Name]) == 0 && !every {
			continue
		}
		if err := c.mirrorHost(ctx, host.Root, wanted, ended[host.Name]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("host %s: %w", host.Name, err))
			if fault.Is(err, fault.Unavailable) { // it would be the same for each of many hosts
				return failed
			}
			continue
		}
		for _, id := range ended[host.Name] {
			failed = errors.Join(failed, of.AggregateRemovalDone(ctx, host.Name, id))
		}
	}
	return failed
}

// mirrorHost adds and removes aggregates of a provider. A provider that does not exist has none.
func (c *Conductor) mirrorHost(ctx context.Context, root provider.ID, wanted []resource.AggregateID,
	ended []string) error {
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for attempt := 1; ; attempt++ {
		doc, err := c.Config.Aggregates.Aggregates(ctx, root)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		before := slices.Clone(doc.Aggregates)
		doc.Aggregates = slices.DeleteFunc(append(doc.Aggregates, wanted...), func(id resource.AggregateID) bool {
			return slices.Contains(ended, string(id)) || store.IsAggregateUUID(string(id)) && !slices.Contains(wanted, id)
		})
		slices.Sort(doc.Aggregates)
		doc.Aggregates = slices.Compact(doc.Aggregates)
		if slices.Sort(before); slices.Equal(before, doc.Aggregates) {
			return nil
		}
		err = c.Config.Aggregates.PutAggregates(ctx, root, doc)
		if !fault.Is(err, fault.Conflict) || attempt == 10 {
			return err
		}
		c.Pause(ctx, attempt)
	}
}
