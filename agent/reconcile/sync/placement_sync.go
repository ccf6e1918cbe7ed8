package sync

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	// how often a plan is discarded because another client wrote to the tree, before a longer wait
	PlanTries = 5
	// how often the first sync is repeated after an internal fault of Placement (status 500)
	startRetries = 5
	secondSync   = 5 * time.Second // the default of Times.SecondSync
)

// Advance begins a sync if one is due. Another agent's tree is left alone.
func (s *Syncer) Advance() {
	switch {
	case s.Fenced || s.Planned:
		return
	case s.stage == retrying && !s.Now.Before(s.retryAt):
	case s.stage == idle && !s.Begun && !s.Now.Before(s.retryAt):
		s.try = 0
	case s.stage == idle && s.Begun && (s.WantSync || !s.Now.Before(s.dueAt())):
		s.try = 0
	default:
		return
	}
	s.WantSync = false
	s.Syncs.Begun++
	known, _ := s.State.Identity()
	s.stage, s.epoch = observing, epochs{s.GuestEpoch, s.VFEpoch}
	s.Do(s.Bandwidth.observation(state.Observe{Root: s.Root, Journalled: known.Provider}))
}

// dueAt returns the time of the next sync that nothing else causes.
func (s *Syncer) dueAt() time.Time {
	wait := s.Config.Rescan
	if s.longest > 0 {
		wait = min(wait, s.longest)
	}
	for consumer, l := range s.missing {
		if _, wanted := s.Assignments.Servers[string(consumer)]; !l.seenTwice && wanted {
			wait = min(wait, cmp.Or(s.Config.Times.SecondSync, secondSync))
		}
	}
	if awaitsRelease(s.Planning.Plan, s.endedAt.Sub(s.ReleasedAt)) {
		wait = min(wait, cmp.Or(s.Config.Times.SecondSync, secondSync))
	}
	return s.endedAt.Add(wait)
}

// releaseTime is how long after a release plans are repeated soon.
const releaseTime = time.Minute

// awaitsRelease reports whether a plan could not be made whole, the given time after devices were last freed here.
// Compute deletes the allocation after the agent has said so, which a plan that begins at once may not see yet.
func awaitsRelease(plan treeplan.Plan, after time.Duration) bool {
	return len(plan.Objections) > 0 && after < releaseTime
}

// Deadline returns the time at which advance has something to do; zero when an effect is in progress.
func (s *Syncer) Deadline() time.Time {
	switch {
	case s.Fenced:
		return time.Time{}
	case s.stage == retrying || s.stage == idle && !s.Begun:
		return s.retryAt
	case s.stage == idle:
		return s.dueAt()
	}
	return time.Time{}
}

// Observed continues with the draft of a plan.
func (s *Syncer) Observed(e state.Observed) {
	if s.stage != observing {
		return
	}
	if s.epoch.vfs != s.VFEpoch { // it may have VFs that do not exist any more, or lack others
		s.stage, s.WantSync, s.retryAt = idle, true, s.Now
		return
	}
	err := e.Err
	if err == nil {
		s.View, err = s.interpret(e.Observation)
	}
	if err == nil {
		err = s.observe(s.View, s.epoch.guests)
	}
	if err != nil {
		s.failed(err)
		return
	}
	s.detectManualReturn(s.View.facts)
	s.RecordReservedAsUsed()
	s.fresh = maps.Clone(s.NewlyClaimed)
	stateOf := s.holderStates(s.fresh, s.missing)
	if s.Dry {
		stateOf = func(resource.ConsumerID) treeplan.HolderState { return treeplan.Assigned }
	}
	var final bool
	s.planErr = nil
	if s.Planning, final, err = draft(s.View, s.Set, s.State, stateOf); err != nil {
		if s.Dry || !s.Begun {
			s.failed(err)
			return
		}
		s.planErr, final = err, true // bandwidth is reported nevertheless
	}
	s.Planning.heartbeats = s.Assignments.Heartbeats
	s.Bandwidth.draft(s.View, e.Observation)
	providers := s.Bandwidth.usedProviders()
	if final && len(providers) == 0 {
		s.write()
		return
	}
	if !final {
		providers = append(providers, s.Planning.usedProviders(s.View.facts.Actual)...)
	}
	s.stage = readingUses
	s.Do(state.ReadUses{Providers: providers, Tree: s.View.facts.Actual})
}

