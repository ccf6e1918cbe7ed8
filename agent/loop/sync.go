package loop

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// planTries is how often a plan is discarded because another client wrote to the tree, before the agent waits.
const planTries = 5

// startRetries is how often start retries after an internal fault of Placement (status 500).
const startRetries = 5

// start runs the first sync. It waits for a Placement or a hypervisor that does not answer, and retries after internal
// faults of Placement. Any other fault refuses the start, except a conflict with other clients after the devices are
// restored: later syncs continue.
func (a *Agent) start(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := a.sync(ctx)
		if err == nil {
			return nil
		}
		a.mu.Lock()
		restored := a.restored
		a.mu.Unlock()
		if restored && fault.Is(err, fault.Conflict) {
			signal(a.syncNow)
			return nil
		}
		if !fault.Is(err, fault.Unavailable) && !(fault.Is(err, fault.Internal) && failures <= startRetries) {
			return err
		}
		a.log.Warn("start failed, will retry", "error", err)
		if !sleep(ctx, a.backoff(failures)) {
			return err
		}
	}
}

// rescanLoop syncs periodically and when signalled.
func (a *Agent) rescanLoop(ctx context.Context) {
	failures := 0
	for {
		wait := min(a.o.Rescan, a.nextSync())
		if failures > 0 {
			wait = min(wait, 10*a.backoff(failures))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.syncNow:
			timer.Stop()
		case <-timer.C:
		}
		if a.isFenced() {
			continue // another agent owns the tree
		}
		failures++
		if a.sync(ctx) == nil {
			failures = 0
		}
	}
}

// sync makes Placement's tree match the host: observe, plan, check, execute. When another client has written to the
// tree in between, the plan is discarded and sync starts again. A fault becomes a condition and is also returned.
func (a *Agent) sync(ctx context.Context) error {
	var err error
	for try := range planTries {
		if try > 0 {
			a.log.Info("provider tree changed concurrently, observing again", "error", err)
			if !sleep(ctx, a.backoff(try)) {
				return err
			}
		}
		if err = a.syncOnce(ctx); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
			break
		}
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		a.setCondition("sync", "the host cannot be reported as it is: "+fault.TextOf(err))
		return err
	}
	a.setCondition("sync")
	return nil
}

func (a *Agent) syncOnce(ctx context.Context) error {
	a.mu.Lock()
	j, root, moves := a.journal, a.root, a.guestEpoch
	a.mu.Unlock()
	s, err := a.observe(ctx, j.State(), root)
	if err != nil {
		return err
	}
	if err := a.applyObservation(s, moves); err != nil {
		return err
	}
	if err := a.detectManualReturn(s); err != nil {
		return err
	}
	fresh := a.newlyClaimedServers() // read before the claims, which then include these servers
	a.mu.Lock()
	held := a.set.Claims()
	a.mu.Unlock()
	d, err := a.plan(ctx, s, held, j.State(), a.holderStates(fresh))
	if err != nil {
		return err
	}
	a.recordMissing(d)
	sentences := slices.DeleteFunc(slices.Clone(d.plan.Notes),
		func(n string) bool { return slices.Contains(slices.Collect(maps.Values(d.plan.Warnings)), n) })
	for _, n := range d.notes {
		sentences = append(sentences, n.String())
	}
	objections := d.check(s.facts.Actual)
	for _, o := range slices.Concat(d.plan.Objections, objections) {
		sentences = append(sentences, o.String())
	}
	a.setCondition("plan", sentences...)
	if len(objections) > 0 {
		a.dropNewlyClaimed(fresh)
		return nil // the whole plan is discarded; the conditions give the reasons
	}
	if err := a.execute(ctx, s.facts.Actual, d); err != nil {
		return err
	}
	a.dropNewlyClaimed(fresh)
	a.warn(d.plan.Warnings)
	if err := a.recordReserved(heal.Apply(d.plan, s.facts.Actual)); err != nil {
		return err
	}
	if d.plan.More {
		signal(a.syncNow)
	}
	return nil
}

// warn keeps the conditions about changes of providers, as long as a guest holds a device of the provider.
func (a *Agent) warn(warned map[provider.ID]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(a.planWarnings, warned)
	held := map[provider.ID]bool{}
	for _, c := range a.set.Claims() {
		held[c.Provider] = true
	}
	maps.DeleteFunc(a.planWarnings, func(id provider.ID, _ string) bool { return !held[id] })
	var sentences []string
	for _, id := range slices.Sorted(maps.Keys(a.planWarnings)) {
		sentences = append(sentences, a.planWarnings[id])
	}
	a.condition("warnings", sentences...)
}

