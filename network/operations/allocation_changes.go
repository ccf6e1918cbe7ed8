package operations

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// allocations are the calls of Placement.
type allocations interface {
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
}

// fromPlacement returns an error of Placement for the client of this service: a rejected account is a fault of the
// configuration, not of the client.
func fromPlacement(err error) error {
	if fault.Is(err, fault.Forbidden) {
		return fault.New(fault.Unavailable, "Placement rejects the account of the network service: %w; correct the "+
			"options of [placement]", err)
	}
	return err
}

// A change of allocations has three steps, and each may be repeated:
//
//	record     stores the change with the amounts before and after it; ports in it cannot change until it ends
//	reserve    counts what servers get more in the quotas of compute, which may refuse it
//	allocate   writes the allocations of all consumers in one request, unless they have the amounts after the change
//	finish     writes the ports and the network, or nothing if Placement has refused, and deletes the record
//
// After a crash, Run completes recorded changes.

// record stores a change whose ports must not have another one. It refuses a change of a consumer that an unfinished
// change has, because the amounts before the second one would not be known.
func (s *Service) record(ctx context.Context, tx *store.Tx, c *store.Change) error {
	unfinished, err := store.List[store.Change](ctx, tx, store.Filter{})
	if err != nil {
		return err
	}
	for _, other := range unfinished {
		for consumer := range c.Consumers {
			if _, both := other.Consumers[consumer]; both {
				return refusePending(other, "the allocation of server "+consumer)
			}
		}
	}
	c.ID = store.NewUUID()
	s.begin(&c.Base)
	return store.Put(ctx, tx, c)
}

// outdated reports whether a port of a planned change has changed since.
func (s *Service) outdated(ctx context.Context, tx *store.Tx, c *store.Change) (bool, error) {
	for i, planned := range c.Ports {
		p, found, err := store.Get[store.Port](ctx, tx, planned.ID)
		if err != nil {
			return false, err
		}
		if !found || p.Number != planned.Number {
			return true, nil
		}
		if err := checkNotPending(ctx, tx, p.ID); err != nil {
			return false, err
		}
		setAllocated(&p, planned.Allocated)
		s.edited(&p.Base)
		c.Ports[i] = p
	}
	return false, nil
}

// pending is the code of the fault for an object or a consumer that an unfinished change has.
const pending = "AllocationChangePending"

// lost is the code of the fault for an allocation that another client has changed in the same amounts.
const lost = "PlacementAllocationChanged"

// complete makes a recorded change. If Placement does not answer, the change stays recorded and Run completes it. first
// is whether this is the first attempt, so that Placement cannot have the amounts after the change by it.
func (s *Service) complete(ctx context.Context, c store.Change, first bool) error {
	if !first { // Placement may have the amounts already
		_, done, err := s.allocationsAfter(ctx, c, false)
		if err == nil && done && len(c.Consumers) > 0 {
			return s.finish(ctx, c.ID, true)
		}
	}
	if err := (guarantees{s}).reserve(ctx, c); err != nil {
		if fault.Is(err, fault.Unavailable) && !first {
			return err
		}
		return cmp.Or(s.finish(ctx, c.ID, false), err)
	}
	refused := s.allocate(ctx, c, first)
	if fault.Is(refused, fault.Unavailable) || fault.Is(refused, fault.Internal) {
		return fault.New(fault.Unavailable, "Placement has not confirmed the change of allocations: %w; the change is "+
			"recorded and is completed when Placement answers", refused)
	}
	if err := s.finish(ctx, c.ID, refused == nil); err != nil {
		return err
	}
	return refused
}

// allocate changes the allocations of the consumers in Placement.
func (s *Service) allocate(ctx context.Context, c store.Change, first bool) error {
	for attempt := 1; len(c.Consumers) > 0; attempt++ {
		all, done, err := s.allocationsAfter(ctx, c, first)
		if err != nil || done {
			return err
		}
		err = fromPlacement(s.Placement.PutAllocations(ctx, all))
		switch {
		case err == nil:
			return nil
		case fault.CodeOf(err) == placement.CodeConcurrentUpdate && attempt < attempts:
			if err := backoff.Sleep(ctx, time.Duration(attempt)*10*time.Millisecond); err != nil {
				return fault.Wrap(fault.Unavailable, err)
			}
		case fault.CodeOf(err) == placement.CodeConcurrentUpdate:
			return conflict("PlacementAllocationGenerationConflict", "the allocation of the server changes too often; try again")
		case fault.Is(err, fault.Unavailable):
			return err
		default:
			return conflict(placementConflict, "Placement refused the new allocation: %s; choose a smaller policy, or migrate "+
				"the server", fault.TextOf(err))
		}
	}
	return nil
}