// UsesRead continues with the allocations of the consumers that the plan may change.
func (s *Syncer) UsesRead(e state.UsesRead) {
	if s.stage != readingUses {
		return
	}
	if e.Err != nil {
		s.failed(e.Err)
		return
	}
	s.Bandwidth.finish(e.Uses)
	if s.planErr != nil {
		s.write()
		return
	}
	s.Planning.uses, s.Planning.held = e.Uses, map[resource.ConsumerID]placement.ConsumerAllocation{}
	needed := slices.Concat(treeplan.Lacking(s.Planning.aim, s.Planning.uses),
		treeplan.Moved(s.Planning.aim, s.View.facts.Actual, s.Planning.uses))
	slices.Sort(needed)
	if len(needed) == 0 {
		s.finishPlan()
		return
	}
	s.stage = readingAllocations
	s.Do(state.ReadAllocations{Consumers: slices.Compact(needed)})
}

// AllocationsRead continues with the final plan.
func (s *Syncer) AllocationsRead(e state.AllocationsRead) {
	if s.stage != readingAllocations {
		return
	}
	if e.Err != nil {
		s.failed(e.Err)
		return
	}
	s.Planning.held = e.Allocations
	s.finishPlan()
}

func (s *Syncer) finishPlan() {
	if !s.Dry {
		s.Planning.lowerStates(s.holderStates(s.fresh, s.missing))
	}
	var err error
	if s.Planning, err = s.Planning.finish(s.View.facts.Actual); err != nil {
		s.failed(err)
		return
	}
	s.write()
}

// write checks the plan and writes it to Placement. A plan with an objection is discarded whole; the conditions give
// the reasons. Ownership is journalled first: after a crash the agent must recognise what it wrote.
func (s *Syncer) write() {
	if s.planErr != nil {
		s.beginBandwidth()
		return
	}
	d := s.Planning
	objections := d.check(s.View.facts.Actual)
	if s.Dry {
		s.Planning.Plan.Objections = append(s.Planning.Plan.Objections, objections...)
		s.Bandwidth.addTo(&s.Planning.Plan)
		s.stage, s.Planned = idle, true
		return
	}
	s.missing, s.Postponed = d.stillMissing(s.Assignments, s.missing), d.Plan.Postponed
	for holder := range s.Postponed {
		s.WantSync = s.WantSync || len(s.Set.Held(holder)) == 0 // freed since the plan was begun
	}
	state.SetConditions(s.Core, string(condition.Plan), s.conditions(objections))
	if len(objections) > 0 {
		s.dropFresh()
		s.deviceSyncEnded()
		return
	}
	s.recordOwned(d.Plan.Owned, d.owned)
	s.recordReserving(d)
	s.stage, s.step, s.generations = writing, 0, map[provider.ID]int{}
	s.writeStep()
}

// conditions returns the objections and notes of the plan, for an operator. Warnings have conditions of their own.
func (s *Syncer) conditions(objections []treeplan.Objection) (list []condition.Condition) {
	add := func(subject, text string) { list = append(list, condition.New(condition.Plan, subject, text)) }
	plan := s.Planning.Plan
	warnings := slices.Collect(maps.Values(plan.Warnings))
	for _, text := range plan.Notes {
		if !slices.Contains(warnings, text) {
			add("", text)
		}
	}
	for _, n := range s.Planning.Notes {
		add(n.About, n.String())
	}
	for _, o := range slices.Concat(plan.Objections, objections) {
		add(o.Name, o.String())
	}
	return list
}

