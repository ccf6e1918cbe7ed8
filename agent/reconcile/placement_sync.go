package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	// how often a plan is discarded because another client wrote to the tree, before a longer wait
	planTries = 5
	// how often the first sync is repeated after an internal fault of Placement (status 500)
	startRetries = 5
	secondSync   = 5 * time.Second // maximum wait after a sync that found a missing allocation for the first time
)

// advance begins a sync if one is due. Another agent's tree is left alone.
func (s *syncer) advance() {
	switch {
	case s.fenced || s.planned:
		return
	case s.stage == retrying && !s.now.Before(s.retryAt):
	case s.stage == idle && !s.begun && !s.now.Before(s.retryAt):
		s.try = 0
	case s.stage == idle && s.begun && (s.wantSync || !s.now.Before(s.dueAt())):
		s.try = 0
	default:
		return
	}
	s.wantSync = false
	known, _ := s.state.Identity()
	s.stage, s.epoch = observing, s.guestEpoch
	s.do(s.bandwidth.observation(Observe{Root: s.root, Journalled: known.Provider}))
}

// dueAt returns the time of the next sync that nothing else causes.
func (s *syncer) dueAt() time.Time {
	wait := s.config.Rescan
	if s.longest > 0 {
		wait = min(wait, s.longest)
	}
	for consumer, l := range s.missing {
		if _, wanted := s.assignments.servers[string(consumer)]; !l.seenTwice && wanted {
			wait = min(wait, secondSync)
		}
	}
	return s.endedAt.Add(wait)
}

// deadline returns the time at which advance has something to do; zero when an effect is in progress.
func (s *syncer) deadline() time.Time {
	switch {
	case s.fenced:
		return time.Time{}
	case s.stage == retrying || s.stage == idle && !s.begun:
		return s.retryAt
	case s.stage == idle:
		return s.dueAt()
	}
	return time.Time{}
}

// observed continues with the draft of a plan.
func (s *syncer) observed(e Observed) {
	if s.stage != observing {
		return
	}
	err := e.Err
	if err == nil {
		s.view, err = s.interpret(e.Observation)
	}
	if err == nil {
		err = s.observe(s.view, s.epoch)
	}
	if err != nil {
		s.failed(err)
		return
	}
	s.detectManualReturn(s.view.facts)
	s.fresh = maps.Clone(s.newlyClaimed)
	stateOf := s.holderStates(s.fresh, s.missing)
	if s.dry {
		stateOf = func(resource.ConsumerID) treeplan.HolderState { return treeplan.Assigned }
	}
	var final bool
	s.planErr = nil
	if s.planning, final, err = draft(s.view, s.set.Claims(), s.state, stateOf); err != nil {
		if s.dry || !s.begun {
			s.failed(err)
			return
		}
		s.planErr, final = err, true // bandwidth is reported nevertheless
	}
	s.bandwidth.draft(s.view, e.Observation)
	providers := s.bandwidth.usedProviders()
	if final && len(providers) == 0 {
		s.write()
		return
	}
	if !final {
		providers = append(providers, s.planning.usedProviders(s.view.facts.Actual)...)
	}
	s.stage = readingUses
	s.do(ReadUses{Providers: providers})
}

// usesRead continues with the allocations of the consumers with a missing one.
func (s *syncer) usesRead(e UsesRead) {
	if s.stage != readingUses {
		return
	}
	if e.Err != nil {
		s.failed(e.Err)
		return
	}
	s.bandwidth.finish(e.Uses)
	if s.planErr != nil {
		s.write()
		return
	}
	s.planning.uses, s.planning.held = e.Uses, map[resource.ConsumerID]placement.ConsumerAllocation{}
	lacking := treeplan.Lacking(s.planning.aim, s.planning.uses)
	if len(lacking) == 0 {
		s.finishPlan()
		return
	}
	s.stage = readingAllocations
	s.do(ReadAllocations{Consumers: lacking})
}

// allocationsRead continues with the final plan.
func (s *syncer) allocationsRead(e AllocationsRead) {
	if s.stage != readingAllocations {
		return
	}
	if e.Err != nil {
		s.failed(e.Err)
		return
	}
	s.planning.held = e.Allocations
	s.finishPlan()
}

func (s *syncer) finishPlan() {
	var err error
	if s.planning, err = s.planning.finish(s.view.facts.Actual); err != nil {
		s.failed(err)
		return
	}
	s.write()
}

