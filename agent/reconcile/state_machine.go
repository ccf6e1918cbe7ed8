// Package reconcile is the agent of one host as a state machine: an event in, the next state and effects out. It
// decides everything that the agent does; package loop performs the effects and delivers the events.
//
//	event ──▶ Next ──▶ effects
//	           │
//	           ├─ stream    assignments of compute       ─▶ Watch
//	           ├─ works     servers that are not reconciled ─▶ Build, Destroy, ReportGuest, …
//	           ├─ cleaner   devices for one-time use      ─▶ CleanDevice
//	           ├─ syncer    Placement's tree              ─▶ Observe, ReadUses, WriteProvider, …
//	           ├─ reporter  the host report               ─▶ ReportHost
//	           ├─ vitality  evidence that the agent works ─▶ SendAlive
//	           └─ journalQueue  the journal               ─▶ WriteJournal
//
// The agent receives no commands. One message of assignments describes the desired state of the whole host. The
// machine compares it with its journal and its guests and converges in idempotent effects, so it may be ended between
// any two of them, and a new machine on the durable entries of the journal continues. A device is claimed in the
// journal before its guest is built, and freed after its guest is destroyed. An observation never frees a guest's
// claim. A guest that the assignments do not mention is not destroyed: the assignments must name it for removal.
//
// The package has no clock, no randomness and no I/O: Next receives the time, and Config the sources of ids and jitter.
package reconcile