// writeStep emits the next step of the plan, or ends the sync.
func (s *Syncer) writeStep() {
	plan := s.Planning.Plan
	if s.step == len(plan.Steps) {
		s.planWritten()
		return
	}
	step := plan.Steps[s.step]
	if generation, written := s.generations[step.Provider]; written {
		step.Generation = generation
	}
	e := state.WriteProvider{Step: step}
	if step.Op == treeplan.Reshape {
		if err := refuseReshape(step); err != nil && outdated(s.Core) {
			s.stepFailed(err)
			return
		}
		e.Reshape = s.Planning.reshape(step, s.generations)
	}
	s.Log("placement", "step", step.String())
	s.DoAfterWrite(e)
}

// ProviderWritten continues with the next step. It stops at the first fault: the next plan starts from the state at
// that time.
func (s *Syncer) ProviderWritten(e state.ProviderWritten) {
	if s.stage == writingBandwidth {
		if s.Bandwidth.written(e) {
			s.bandwidthEnded()
		}
		return
	}
	if s.stage != writing {
		return
	}
	step := s.Planning.Plan.Steps[s.step]
	if e.Err != nil {
		s.stepFailed(fault.Wrap("", e.Err))
		return
	}
	if givesGeneration(step.Op) {
		s.generations[step.Provider] = e.Generation
	}
	s.step++
	s.writeStep()
}

// stepFailed ends the writing of the plan for devices.
func (s *Syncer) stepFailed(err error) {
	if !s.Begun {
		s.failed(err)
		return
	}
	s.planErr = err
	s.beginBandwidth()
}

// givesGeneration reports whether the next write to a provider uses the generation that a step returns. MoveProvider
// checks and raises none: what it returns may be that of a claim which the plan does not know.
func givesGeneration(op treeplan.Op) bool {
	return op == treeplan.CreateProvider || op == treeplan.PutTraits || op == treeplan.PutInventories
}

// planWritten ends a sync whose plan was executed.
func (s *Syncer) planWritten() {
	plan := s.Planning.Plan
	s.Tree = treeplan.Apply(plan, s.View.facts.Actual)
	if treeplan.OnNodes(s.Tree) != treeplan.OnNodes(s.View.facts.Actual) {
		s.ReportChanged() // compute claims in another form from now on
	}
	s.recordOwned(s.Bandwidth.ownedWith(plan.Owned), nil)
	s.dropFresh()
	s.warnOfChanges(plan.Warnings)
	s.recordReserved(s.Tree)
	s.recordDisabled(s.Planning, s.Tree)
	if !plan.More {
		s.Syncs.Whole = s.Syncs.Begun
	}
	if plan.More || s.freesParent(plan) {
		s.WantSync = true
	}
	s.deviceSyncEnded()
}

// freesParent reports whether a plan deletes a device below a bandwidth provider. If that provider is not configured
// any more, it stayed for the device, and the next sync deletes it.
func (s *Syncer) freesParent(plan treeplan.Plan) bool {
	return slices.ContainsFunc(plan.Steps, func(step treeplan.Step) bool {
		gone, _ := s.View.facts.Actual.ByID(step.Provider)
		parent, below := s.View.facts.Actual.ByID(gone.Parent)
		return step.Op == treeplan.DeleteProvider && below && parent.Parent != "" // the parent is not the root
	})
}

// deviceSyncEnded ends the part of a sync for the root and the devices, and begins the part for bandwidth, which never
// delays or refuses a start.
func (s *Syncer) deviceSyncEnded() {
	s.Begun, s.failures = true, 0
	s.Condition(condition.Sync, "")
	s.beginBandwidth()
}

// beginBandwidth begins the plan for bandwidth, after the one for devices was executed, discarded or has failed.
func (s *Syncer) beginBandwidth() {
	s.recordOwned(s.Bandwidth.plan.Owned, ownedOf(s.State))
	s.stage = writingBandwidth
	if s.Bandwidth.begin() {
		s.bandwidthEnded()
	}
}