// applyObservation stores an observation as the agent's state. The observed guests are stored only if none was built
// or removed since the epoch.
func (a *Agent) applyObservation(s observation, moves int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, _ := a.journal.Identity()
	s.identity.Instance, s.identity.Starts, s.identity.Cloud, s.identity.Machine = a.instance, a.starts, known.Cloud,
		a.o.Machine.ID
	if known != s.identity {
		if err := a.journal.SetIdentity(s.identity); err != nil {
			return err
		}
	}
	if !slices.Equal(a.journal.State().Starts(), a.startIDs) {
		if err := a.journal.SetStarts(a.startIDs); err != nil {
			return err
		}
	}
	if s.adopted != "" {
		a.condition("identity", s.adopted)
	}
	a.root, a.tree, a.scanned, a.cells = s.identity.Provider, s.facts.Actual, s.facts.Devices, s.cells
	a.condition("host", s.problems...)
	if !a.restored {
		if err := a.restoreGuests(s); err != nil {
			return err
		}
		a.reportChanged()
		return nil
	}
	set, changes := a.set.Sync(a.withUsed(s.offers))
	for _, c := range changes {
		a.log.Info("device", "change", c.String())
	}
	a.set = set
	a.setConflictCondition()
	a.reportChanged() // also when nothing changed: compute expects a report at least once a minute
	if moves == a.guestEpoch {
		a.guests = map[string]hypervisor.Guest{}
		for _, g := range s.guests {
			a.guests[g.ID] = g
		}
		if err := a.markUsedByGuests(); err != nil {
			return err
		}
		signal(a.wake)
	}
	return nil
}

// execute writes a plan to Placement, and stops at the first fault: the next plan starts from the state at that time.
func (a *Agent) execute(ctx context.Context, actual provider.Tree, d planInput) error {
	plan := d.plan
	// Ownership is journalled first: after a crash the agent must recognise what it wrote.
	if err := a.recordOwned(plan.Owned, d.owned); err != nil {
		return err
	}
	generations := map[provider.ID]int{}
	for _, s := range plan.Steps {
		a.log.Info("placement", "step", s.String())
		if err := a.step(ctx, d, s, generations); err != nil {
			return fault.Wrap("", string(s.Op)+" "+s.Name, err)
		}
	}
	a.mu.Lock()
	a.tree = heal.Apply(plan, actual)
	a.mu.Unlock()
	return a.recordOwned(plan.Owned, nil)
}

// step makes one call to Placement and records the provider generations that it returns.
func (a *Agent) step(ctx context.Context, d planInput, s heal.Step, generations map[provider.ID]int) error {
	generation, written := generations[s.Provider]
	if !written {
		generation = s.Generation
	}
	var err error
	switch p := a.o.Placement; s.Op {
	case heal.CreateClass:
		return p.EnsureClass(ctx, resource.Class(s.Name))
	case heal.CreateTrait:
		return p.EnsureTrait(ctx, resource.Trait(s.Name))
	case heal.CreateProvider:
		var made provider.Provider
		made, err = p.CreateProvider(ctx, s.Provider, s.Name, s.Parent)
		generations[s.Provider] = made.Generation
	case heal.PutTraits:
		generations[s.Provider], err = p.PutTraits(ctx, s.Provider, generation, s.Traits)
	case heal.PutInventories:
		generations[s.Provider], err = p.PutInventories(ctx, s.Provider, generation, s.Inventories)
	case heal.Reshape:
		return a.reshape(ctx, d, s, generations)
	case heal.DeleteProvider:
		if err = p.DeleteProvider(ctx, s.Provider); fault.Is(err, fault.NotFound) {
			err = nil
		}
	default:
		err = fault.New(fault.Internal, "loop.step", "unknown operation %q", s.Op)
	}
	return err
}

// recordOwned journals what the agent owns on each provider: what it writes now, and with before also what it has
// written until now.
func (a *Agent) recordOwned(now, before heal.OwnedSet) error {
	written := a.journal.State().Owned()
	for id, m := range now {
		old := before[id]
		want := journal.Owned{Classes: union(m.Classes, old.Classes), Traits: union(m.Traits, old.Traits)}
		if slices.Equal(want.Classes, written[id].Classes) && slices.Equal(want.Traits, written[id].Traits) {
			continue
		}
		if err := a.journal.SetOwned(id, want); err != nil {
			return err
		}
	}
	if before != nil {
		return nil
	}
	for id := range written {
		if _, still := now[id]; !still {
			if err := a.journal.SetOwned(id, journal.Owned{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func union[T ~string](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