// write checks the plan and writes it to Placement. A plan with an objection is discarded whole; the conditions give
// the reasons. Ownership is journalled first: after a crash the agent must recognise what it wrote.
func (s *syncer) write() {
	if s.planErr != nil {
		s.beginBandwidth()
		return
	}
	d := s.planning
	objections := d.check(s.view.facts.Actual)
	if s.dry {
		s.planning.plan.Objections = append(s.planning.plan.Objections, objections...)
		s.bandwidth.addTo(&s.planning.plan)
		s.stage, s.planned = idle, true
		return
	}
	s.missing, s.postponed = s.stillMissing(d, s.missing), d.plan.Postponed
	for holder := range s.postponed {
		s.wantSync = s.wantSync || len(s.set.Held(holder)) == 0 // freed since the plan was begun
	}
	s.condition("plan", s.sentences(objections)...)
	if len(objections) > 0 {
		s.dropFresh()
		s.deviceSyncEnded()
		return
	}
	s.recordOwned(d.plan.Owned, d.owned)
	s.stage, s.step, s.generations = writing, 0, map[provider.ID]int{}
	s.writeStep()
}

// sentences returns the objections and notes of the plan, for an operator. Warnings have conditions of their own.
func (s *syncer) sentences(objections []treeplan.Objection) []string {
	plan := s.planning.plan
	warnings := slices.Collect(maps.Values(plan.Warnings))
	list := slices.DeleteFunc(slices.Clone(plan.Notes), func(n string) bool { return slices.Contains(warnings, n) })
	for _, n := range s.planning.notes {
		list = append(list, n.String())
	}
	for _, o := range slices.Concat(plan.Objections, objections) {
		list = append(list, o.String())
	}
	return list
}

// writeStep emits the next step of the plan, or ends the sync.
func (s *syncer) writeStep() {
	plan := s.planning.plan
	if s.step == len(plan.Steps) {
		s.planWritten()
		return
	}
	step := plan.Steps[s.step]
	if generation, written := s.generations[step.Provider]; written {
		step.Generation = generation
	}
	e := WriteProvider{Step: step}
	if step.Op == treeplan.Reshape {
		e.Reshape = s.planning.reshape(step, s.generations)
	}
	s.log("placement", "step", step.String())
	s.doAfterWrite(e)
}

// providerWritten continues with the next step. It stops at the first fault: the next plan starts from the state at
// that time.
func (s *syncer) providerWritten(e ProviderWritten) {
	if s.stage == writingBandwidth {
		if s.bandwidth.written(e) {
			s.bandwidthEnded()
		}
		return
	}
	if s.stage != writing {
		return
	}
	step := s.planning.plan.Steps[s.step]
	if e.Err != nil {
		err := fault.Wrap("", e.Err)
		if s.begun {
			s.planErr = err
			s.beginBandwidth()
			return
		}
		s.failed(err)
		return
	}
	if givesGeneration(step.Op) {
		s.generations[step.Provider] = e.Generation
	}
	s.step++
	s.writeStep()
}

// givesGeneration reports whether the next write to a provider uses the generation that a step returns. MoveProvider
// checks and raises none: what it returns may be that of a claim which the plan does not know.
func givesGeneration(op treeplan.Op) bool {
	return op == treeplan.CreateProvider || op == treeplan.PutTraits || op == treeplan.PutInventories
}

// planWritten ends a sync whose plan was executed.
func (s *syncer) planWritten() {
	plan := s.planning.plan
	s.tree = treeplan.Apply(plan, s.view.facts.Actual)
	s.recordOwned(s.bandwidth.ownedWith(plan.Owned), nil)
	s.dropFresh()
	s.warnOfChanges(plan.Warnings)
	s.recordReserved(s.tree)
	if plan.More || s.freesParent(plan) {
		s.wantSync = true
	}
	s.deviceSyncEnded()
}

// freesParent reports whether a plan deletes a device below a bandwidth provider. If that provider is not configured
// any more, it stayed for the device, and the next sync deletes it.
func (s *syncer) freesParent(plan treeplan.Plan) bool {
	return slices.ContainsFunc(plan.Steps, func(step treeplan.Step) bool {
		gone, _ := s.view.facts.Actual.ByID(step.Provider)
		parent, below := s.view.facts.Actual.ByID(gone.Parent)
		return step.Op == treeplan.DeleteProvider && below && parent.Parent != "" // the parent is not the root
	})
}

