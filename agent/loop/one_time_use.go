package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Cleaner cleans a device for one-time use, such as by a program of the operator. On a fault the device stays used.
type Cleaner interface {
	Clean(ctx context.Context, at pci.Address) error
}

// markUsed journals that the guest has started with its devices for one-time use. a.mu is held.
func (a *Agent) markUsed(id string) error {
	spent := a.journal.State().Spent()
	for _, c := range a.set.Held(resource.ConsumerID(id)) {
		at := c.Device.Address
		if mark, known := spent[at]; !slices.Contains(c.Traits, survey.OneTimeUse) || known && !mark.Returning {
			continue
		}
		if err := a.journal.Spend(at, journal.Spent{}); err != nil {
			return err
		}
		a.set = a.set.Spend(at, true)
		a.log.Info("one-time-use device used", "address", at.String(), "server", id)
		a.reportChanged()
		signal(a.syncNow) // the next sync reserves it
	}
	return nil
}

// markUsedByGuests calls markUsed for all running guests: an earlier agent may have stopped right after a guest's
// start. a.mu is held.
func (a *Agent) markUsedByGuests() error {
	for _, id := range slices.Sorted(maps.Keys(a.guests)) {
		if a.guests[id].Stopped {
			continue
		}
		if err := a.markUsed(id); err != nil {
			return err
		}
	}
	return nil
}

// withUsed sets Spent in each offer as the journal has it now; the observation may be older. a.mu is held.
func (a *Agent) withUsed(offers []device.Offer) []device.Offer {
	spent := a.journal.State().Spent()
	out := slices.Clone(offers)
	for i := range out {
		mark, known := spent[out[i].Device.Address]
		out[i].Spent = known && !mark.Returning && slices.Contains(out[i].Traits, survey.OneTimeUse)
	}
	return out
}

// cleanedProviders returns the providers whose device has been cleaned.
func cleanedProviders(offers []device.Offer, state journal.State) map[provider.ID]bool {
	out, spent := map[provider.ID]bool{}, state.Spent()
	for _, o := range offers {
		if o.Provider != "" && spent[o.Device.Address].Returning {
			out[o.Provider] = true
		}
	}
	return out
}

// detectManualReturn marks a device as cleaned when an operator has set its reserved amount in Placement to zero and
// no consumer holds it: this is how Nova's operators return a device for one-time use. A total above the reserved
// amount does not count: heal raises the total for a moment when it moves or rewrites a holder's allocation.
func (a *Agent) detectManualReturn(s observation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, mark := range a.journal.State().Spent() {
		e, there := a.set.At(at)
		p, reported := s.facts.Actual.ByID(mark.Provider)
		inv, has := p.Inventories[e.Class]
		if !there || mark.Returning || mark.Provider == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
			continue
		}
		if err := a.journal.Cleaned(at); err != nil {
			return err
		}
		a.set = a.set.Spend(at, false)
		s.facts.Spent[at] = false
		a.log.Info("one-time-use device returned in Placement", "address", at.String())
		a.reportChanged()
	}
	return nil
}

