package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/heal"
	"github.com/openberth/berth/fleet/read"
)

// auditWait is the time between the two looks of an audit.
const auditWait = time.Minute

// lookFunc reads the services of a cloud and compares them, as lookAt does.
type lookFunc func(ctx context.Context, c Clients, progress func(done, of int)) (read.Audited, error)

// lookAt reads the services of a cloud and compares them. The devices of aliases are known to compute only, so nothing
// is reported about them.
func lookAt(ctx context.Context, c Clients, progress func(done, of int)) (read.Audited, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	s, _, err := read.Read(ctx, c.Services, read.Options{Progress: progress})
	if err != nil {
		return read.Audited{}, err
	}
	s.Berth = c.Hosts != nil
	return read.Audit(ctx, c.Services, s, fleet.AuditOptions{})
}

// auditing is the audit of a session, and the changes that it has made. At most one audit or one list of changes is in
// progress.
type auditing struct {
	work
	group *sync.WaitGroup

	mu    sync.Mutex
	state auditState
}

// auditState is what the page of an audit shows. Its slices do not change.
type auditState struct {
	Step     auditStep
	Done, Of int          // of the step in progress
	Looked   time.Time    // when the last look ended
	Next     time.Time    // when the second look begins; zero: none follows
	Twice    bool         // Found was the same in two looks
	Found    read.Audited // of the last look, or of both
	Err      error        // of the last audit

	Plan    planState // what heals Found, after two looks
	Undo    planState // reverts the last changes; empty: nothing can be undone
	Results []heal.Result
	Undone  bool   // Results are those of an undo
	Failed  string // why changes were not begun
}

// auditStep is what is in progress.
type auditStep string

// The steps of an audit. Without one nothing is in progress.
const (
	looking  auditStep = "looking"
	waiting  auditStep = "waiting"
	changing auditStep = "changing"
)

// planState is a list of changes that a user can make.
type planState struct {
	ID      string // the form that makes them has it, so that other changes than those that were shown are not made
	Changes []fleet.Change
	MayNot  string // why the user cannot make them; empty: the user can
}

// get returns the state. It begins the first audit of a session.
func (a *auditing) get(session context.Context, clients Clients) auditState {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Step == "" && a.state.Looked.IsZero() && a.state.Err == nil {
		a.beginLocked(session, clients)
	}
	return a.state
}

// begin begins an audit. It returns fault.Conflict if something is in progress.
func (a *auditing) begin(session context.Context, clients Clients) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Step != "" {
		return errInProgress
	}
	a.beginLocked(session, clients)
	return nil
}

var errInProgress = fault.New(fault.Conflict, "an audit or a change of this session is in progress; wait until it ends")

func (a *auditing) beginLocked(session context.Context, clients Clients) {
	a.state.Step, a.state.Plan, a.state.Err = looking, planState{}, nil
	a.state.Done, a.state.Of = 0, 0
	a.group.Go(func() { a.audit(session, clients) })
}

// audit looks once or twice, and prepares the plan.
func (a *auditing) audit(ctx context.Context, clients Clients) {
	twice := false
	found, err := read.Twice(ctx, a.wait, func(ctx context.Context) (read.Audited, error) {
		a.update(func(s *auditState) { s.Step, s.Done, s.Of = looking, 0, 0 })
		return a.look(ctx, clients, a.progress)
	}, func(first read.Audited) {
		twice = true
		now := time.Now()
		a.update(func(s *auditState) {
			s.Step, s.Found, s.Twice, s.Looked, s.Next = waiting, first, false, now, now.Add(a.wait)
		})
	})
	var plan planState
	if err == nil && twice {
		plan = preparePlan(ctx, clients.Placement, found.Differences)
	}
	a.update(func(s *auditState) {
		s.Step, s.Next, s.Err = "", time.Time{}, err
		if err == nil {
			s.Found, s.Twice, s.Looked, s.Plan = found, twice, time.Now(), plan
		}
	})
}