// allocationsAfter returns the allocations of the consumers after a change. done is true if they are stored already. At
// the first attempt amounts that equal those after the change were written by another client, for another reason.
func (s *Service) allocationsAfter(ctx context.Context, c store.Change, first bool) (
	all map[resource.ConsumerID]placement.ConsumerAllocation, done bool, err error) {
	all, done = map[resource.ConsumerID]placement.ConsumerAllocation{}, true
	for _, consumer := range slices.Sorted(maps.Keys(c.Consumers)) {
		id, change := resource.ConsumerID(consumer), c.Consumers[consumer]
		held, err := s.Placement.Allocation(ctx, id)
		if err != nil {
			return nil, false, fromPlacement(err)
		}
		state := binding.StateOf(held.Allocation, change.Before, change.After)
		switch {
		case state == binding.After && (!first || same(change)):
			continue
		case state != binding.Before:
			return nil, false, conflict(lost, "the allocation of server %s was changed by another client; try again", consumer)
		}
		done = false
		held.Allocation = binding.Apply(held.Allocation, change.After)
		all[id] = held
	}
	return all, done, nil
}

// same reports whether a change leaves the amounts as they are.
func same(c store.ConsumerChange) bool { return reflect.DeepEqual(c.Before, c.After) }

// finish writes the result of a change and deletes its record, if it still exists.
func (s *Service) finish(ctx context.Context, id string, accepted bool) error {
	defer Reports{s}.wake()
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		c, found, err := store.Get[store.Change](ctx, tx, id)
		if err != nil || !found {
			return err
		}
		if accepted {
			err = write(ctx, tx, Reports{s}, c)
		} else {
			err = s.release(ctx, tx, c)
		}
		if err != nil {
			return err
		}
		if err := (guarantees{s}).record(ctx, tx, c); err != nil {
			return err
		}
		return store.Delete[store.Change](ctx, tx, id)
	})
}

// write writes the objects of a change.
func write(ctx context.Context, tx *store.Tx, r Reports, c store.Change) error {
	if c.Network != nil {
		now, _, err := store.Get[store.Network](ctx, tx, c.Network.ID)
		if err != nil {
			return err
		}
		c.Network.Number = max(c.Network.Number, now.Number+1) // a subnet may have been added since
		if c.Network.Shared {
			err := Sharing{r.Service}.share(ctx, tx, SharedNetwork, now.Base, now.Shared, true)
			if err != nil {
				return err
			}
		}
		if err := store.Put(ctx, tx, c.Network); err != nil {
			return err
		}
	}
	for _, p := range c.Ports {
		if err := tx.PutPort(ctx, &p); err != nil {
			return err
		}
	}
	for _, id := range c.Deleted {
		p, found, err := store.Get[store.Port](ctx, tx, id)
		if err != nil || !found {
			return err
		}
		if err := r.deletePort(ctx, tx, p); err != nil {
			return err
		}
	}
	return nil
}

// release undoes what was written with the record of a change that is not made: what its ports have reserved, and that
// its network is no longer shared.
func (s *Service) release(ctx context.Context, tx *store.Tx, c store.Change) error {
	if c.Network != nil {
		now, found, err := store.Get[store.Network](ctx, tx, c.Network.ID)
		if err == nil && found && now.Shared {
			err = Sharing{s}.share(ctx, tx, SharedNetwork, now.Base, c.Network.Shared, true)
		}
		if err != nil {
			return err
		}
	}
	for _, planned := range c.Ports {
		p, found, err := store.Get[store.Port](ctx, tx, planned.ID)
		if err == nil && found {
			err = tx.PutPort(ctx, &p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Resume completes the changes that are recorded for longer than age. It returns the first error.
func (s *Service) Resume(ctx context.Context, age time.Duration) error {
	unfinished, err := List[store.Change](ctx, s, store.Filter{})
	if err != nil || s.Placement == nil {
		return err
	}
	for _, c := range unfinished {
		if s.Now().Sub(time.UnixMicro(c.Created)) < age {
			continue
		}
		err := s.complete(ctx, c, false)
		if fault.Is(err, fault.Unavailable) {
			return err
		}
		if err != nil {
			s.Log.Warn("recorded change of allocations not made", "change", c.ID, "error", err)
		}
	}
	return nil
}

// Run completes recorded changes until the context ends: those of an earlier process at once, others when their request
// has had time to complete them. After a failure it waits longer.
func (s *Service) Run(ctx context.Context) {
	waits := s.Times.waits()
	age, failures := time.Duration(0), 0
	for {
		wait := cmp.Or(s.Times.Complete, 10*time.Second)
		if err := s.Resume(ctx, age); err != nil {
			failures++
			wait = waits.Wait(failures)
			s.Log.Warn("recorded changes of allocations not completed, will retry", "error", err)
		} else {
			age, failures = cmp.Or(s.Times.Age, time.Minute), 0
		}
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}
