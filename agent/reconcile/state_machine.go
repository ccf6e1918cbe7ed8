// Package reconcile is the agent of one host as a state machine: an event in, the next state and effects out. It
// decides everything that the agent does; package loop performs the effects and delivers the events.
//
//	event ──▶ Next ──▶ effects
//	           │
//	           ├─ stream    assignments of compute       ─▶ Watch
//	           ├─ works     servers that are not reconciled ─▶ Build, Destroy, ReportGuest, …
//	           ├─ cleaner   devices for one-time use      ─▶ CleanDevice
//	           ├─ disabler  devices out of service
//	           ├─ checker   health of devices             ─▶ CheckDevice
//	           ├─ restorer  VFs of PFs that are free      ─▶ RestoreVFs
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
	"github.com/openberth/berth/agent/reconcile/guests"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/reconcile/sync"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// State is the state of one start of an agent.
type State struct {
	core    *state.Core
	phase   phase
	retryAt time.Time // of Admit or the first report, while a previous start may still run
	waited  bool      // for a previous start

	stream   *stream
	works    *guests.Works
	cleaner  *cleaner
	disabler *disabler
	checker  *checker
	restorer *restorer
	syncer   *sync.Syncer
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
func New(config state.Config, found journal.State, id string) (*State, error) {
	c := state.NewCore(config, found)
	if err := c.BeginStart(id); err != nil {
		return nil, err
	}
	s := &State{core: c, stream: &stream{Core: c}, works: guests.NewWorks(c),
		cleaner: &cleaner{Core: c, last: map[device.ID]time.Time{}, answers: map[string]host.CleanResult{},
			failures: map[device.ID]int{}},
		checker: &checker{Core: c, wanted: map[device.ID]string{}}, syncer: sync.NewSyncer(c)}
	s.restorer = &restorer{Core: c, failures: map[device.ID]int{}, retryAt: map[device.ID]time.Time{}}
	s.disabler = &disabler{Core: c, checks: s.checker}
	s.reporter = &reporter{Core: c, works: s.works, clean: s.cleaner, disabled: s.disabler}
	s.vitality = &vitality{Core: c, reporter: s.reporter}
	return s, nil
}

// NewPlan returns a state that only plans: after Start it observes the host, plans what the agent would write to
// Placement, and stops. Its WriteJournal must be answered without writing. Plan returns the result.
func NewPlan(config state.Config, found journal.State) (*State, error) {
	config.Machine.ID = "" // a copy of the journal may be used for a plan
	s, err := New(config, found, "plan")
	if err == nil {
		s.syncer.Dry = true
	}
	return s, err
}

// Plan returns the plan of a state made by NewPlan, with the objections of treeplan.Check and with all notes; ok is
// false before it is made.
func (s *State) Plan() (plan treeplan.Plan, ok bool) {
	if !s.syncer.Planned {
		return treeplan.Plan{}, false
	}
	plan = s.syncer.Planning.Plan
	for _, n := range s.syncer.Planning.Notes {
		plan.Notes = append(plan.Notes, n.String())
	}
	plan.Notes = append(plan.Notes, condition.Texts(s.syncer.View.Problems)...)
	return plan, true
}

// Report returns the host report as it would be sent now.
func (s *State) Report() host.Report { return s.reporter.snapshot() }

// Devices returns the host's devices and their holders.
func (s *State) Devices() device.Set { return s.core.Set }

// Next applies an event at a time to the state, and returns the effects that follow from it. The state changes in
// place.
func (s *State) Next(e state.Event, now time.Time) []state.Effect {
	s.core.Now, s.core.Out = now, nil
	s.apply(e)
	s.advance()
	if write := s.core.NextWrite(now); write != nil {
		s.core.Do(write)
	}
	return s.core.Out
}

// Deadline returns the time by which Next must be called again, with Tick; zero when only other events matter.
func (s *State) Deadline() time.Time {
	at := s.core.RewriteAt
	switch s.phase {
	case admitting:
		return state.Earlier(at, s.retryAt)
	case syncing:
		return state.Earlier(at, s.syncer.Deadline())
	case reporting:
		return state.Earlier(at, s.retryAt)
	case serving:
		for _, t := range []time.Time{s.stream.deadline(), s.works.Deadline(), s.syncer.Deadline(),
			s.reporter.deadline(), s.vitality.deadline(), s.disabler.deadline(), s.checker.deadline(), s.restorer.deadline()} {
			at = state.Earlier(at, t)
		}
	}
	return at
}

// apply applies an event to the state.
func (s *State) apply(e state.Event) {
	switch e := e.(type) {
	case state.Start:
		s.begin()
	case state.DevicesChanged:
		s.core.WantSync = true
	case state.Written:
		s.journalWritten(e.Err)
	case state.Admitted:
		s.admitted(e.Err)
	case state.Received:
		s.received(e.Assignments)
	case state.StreamEnded:
		s.stream.ended(e.Err)
		s.stopWork()
	case state.HostReported:
		s.hostReported(e.Err)
	case state.AliveSent:
		s.vitality.ended(e.Err)
		s.stopWork()
	case state.Observed:
		s.syncer.Observed(e)
	case state.HypervisorChecked:
		guests.HypervisorChecked(s.works, e.Err)
	case state.UsesRead:
		s.syncer.UsesRead(e)
	case state.AllocationsRead:
		s.syncer.AllocationsRead(e)
	case state.ProviderWritten:
		s.syncer.ProviderWritten(e)
	case state.CleanEnded:
		s.cleaner.ended(e.Err)
	case state.DeviceChecked:
		s.checker.ended(e)
	case state.VFsRestored:
		s.restorer.ended(e)
	case state.VFsCompared:
		state.SetConditions(s.core, string(condition.Network), e.Conditions)
	case state.WorkDone:
		s.works.EffectDone(e)
	}
}

// advance lets each component begin what is due now. The reporter is last, because the others change the report.
func (s *State) advance() {
	switch s.phase {
	case admitting:
		if !s.retryAt.IsZero() && !s.core.Now.Before(s.retryAt) {
			s.retryAt = time.Time{}
			s.core.Do(state.Admit{Sender: s.core.Sender()})
		}
	case syncing:
		if !s.syncer.Begun {
			s.syncer.Advance()
		}
		if s.syncer.Begun { // a further sync follows the first report
			s.phase = reporting
			s.sendFirst()
		}
	case reporting:
		if !s.retryAt.IsZero() && !s.core.Now.Before(s.retryAt) {
			s.retryAt = time.Time{}
			s.reporter.send()
		}
	case serving:
		s.stream.advance()
		s.disabler.advance()
		s.core.Wake = s.core.Wake || s.works.DeadlinePassed()
		for s.core.Wake {
			s.works.Dispatch()
		}
		s.cleaner.advance()
		s.checker.advance()
		s.restorer.advance()
		s.syncer.Advance()
		s.reporter.advance()
		s.vitality.advance()
	}
}

// begin requests admission from compute. A plan needs none.
func (s *State) begin() {
	if s.syncer.Dry {
		s.phase = syncing
		return
	}
	s.phase = admitting
	s.core.Condition(condition.Configuration, "", s.core.Config.Conditions...)
	s.core.RecordStart()
	s.core.DoAfterWrite(state.Admit{Sender: s.core.Sender()})
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
	if wait := state.Takeover(err); wait > 0 && (!s.waited || wait <= clockSlack) {
		s.waited = true
		s.core.Log("waiting for the previous start to time out", "wait", wait.String(), "error", err)
		s.retryAt = s.core.Now.Add(wait)
		return true
	}
	if fault.Is(err, fault.Conflict) {
		s.core.Do(state.Stop{Err: fault.New(fault.Conflict, "%w", err).WithCode(NotAdmitted)})
		return true
	}
	if err != nil {
		s.core.Log("admission not decided yet", "error", err)
	}
	return false
}

// sendFirst sends the first report, after the ids of this start are in the journal.
func (s *State) sendFirst() {
	s.core.DoAfterWrite(state.ReportHost{Report: s.reporter.begin()})
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
	if l.EpochID != s.core.EpochRead { // compute has restarted and waits for reports
		s.core.EpochRead = l.EpochID
		s.core.ReportChanged()
	}
	before := s.core.Assignments
	if s.stream.accept(l) {
		s.stream.follow(l)
		s.disabler.receive(l)
		s.works.Reconsider(before)
		s.cleaner.receive(l.Clean)
	}
	s.stopWork()
}

// stopWork cancels all work while another agent serves the host or the assignments are not followed.
func (s *State) stopWork() {
	if s.core.Fenced || s.core.NotFollowed != "" {
		s.works.CancelAll()
	}
}

// journalWritten releases the effects that had to wait for the journal. A failed write is repeated: the decisions
// remain, and no effect that follows from them is done before. The attempts and the sync that wait for it end and begin
// again later, because the host may change until it succeeds.
func (s *State) journalWritten(err error) {
	if err != nil {
		s.core.WriteFailed(s.core.Now, s.core.Backoff)
		s.core.Warn("journal write failed, will retry", "error", err)
		s.core.Condition(condition.Journal, "",
			"the agent's journal cannot be written, so no guest is changed: "+fault.TextOf(err))
		s.works.EndHeld(err)
		s.syncer.EndHeld(err)
		return
	}
	for _, e := range s.core.Wrote() {
		s.core.Do(e)
	}
	s.core.Condition(condition.Journal, "")
}