func (a *auditing) update(change func(*auditState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
}

// progress records how much of a step is done.
func (a *auditing) progress(done, of int) { a.update(func(s *auditState) { s.Done, s.Of = done, of }) }

// preparePlan returns the plan that heals differences, with what its undo needs.
func preparePlan(ctx context.Context, client *placement.Client, found []fleet.Finding) planState {
	plan := planState{ID: rand.Text(), Changes: fleet.Plan(found)}
	if len(plan.Changes) == 0 {
		return planState{}
	}
	for i, c := range plan.Changes {
		if c.Provider != nil { // the page shows what was read
			own := *c.Provider
			plan.Changes[i].Provider = &own
		}
	}
	err := heal.Complete(ctx, client, plan.Changes)
	if err == nil {
		err = mayChange(ctx, client, plan.Changes)
	}
	if err != nil {
		plan.MayNot = fault.TextOf(err)
	}
	return plan
}

// mayChange returns an error if the user cannot make the changes of a plan. Placement has no request for the rights of
// a user, so it gets a write without content, which it refuses as forbidden or as not valid.
func mayChange(ctx context.Context, client *placement.Client, plan []fleet.Change) error {
	paths := map[string]string{}
	for _, c := range plan {
		if c.Allocation != nil {
			paths["allocations"] = "/allocations/" + c.Subject()
		} else {
			paths["providers"] = "/resource_providers/" + c.Subject() + "/inventories"
		}
	}
	for _, path := range paths {
		_, err := client.REST.Do(ctx, http.MethodPut, path, map[string]any{}, nil)
		if err != nil && !fault.Is(err, fault.Invalid) {
			return err
		}
	}
	return nil
}

// apply makes those changes of the plan whose subjects are named. It returns an error if the plan is not that with the
// id.
func (a *auditing) apply(session context.Context, clients Clients, id, user string, subjects []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	plan := a.state.Plan
	chosen := slices.DeleteFunc(slices.Clone(plan.Changes), func(c fleet.Change) bool {
		return !slices.Contains(subjects, c.Subject())
	})
	if err := a.checkLocked(plan, id, chosen); err != nil {
		return err
	}
	a.state.Step, a.state.Plan, a.state.Undo, a.state.Undone = changing, planState{}, planState{}, false
	a.group.Go(func() {
		done := a.each(session, user, false, chosen, func(c fleet.Change) heal.Result {
			return heal.Apply(session, clients.Placement, []fleet.Change{c})[0]
		})
		a.changed(session, clients, done)
	})
	return nil
}

// undo reverts the last changes. It returns an error if they are not those with the id.
func (a *auditing) undo(session context.Context, clients Clients, id, user string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	undo := a.state.Undo
	if err := a.checkLocked(undo, id, undo.Changes); err != nil {
		return err
	}
	a.state.Step, a.state.Plan, a.state.Undone = changing, planState{}, true
	a.group.Go(func() {
		backward := slices.Clone(undo.Changes)
		slices.Reverse(backward)
		done := a.each(session, user, true, backward, func(c fleet.Change) heal.Result {
			return heal.Undo(session, clients.Placement, []fleet.Change{c})[0]
		})
		left := slices.DeleteFunc(slices.Clone(undo.Changes), func(c fleet.Change) bool {
			return slices.ContainsFunc(done, func(d fleet.Change) bool { return d.Subject() == c.Subject() })
		})
		a.changed(session, clients, left)
	})
	return nil
}

// checkLocked returns an error if changes cannot be made now.
func (a *auditing) checkLocked(plan planState, id string, chosen []fleet.Change) error {
	switch {
	case a.state.Step != "":
		return errInProgress
	case !same(plan.ID, id):
		return fault.New(fault.Conflict, "nothing was changed: the page showed changes that are no longer the last ones; "+
			"load the page again")
	case plan.MayNot != "":
		return fault.New(fault.Forbidden, "nothing was changed: %s", plan.MayNot)
	case len(chosen) == 0:
		return fault.New(fault.Invalid, "nothing was changed: no change was chosen; choose at least one")
	}
	return nil
}

// each makes changes, or their undos, one after the other, and returns those that were made. The log has the content of
// each before it is made: if this process is killed then, an undo file can be written from it.
func (a *auditing) each(ctx context.Context, user string, undo bool, changes []fleet.Change,
	makeOne func(fleet.Change) heal.Result) (done []fleet.Change) {
	var results []heal.Result
	for i, c := range changes {
		a.update(func(s *auditState) { s.Done, s.Of = i, len(changes) })
		content, err := json.Marshal(c)
		a.log.InfoContext(ctx, "change of an audit begins", "user", user, "subject", c.Subject(), "undo", undo, "content",
			string(content), "error", err)
		r := makeOne(c)
		if results = append(results, r); r.Done {
			done = append(done, c)
		}
		a.log.InfoContext(ctx, "change of an audit ended", "user", user, "subject", r.Subject, "change", r.What, "done",
			r.Done, "why", r.Why)
	}
	a.update(func(s *auditState) { s.Results = results })
	return done
}

// changed records the changes that can be undone, and begins an audit: its last one is old.
func (a *auditing) changed(session context.Context, clients Clients, undo []fleet.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Undo = planState{}
	if len(undo) > 0 {
		a.state.Undo = planState{ID: rand.Text(), Changes: undo}
	}
	a.state.Found, a.state.Looked, a.state.Twice = read.Audited{}, time.Time{}, false
	a.beginLocked(session, clients)
}

// forget forgets the last audit, so that the next request of the page begins one.
func (a *auditing) forget() {
	a.update(func(s *auditState) {
		if s.Step == "" {
			s.Found, s.Looked, s.Err, s.Plan = read.Audited{}, time.Time{}, nil, planState{}
		}
	})
}