import (
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// State is the state of one start of an agent.
type State struct {
	*core
	phase   phase
	retryAt time.Time // of Admit or the first report, while a previous start may still run
	waited  bool      // for a previous start

	stream   *stream
	works    *works
	cleaner  *cleaner
	syncer   *syncer
	reporter *reporter
	vitality *vitality
}

// phase is how far a start is.
type phase int

const (
	created   phase = iota
	admitting       // compute must admit this start before Placement is written
	syncing         // the host and Placement are compared for the first time
	reporting       // compute must have a report, which admits this start again: two agents may start at once
	serving
)

// New returns the state of a start with an id and the content of the journal. The fault is Conflict when the journal
// was written on another machine.
func New(config Config, found journal.State, id string) (*State, error) {
	c := newCore(config, found)
	if err := c.beginStart(id); err != nil {
		return nil, err
	}
	s := &State{core: c, stream: &stream{core: c}, works: newWorks(c),
		cleaner: &cleaner{core: c, last: map[device.ID]time.Time{}, answers: map[string]host.CleanResult{},
			failures: map[device.ID]int{}},
		syncer: newSyncer(c)}
	s.reporter = &reporter{core: c, works: s.works, clean: s.cleaner}
	s.vitality = &vitality{core: c, reporter: s.reporter}
	return s, nil
}

// NewPlan returns a state that only plans: after Start it observes the host, plans what the agent would write to
// Placement, and stops. Its WriteJournal must be answered without writing. Plan returns the result.
func NewPlan(config Config, found journal.State) (*State, error) {
	config.Machine.ID = "" // a copy of the journal may be used for a plan
	s, err := New(config, found, "plan")
	if err == nil {
		s.syncer.dry = true
	}
	return s, err
}

// Plan returns the plan of a state made by NewPlan, with the objections of treeplan.Check and with all notes; ok is
// false before it is made.
func (s *State) Plan() (plan treeplan.Plan, ok bool) {
	if !s.syncer.planned {
		return treeplan.Plan{}, false
	}
	plan = s.syncer.planning.plan
	for _, n := range s.syncer.planning.notes {
		plan.Notes = append(plan.Notes, n.String())
	}
	plan.Notes = append(plan.Notes, s.syncer.view.problems...)
	return plan, true
}

// Report returns the host report as it would be sent now.
func (s *State) Report() host.Report { return s.reporter.snapshot() }

// Devices returns the host's devices and their holders.
func (s *State) Devices() device.Set { return s.set }

// Next applies an event at a time to the state, and returns the effects that follow from it. The state changes in
// place.
func (s *State) Next(e Event, now time.Time) []Effect {
	s.now, s.out = now, nil
	s.apply(e)
	s.advance()
	if write := s.nextWrite(now); write != nil {
		s.do(write)
	}
	return s.out
}

// Deadline returns the time by which Next must be called again, with Tick; zero when only other events matter.
func (s *State) Deadline() time.Time {
	at := s.rewriteAt
	switch s.phase {
	case admitting:
		return earlier(at, s.retryAt)
	case syncing:
		return earlier(at, s.syncer.deadline())
	case reporting:
		return earlier(at, s.retryAt)
	case serving:
		for _, t := range []time.Time{s.stream.deadline(), s.works.deadline(), s.syncer.deadline(),
			s.reporter.deadline(), s.vitality.deadline()} {
			at = earlier(at, t)
		}
	}
	return at
}

// apply applies an event to the state.
func (s *State) apply(e Event) {
	switch e := e.(type) {
	case Start:
		s.begin()
	case DevicesChanged:
		s.wantSync = true
	case Written:
		s.journalWritten(e.Err)
	case Admitted:
		s.admitted(e.Err)
	case Received:
		s.received(e.Assignments)
	case StreamEnded:
		s.stream.ended(e.Err)
		s.stopWork()
	case HostReported:
		s.hostReported(e.Err)
	case AliveSent:
		s.vitality.ended(e.Err)
		s.stopWork()
	case Observed:
		s.syncer.observed(e)
	case HypervisorChecked:
		hypervisorChecked(s.works, e.Err)
	case UsesRead:
		s.syncer.usesRead(e)
	case AllocationsRead:
		s.syncer.allocationsRead(e)
	case ProviderWritten:
		s.syncer.providerWritten(e)
	case CleanEnded:
		s.cleaner.ended(e.Err)
	case VFsCompared:
		s.condition("ports", e.Conditions...)
	case WorkDone:
		s.works.effectDone(e)
	}
}

// advance lets each component begin what is due now. The reporter is last, because the others change the report.
func (s *State) advance() {
	switch s.phase {
	case admitting:
		if !s.retryAt.IsZero() && !s.now.Before(s.retryAt) {
			s.retryAt = time.Time{}
			s.do(Admit{Sender: s.sender()})
		}
	case syncing:
		if !s.syncer.begun {
			s.syncer.advance()
		}
		if s.syncer.begun { // a further sync follows the first report
			s.phase = reporting
			s.sendFirst()
		}
	case reporting:
		if !s.retryAt.IsZero() && !s.now.Before(s.retryAt) {
			s.retryAt = time.Time{}
			s.reporter.send()
		}
	case serving:
		s.stream.advance()
		s.wake = s.wake || s.works.deadlinePassed()
		for s.wake {
			s.works.dispatch()
		}
		s.cleaner.advance()
		s.syncer.advance()
		s.reporter.advance()
		s.vitality.advance()
	}
}

// begin requests admission from compute. A plan needs none.
func (s *State) begin() {
	if s.syncer.dry {
		s.phase = syncing
		return
	}
	s.phase = admitting
	s.condition("configuration", s.config.Conditions...)
	s.recordStart()
	s.doAfterWrite(Admit{Sender: s.sender()})
}

// admitted continues with the first sync, unless another agent serves the host. When compute does not answer, the
// first report requests admission again.
func (s *State) admitted(err error) {
	if s.phase != admitting || s.refused(err) {
		return
	}
	s.phase = syncing
}

// clockSlack is how much a wait that compute has measured may be too short.
const clockSlack = 2 * time.Second

// NotAdmitted is the code of the fault of an agent that ends because another one serves its host.
const NotAdmitted = "berth.agent.not_admitted"

// refused handles the fault of Admit or of the first report: a start that a previous one precludes waits for it to end,
// or ends itself. If it is refused again after the wait, the previous one has shown that it lives: this is a copy of
// its directory or machine. It returns false when the start continues.
func (s *State) refused(err error) bool {
	if wait := takeover(err); wait > 0 && (!s.waited || wait <= clockSlack) {
		s.waited = true
		s.log("waiting for the previous start to time out", "wait", wait.String(), "error", err)
		s.retryAt = s.now.Add(wait)
		return true
	}
	if fault.Is(err, fault.Conflict) {
		s.do(Stop{Err: fault.New(fault.Conflict, "%w", err).WithCode(NotAdmitted)})
		return true
	}
	if err != nil {
		s.log("admission not decided yet", "error", err)
	}
	return false
}

// sendFirst sends the first report, after the ids of this start are in the journal.
func (s *State) sendFirst() {
	s.doAfterWrite(ReportHost{Report: s.reporter.begin()})
}

// hostReported continues after a host report; after the first one, the agent serves the host.
func (s *State) hostReported(err error) {
	s.reporter.ended(err)
	if s.phase == reporting && !s.refused(err) {
		s.phase = serving
	}
	s.stopWork()
}

// received follows assignments, if they are accepted. A message of a stream that has ended is ignored: it may be older
// than one of the next stream.
func (s *State) received(l host.Assignments) {
	if !s.stream.open {
		return
	}
	s.stream.failures = 0
	if l.EpochID != s.epochRead { // compute has restarted and waits for reports
		s.epochRead = l.EpochID
		s.reportChanged()
	}
	before := s.assignments
	if s.stream.accept(l) {
		s.stream.follow(l)
		s.works.reconsider(before)
		s.cleaner.receive(l.Clean)
	}
	s.stopWork()
}

// stopWork cancels all work while another agent serves the host or the assignments are not followed.
func (s *State) stopWork() {
	if s.fenced || s.notFollowed != "" {
		s.works.cancelAll()
	}
}

// journalWritten releases the effects that had to wait for the journal. A failed write is repeated: the decisions
// remain, and no effect that follows from them is done before. The attempts and the sync that wait for it end and begin
// again later, because the host may change until it succeeds.
func (s *State) journalWritten(err error) {
	if err != nil {
		s.writeFailed(s.now, s.backoff)
		s.warn("journal write failed, will retry", "error", err)
		s.condition("journal", "the agent's journal cannot be written, so no guest is changed: "+fault.TextOf(err))
		s.works.endHeld(err)
		s.syncer.endHeld(err)
		return
	}
	for _, e := range s.wrote() {
		s.do(e)
	}
	s.condition("journal")
}