// recordReserved journals which used devices Placement now has as reserved, and which cleaned ones it no longer has.
func (a *Agent) recordReserved(tree provider.Tree) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, mark := range a.journal.State().Spent() {
		e, there := a.set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.Class]
		var err error
		switch {
		case mark.Returning && (!there || !reported || inv.Reserved == 0):
			err = a.journal.Cleaned(at)
			a.reportChanged()
		case mark.Returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && mark.Provider != p.ID:
			err = a.journal.Spend(at, journal.Spent{Provider: p.ID})
		case mark.Provider != "" && there && !reported:
			err = a.journal.Spend(at, journal.Spent{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isSpent reports whether a device has been used and must be cleaned: the journal has it, or Placement has it
// reserved, as after an agent of Nova. a.mu is held.
func (a *Agent) isSpent(e device.Entry) bool {
	if e.Spent || !slices.Contains(e.Traits, survey.OneTimeUse) {
		return e.Spent
	}
	if a.journal == nil {
		return false
	}
	if mark, known := a.journal.State().Spent()[e.Device.Address]; known {
		return !mark.Returning
	}
	p, _ := a.tree.ByID(e.Provider)
	inv, has := p.Inventories[e.Class]
	return has && e.Holder == "" && inv.Reserved >= inv.Total
}

// receiveCleanRequests queues compute's requests to clean devices. Each request is tried once, and answered as long as
// compute repeats it. a.mu is held.
func (a *Agent) receiveCleanRequests(list []host.CleanRequest) {
	maps.DeleteFunc(a.cleanAnswers, func(at string, told host.CleanResult) bool {
		return !slices.ContainsFunc(list, func(w host.CleanRequest) bool {
			return w.Address == at &&
				w.Asked.Equal(told.Asked)
		})
	})
	for _, w := range list {
		at, err := pci.ParseAddress(w.Address)
		if err != nil {
			a.condition("clean "+w.Address, fmt.Sprintf("compute requests cleaning of %q, which is not a PCI address",
				w.Address))
			continue
		}
		if !a.lastCleanRequest[at].Equal(w.Asked) {
			a.lastCleanRequest[at], a.cleanRequests = w.Asked, append(a.cleanRequests, at)
		}
	}
	signal(a.cleanNow)
}

// cleanLoop cleans the requested devices, one after the other.
func (a *Agent) cleanLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cleanNow:
		}
		a.mu.Lock()
		wishes := a.cleanRequests
		a.cleanRequests = nil
		a.mu.Unlock()
		for _, at := range wishes {
			a.mu.Lock()
			told := host.CleanResult{Address: at.String(), Asked: a.lastCleanRequest[at]}
			a.mu.Unlock()
			if err := a.clean(ctx, at); err != nil {
				a.log.Warn("device cleaning failed", "address", at.String(), "error", err)
				told.Refused = fault.TextOf(err)
			}
			if ctx.Err() != nil {
				return // interrupted: compute repeats the request
			}
			a.mu.Lock()
			a.cleanAnswers[told.Address] = told
			a.reportChanged()
			a.mu.Unlock()
		}
	}
}

// clean runs the operator's program for a device for one-time use and makes the device available again. A device that
// cannot be cleaned stays reserved, and a condition gives the reason.
func (a *Agent) clean(ctx context.Context, at pci.Address) error {
	a.mu.Lock()
	err := a.checkCleanable(at)
	a.mu.Unlock()
	if err != nil {
		return err
	}
	if a.o.Clean != nil {
		if err := a.o.Clean.Clean(ctx, at); err != nil {
			if ctx.Err() == nil {
				a.mu.Lock()
				a.cleanFailures[at]++
				a.condition("clean "+at.String(),
					fmt.Sprintf("%s cannot be cleaned and stays out of use (failed %d times since the agent began): %s",
						at, a.cleanFailures[at], fault.TextOf(err)))
				a.mu.Unlock()
			}
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	mark := a.journal.State().Spent()[at]
	if err := a.checkCleanable(at); err != nil {
		return err // the device has changed meanwhile
	}
	if err := a.journal.Spend(at, journal.Spent{Provider: mark.Provider, Returning: true}); err != nil {
		return err
	}
	a.set = a.set.Spend(at, false)
	a.condition("clean " + at.String())
	a.log.Info("one-time-use device cleaned", "address", at.String())
	a.reportChanged()
	signal(a.syncNow)
	return nil
}

// checkCleanable returns why a device must not or need not be cleaned. a.mu is held.
func (a *Agent) checkCleanable(at pci.Address) error {
	const op = "loop.clean"
	e, there := a.set.At(at)
	switch {
	case !there:
		return fault.New(fault.NotFound, op, "host %s offers no device %s", a.o.Host, at)
	case e.Holder != "":
		return fault.New(fault.Conflict, op, "%s is held by server %s; it can be cleaned when the server is gone", at,
			e.Holder)
	case !a.isSpent(e):
		return fault.New(fault.Conflict, op, "%s has not been used; there is nothing to clean", at)
	}
	return nil
}