// bandwidthEnded ends a sync after the part for bandwidth. After a conflict the sync begins again.
func (s *Syncer) bandwidthEnded() {
	if s.planErr != nil {
		s.Bandwidth.report()
		s.failed(s.planErr)
		return
	}
	if s.try++; s.Bandwidth.writes.conflict && s.try < bandwidthTries {
		s.Log("bandwidth provider changed concurrently, observing again", "error", s.Bandwidth.writes.errors[0])
		s.stage, s.retryAt = retrying, s.Now.Add(s.Backoff(s.try))
		return
	}
	s.Bandwidth.report()
	s.end(nil)
	// the providers of devices for ports may belong below others now
	s.WantSync = s.WantSync || s.Config.ReportNetwork && s.Bandwidth.changedTree()
	s.longest = s.Bandwidth.retry()
}

// dropFresh removes the servers whose plan was executed or discarded from the newly claimed ones.
func (s *Syncer) dropFresh() {
	maps.DeleteFunc(s.NewlyClaimed, func(id string, _ bool) bool { return s.fresh[id] })
}

// warnOfChanges keeps the conditions about changes of providers, as long as a guest holds a device of the provider.
func (s *Syncer) warnOfChanges(warnings map[provider.ID]string) {
	maps.Copy(s.warnings, warnings)
	held := map[provider.ID]bool{}
	for _, c := range s.Set.Claims() {
		held[c.Provider] = true
	}
	maps.DeleteFunc(s.warnings, func(id provider.ID, _ string) bool { return !held[id] })
	var changed []condition.Condition
	for _, id := range slices.Sorted(maps.Keys(s.warnings)) {
		p, _ := s.Tree.ByID(id)
		changed = append(changed, condition.New(condition.ChangedProvider, p.Name, s.warnings[id]))
	}
	state.SetConditions(s.Core, string(condition.ChangedProvider), changed)
}

// failed discards the plan. When another client has written to the tree, the sync begins again.
func (s *Syncer) failed(err error) {
	if s.Dry {
		s.stage = idle
		s.Do(state.Stop{Err: err})
		return
	}
	if s.try++; (fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)) && s.try < PlanTries {
		s.Log("provider tree changed concurrently, observing again", "error", err)
		s.stage, s.retryAt = retrying, s.Now.Add(s.Backoff(s.try))
		return
	}
	s.end(err)
}

// EndHeld discards a plan whose next step waits for the journal, with the fault of a write.
func (s *Syncer) EndHeld(err error) {
	if s.DropHeldIf(func(e state.Effect) bool { _, is := e.(state.WriteProvider); return is }) {
		s.failed(err)
	}
}

// end ends a sync.
func (s *Syncer) end(err error) {
	s.stage, s.endedAt, s.longest = idle, s.Now, 0
	if err == nil {
		s.Begun, s.failures = true, 0
		s.Condition(condition.Sync, "")
		return
	}
	s.failures++
	s.Bandwidth.notAttempted()
	s.Condition(condition.Sync, "", "the host cannot be reported as it is: "+fault.TextOf(err))
	if s.Begun {
		s.longest = 10 * s.Backoff(s.failures)
		return
	}
	s.endFirst(err)
}

// endFirst decides how the start continues after a failed first sync. The start waits for a Placement or a hypervisor
// that does not answer, and retries after internal faults of Placement. Any other fault refuses the start, except that
// other clients have changed or deleted a provider after the devices are restored: later syncs continue.
func (s *Syncer) endFirst(err error) {
	switch {
	case s.Restored && (fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)):
		s.Begun, s.WantSync = true, true
	case fault.Is(err, fault.Unavailable), fault.Is(err, fault.Internal) && s.failures <= startRetries:
		s.Warn("start failed, will retry", "error", err)
		s.reportFailure(err)
		s.retryAt = s.Now.Add(s.Backoff(s.failures))
	default:
		s.Do(state.Stop{Err: err})
	}
}

// reportFailure reports why this start cannot report its host yet. It is sent again after each failed attempt.
func (s *Syncer) reportFailure(err error) {
	from := s.Sender()
	s.Do(state.SendAlive{Alive: host.Alive{Instance: from.Instance, Start: from.Start, Previous: from.Previous,
		LockID: from.LockID, Failed: fault.TextOf(err)}})
}