// deviceSyncEnded ends the part of a sync for the root and the devices, and begins the part for bandwidth, which never
// delays or refuses a start.
func (s *syncer) deviceSyncEnded() {
	s.begun, s.failures = true, 0
	s.condition("sync")
	s.beginBandwidth()
}

// beginBandwidth begins the plan for bandwidth, after the one for devices was executed, discarded or has failed.
func (s *syncer) beginBandwidth() {
	s.recordOwned(s.bandwidth.plan.Owned, ownedOf(s.state))
	s.stage = writingBandwidth
	if s.bandwidth.begin() {
		s.bandwidthEnded()
	}
}

// bandwidthEnded ends a sync after the part for bandwidth. After a conflict the sync begins again.
func (s *syncer) bandwidthEnded() {
	if s.planErr != nil {
		s.bandwidth.report()
		s.failed(s.planErr)
		return
	}
	if s.try++; s.bandwidth.writes.conflict && s.try < bandwidthTries {
		s.log("bandwidth provider changed concurrently, observing again", "error", s.bandwidth.writes.errors[0])
		s.stage, s.retryAt = retrying, s.now.Add(s.backoff(s.try))
		return
	}
	s.bandwidth.report()
	s.end(nil)
	// the providers of devices for ports may belong below others now
	s.wantSync = s.wantSync || s.config.ReportNetwork && s.bandwidth.changedTree()
	s.longest = s.bandwidth.retry()
}

// dropFresh removes the servers whose plan was executed or discarded from the newly claimed ones.
func (s *syncer) dropFresh() {
	maps.DeleteFunc(s.newlyClaimed, func(id string, _ bool) bool { return s.fresh[id] })
}

// warnOfChanges keeps the conditions about changes of providers, as long as a guest holds a device of the provider.
func (s *syncer) warnOfChanges(warnings map[provider.ID]string) {
	maps.Copy(s.warnings, warnings)
	held := map[provider.ID]bool{}
	for _, c := range s.set.Claims() {
		held[c.Provider] = true
	}
	maps.DeleteFunc(s.warnings, func(id provider.ID, _ string) bool { return !held[id] })
	var sentences []string
	for _, id := range slices.Sorted(maps.Keys(s.warnings)) {
		sentences = append(sentences, s.warnings[id])
	}
	s.condition("warnings", sentences...)
}

// failed discards the plan. When another client has written to the tree, the sync begins again.
func (s *syncer) failed(err error) {
	if s.dry {
		s.stage = idle
		s.do(Stop{Err: err})
		return
	}
	if s.try++; (fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)) && s.try < planTries {
		s.log("provider tree changed concurrently, observing again", "error", err)
		s.stage, s.retryAt = retrying, s.now.Add(s.backoff(s.try))
		return
	}
	s.end(err)
}

// endHeld discards a plan whose next step waits for the journal, with the fault of a write.
func (s *syncer) endHeld(err error) {
	if s.dropHeldIf(func(e Effect) bool { _, is := e.(WriteProvider); return is }) {
		s.failed(err)
	}
}

// end ends a sync.
func (s *syncer) end(err error) {
	s.stage, s.endedAt, s.longest = idle, s.now, 0
	if err == nil {
		s.begun, s.failures = true, 0
		s.condition("sync")
		return
	}
	s.failures++
	s.bandwidth.notAttempted()
	s.condition("sync", "the host cannot be reported as it is: "+fault.TextOf(err))
	if s.begun {
		s.longest = 10 * s.backoff(s.failures)
		return
	}
	s.endFirst(err)
}

// endFirst decides how the start continues after a failed first sync. The start waits for a Placement or a hypervisor
// that does not answer, and retries after internal faults of Placement. Any other fault refuses the start, except that
// other clients have changed or deleted a provider after the devices are restored: later syncs continue.
func (s *syncer) endFirst(err error) {
	switch {
	case s.restored && (fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)):
		s.begun, s.wantSync = true, true
	case fault.Is(err, fault.Unavailable), fault.Is(err, fault.Internal) && s.failures <= startRetries:
		s.warn("start failed, will retry", "error", err)
		s.reportFailure(err)
		s.retryAt = s.now.Add(s.backoff(s.failures))
	default:
		s.do(Stop{Err: err})
	}
}

// reportFailure reports why this start cannot report its host yet. It is sent again after each failed attempt.
func (s *syncer) reportFailure(err error) {
	from := s.sender()
	s.do(SendAlive{Alive: host.Alive{Instance: from.Instance, Start: from.Start, Previous: from.Previous,
		LockID: from.LockID, Failed: fault.TextOf(err)}})
}
