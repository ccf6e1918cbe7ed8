package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// events are all that can happen to a server in this state, right, late and from elsewhere.
func events(s Server) []Event {
	picked := []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1", Provider: "pf-a"}}
	list := []Event{
		Created{}, prepared, Released{}, AllocationsMoved{}, AllocationsRestored{}, MinCountReached{},
		MinCountFailed{Reason: "too few"}, DeleteRequested{}, DeleteRequested{Silent: true},
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 3},
		Chosen{Choices: []schedule.Choice{choice("b"), choice("a")}, Candidates: 2, Refused: "1 host: x"},
		NoValidHost{Candidates: 2, Reason: "2 hosts: full", Again: true}, NoValidHost{Reason: "nothing left"},
		Claimed{Try: s.Try}, Claimed{Try: s.Try - 1}, ClaimLost{Try: s.Try, Reason: "taken"}, ClaimLost{Try: s.Try - 1,
			Reason: "taken"},
		HostDead{Host: "a"},
	}
	for _, step := range []Step{Prepare, Schedule, Claim, Release, MoveAllocations, RestoreAllocations, ReleaseLeftover,
		CheckMinCount} {
		list = append(list, Refused{Step: step, Reason: "forbidden"}, StepFailed{Step: step, Reason: "does not answer"})
	}
	list = append(list, StepFailed{Step: RestoreAllocations, Reason: "forbidden", Refused: true})
	for _, as := range []string{"s", "m1", "m2"} {
		list = append(list, LeftoverReleased{Consumer: as})
		for _, host := range []string{"a", "b", ""} {
			list = append(list, GuestClaimed{Host: host, Consumer: as, Devices: picked}, GuestRunning{Host: host, Consumer: as,
				Devices: picked},
				GuestStopped{Host: host, Consumer: as, Devices: picked}, GuestRefused{Host: host, Consumer: as, Devices: picked,
					Message: "no"},
				GuestRefused{Host: host, Consumer: as, Devices: picked, Message: "no", Stopped: true}, GuestMigrated{Host: host,
					Consumer: as},
				GuestFailed{Host: host, Consumer: as, Message: "no hugepages"}, GuestGone{Host: host, Consumer: as})
		}
	}
	wishes := []Action{Confirm, Revert, Offload, Reset}
	switch {
	case s.MinCount > 1: // how it begins is all that is different
	case s.Migration == nil:
		wishes = append(wishes, Start, Stop, Reboot, Rebuild, Shelve, Unshelve)
		for _, a := range []Action{Resize, Live, Evacuate} {
			list = append(list, ActionRequested{ID: "m1", Action: a, SameHost: true})
		}
	case s.Migration.ID == "m1" && len(s.Leftovers) == 0 && !testing.Short(): // the second move is one of a kind
		list = append(list, ActionRequested{ID: "m2", Action: Resize, SameHost: true})
	}
	for _, a := range wishes {
		list = append(list, ActionRequested{ID: "w", Action: a, Hard: true})
	}
	return list
}

// facts are what Placement and the hosts may have, as far as the record of the server determines it.
type facts struct {
	claims map[string]bool // consumers for which Placement may have an allocation
	guests map[string]bool // "host id": guests that agents have reported, and not as gone
}

// after returns the facts after an event.
func (w facts) after(before Server, e Event, now Server) facts {
	w = facts{maps.Clone(w.claims), maps.Clone(w.guests)}
	swap := func(from, to string) {
		if w.claims[from] {
			delete(w.claims, from)
			w.claims[to] = true
		}
	}
	switch e := e.(type) {
	case ClaimLost:
		if before.isDue(Claim) && e.Try == before.Try {
			delete(w.claims, "s")
		}
	case Released:
		if slices.Contains(before.Steps(), Release) {
			delete(w.claims, "s")
		}
	case AllocationsMoved:
		if before.Phase() == MovingAllocations {
			swap("s", before.Move.Consumer)
		}
	case AllocationsRestored:
		if before.Phase() == RestoringAllocations {
			swap(before.Move.Consumer, "s")
		}
	case LeftoverReleased:
		if left, ok := before.NextLeftover(); ok && left.Consumer == e.Consumer {
			delete(w.claims, e.Consumer)
		}
	case HostDead:
		maps.DeleteFunc(w.guests, func(at string, _ bool) bool { return strings.HasPrefix(at, e.Host+" ") })
	case GuestClaimed:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestRunning:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestStopped:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestRefused:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestMigrated:
		w.renamed(before, e.Host, e.Consumer)
	case GuestFailed:
		stays := before.Move != nil && before.Move.Kind == LiveMigration && e.Consumer == before.Move.From.Consumer &&
			(before.Phase() == LiveMigrating || before.Move.Failed != "")
		if !stays {
			w.removeGuest(before, e.Host, e.Consumer)
		}
	case GuestGone:
		if !before.Expects(e.Consumer, e.Host) { // else it means little: the agent builds it again
			w.removeGuest(before, e.Host, e.Consumer)
		}
	}
	if now.isDue(Claim) {
		w.claims["s"] = true // from now on the claim may be written
	}
	return w
}

// removeGuest removes a guest, under whichever id it had.
func (w facts) removeGuest(before Server, host, as string) {
	delete(w.guests, host+" "+as)
	for _, l := range before.Residences() {
		if l.Host == host && l.Consumer == as && l.PreviousConsumer != "" && (as == "s" || before.AllocatedHost() != host) {
			delete(w.guests, host+" "+l.PreviousConsumer)
		}
		// the guest is gone before its agent has its new id
		if l.Host == host && l.PreviousConsumer == as && (l.Consumer == "s" || before.AllocatedHost() != host) {
			delete(w.guests, host+" "+l.Consumer)
		}
	}
}

// addGuest adds a guest that an agent reports, under its present id.
func (w facts) addGuest(before Server, host, as string) {
	if before.Expects(as, host) {
		w.guests[host+" "+as] = true
	}
	w.renamed(before, host, as)
}

func (w facts) renamed(before Server, host, as string) {
	for _, l := range before.Residences() {
		if was := host + " " + l.PreviousConsumer; l.Host == host && l.Consumer == as && l.PreviousConsumer != "" &&
			!l.Gone && w.guests[was] {
			delete(w.guests, was)
			w.guests[host+" "+as] = true
		}
	}
}

func wrong(s Server, w facts) string {
	last := func(want ...State) bool { return slices.Contains(want, s.State) }
	phase := func(want ...MovePhase) bool { return slices.Contains(want, s.Phase()) }
	stays := s.Residences()
	for c := range w.claims {
		owned := c == "s" && !last("", Preparing, Scheduling, Shelved, Error, DeletedAwaitingCleanup, Deleted) &&
			!phase(SchedulingDestination, AwaitingSourceAck, RevertBlocked) &&
			(s.Move == nil || s.Move.AllocationsMoved() || s.Move.From.Consumer == "s") ||
			slices.ContainsFunc(stays, func(l Residence) bool { return l.Consumer == c })
		if !owned {
			return c + " may have an allocation that is not released"
		}
	}
	for at := range w.guests {
		host, id, _ := strings.Cut(at, " ")
		if !slices.ContainsFunc(stays, func(l Residence) bool {
			return l.Host == host &&
				(l.Consumer == id || l.PreviousConsumer == id)
		}) {
			return "its guest " + at + " may be on a host that does not count it"
		}
		if l, ok := s.NextLeftover(); ok && l.Host == host && (l.Consumer == id) {
			return "what it left is given back while its guest " + at + " may be there"
		}
		others := slices.ContainsFunc(stays, func(l Residence) bool {
			return l.Host == host && (l.Consumer == id || l.PreviousConsumer == id) && l.Consumer != "s"
		})
		if slices.Contains(s.Steps(), Release) && id == "s" && !others {
			return "its claim is given back while its guest " + at + " may be there"
		}
	}
	steps := len(s.ownSteps())
	switch {
	case s.State != "" && !slices.Contains(States(), s.State):
		return "an unknown state"
	case s.Move != nil && !slices.Contains(MovePhases(), s.Move.Phase):
		return "an unknown phase"
	case (s.State == Moving) != (s.Move != nil):
		return "it moves without a move, or has a move and does not move"
	case (last(Spawning, Active, DeletingGuest, AwaitingMinCount, Shelving) || phase(SpawningDestination, Resized,
		StoppingSource, PreLiveMigration, LiveMigrating, Reverting)) && s.Host == "":
		return "it is placed on no host"
	case (last(Error, Deleted, Active, Spawning, DeletingGuest, Shelved, Shelving, DeletedAwaitingCleanup) ||
		phase(SpawningDestination, Resized, AwaitingSourceAck, StoppingSource, PreLiveMigration, LiveMigrating, Reverting,
			RevertBlocked)) != (steps == 0) && s.State != "":
		return "a state that waits or ends has a step, or one on the way has none"
	case (last(Claiming) || phase(ClaimingDestination, MovingAllocations)) && len(s.Choices) == 0:
		return "there is nothing to claim"
	case (last(Error, Failing) || phase(RevertBlocked)) && (s.Fault == nil || s.Fault.Message == ""):
		return "it fails without a sentence"
	case last(Deleted) && s.Ended.IsZero():
		return "it ended at no time"
	case last(DeletedAwaitingCleanup) && len(s.Leftovers) == 0:
		return "it lingers for nothing"
	case s.Round > MaxRounds:
		return "too many rounds"
	case (last(Spawning) || phase(SpawningDestination)) && (len(s.Requests) != 1 || len(s.Requests[0].Providers) != 1):
		return "its requests do not name the chosen provider"
	}
	seen := map[string]bool{}
	for _, l := range stays {
		if seen[l.Consumer] {
			return "two stays of consumer " + l.Consumer
		}
		seen[l.Consumer] = true
	}
	return ""
}

type node struct {
	Server
	facts
}

// key returns the same text for nodes that the same events may follow.
func (n node) key() string {
	s := n.Server
	k := fmt.Sprint(s.MinCount, s.MinCountReached, s.Stage(), s.Host, s.Reported, s.PreviousConsumer, s.Round,
		len(s.Choices), s.Power, s.Stopped, s.Task, s.Shelved, s.Fault != nil, s.Launched.IsZero(),
		s.Requested.IsZero(), s.Migration != nil && s.Migration.ID == "m2", s.Migration == nil)
	if m := s.Move; m != nil {
		k += fmt.Sprint(m.Kind, m.StopSource, m.SourceStopped, m.RevertRequested, m.Failed != "",
			m.SourceLost != "", m.From.Consumer, m.From.PreviousConsumer, m.From.Host, m.From.Gone)
	}
	for _, l := range s.Leftovers {
		k += fmt.Sprint(l.Consumer, l.PreviousConsumer, l.Host, l.Gone)
	}
	return k + fmt.Sprint(slices.Sorted(maps.Keys(n.claims)), slices.Sorted(maps.Keys(n.guests)))
}

// trim takes away what grows and does not matter: of the rounds, only the last are walked.
func trim(s Server) Server {
	s.Round, s.Try, s.History, s.FailedHosts, s.FilterFailures, s.LastAction = max(s.Round,
		MaxRounds-2), 1, nil, nil, nil, ""
	s.Builds = 0
	if s.Move != nil {
		move := *s.Move
		move.Refusals = MaxRefusals - 1
		s.Move = &move
	}
	return s
}

// Everything that can happen to a server happens to it, in every order, through up to two moves: after each event the
// invariants hold, and whatever the state, deleting it and letting Placement and the agents answer ends in deleted with
// nothing held; and when everybody does his part, it comes to rest.
func TestAllEventSequences(t *testing.T) {
	start := node{Server: fresh(), facts: facts{map[string]bool{}, map[string]bool{}}}
	together := start
	together.MinCount = 2
	seen := map[string]bool{start.key(): true, together.key(): true}
	states, phases := map[State]bool{}, map[MovePhase]bool{}
	queue := []node{start, together}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		states[n.State], phases[n.Phase()] = true, true
		if n.State != "" {
			comesToRest(t, n)
			canEnd(t, n)
		}
		before := snapshot(t, n.Server)
		for _, e := range events(n.Server) {
			s, known := transition(n.Server, e, noon)
			if !known {
				t.Fatalf("%s × %T: the transition is not listed", n.Stage(), e)
			}
			s = trim(s)
			next := node{s, n.after(n.Server, e, s)}
			if why := wrong(s, next.facts); why != "" {
				t.Fatalf("%s (%+v) × %#v → %s (%+v): %s\n%s\n%s", n.Stage(), n.facts, e, s.Stage(), next.facts, why, before,
					snapshot(t, s))
			}
			if key := next.key(); !seen[key] && len(s.Leftovers) < 2 {
				seen[key] = true
				queue = append(queue, next)
			}
		}
		if snapshot(t, n.Server) != before {
			t.Fatalf("%s: an event has changed the server given", before)
		}
	}
	for _, s := range append(States(), "") {
		if !states[s] {
			t.Errorf("%s was never reached", s)
		}
	}
	for _, p := range MovePhases() {
		if !phases[p] {
			t.Errorf("%s was never reached", p)
		}
	}
	if len(seen) < 1000 {
		t.Errorf("only %d situations: the walk shows nothing", len(seen))
	}
	t.Logf("%d situations", len(seen))
}

func snapshot(t *testing.T, s Server) string {
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// answers returns the events that complete what is due or awaited, as if nothing failed.
func answers(s Server) []Event {
	for _, l := range s.Leftovers {
		if !l.Gone {
			return []Event{GuestGone{Host: l.Host, Consumer: l.Consumer}}
		}
	}
	if l, ok := s.NextLeftover(); ok {
		return []Event{LeftoverReleased{Consumer: l.Consumer}}
	}
	switch {
	case s.isDue(Prepare):
		return []Event{prepared}
	case s.isDue(Schedule):
		return []Event{Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}}
	case s.isDue(Claim):
		return []Event{Claimed{Try: s.Try}}
	case s.isDue(CheckMinCount):
		return []Event{MinCountReached{}}
	case s.isDue(MoveAllocations):
		return []Event{AllocationsMoved{}}
	case s.isDue(RestoreAllocations):
		return []Event{AllocationsRestored{}}
	case s.isDue(Release):
		return []Event{Released{}}
	case s.State == DeletingGuest, s.State == Shelving, s.Phase() == Reverting:
		return []Event{GuestGone{Host: s.Host, Consumer: "s"}}
	case s.Phase() == RevertBlocked:
		return []Event{ActionRequested{ID: "w", Action: Reset}}
	case s.Phase() == LiveMigrating:
		return []Event{GuestMigrated{Host: s.Move.From.Host, Consumer: s.Move.From.Consumer}}
	}
	var list []Event
	for _, e := range s.Entries() {
		switch {
		case e.Incoming:
			list = append(list, GuestClaimed{Host: e.Host, Consumer: e.Consumer})
		case e.Power == Off:
			list = append(list, GuestStopped{Host: e.Host, Consumer: e.Consumer})
		default:
			list = append(list, GuestRunning{Host: e.Host, Consumer: e.Consumer})
		}
	}
	return list
}

// comesToRest lets everybody do his part.
func comesToRest(t *testing.T, n node) {
	s := n.Server
	for range 40 {
		waits := slices.Contains([]State{Active, Error, Shelved, Deleted}, s.State) || s.Phase() == Resized
		if waits && s.TaskState() == "" && len(s.Leftovers) == 0 {
			return
		}
		for _, e := range answers(s) {
			s, _ = Next(s, e, noon)
		}
	}
	t.Fatalf("%s does not come to rest: it ends in\n%s", snapshot(t, n.Server), snapshot(t, s))
}

// canEnd deletes the server and completes each step.
func canEnd(t *testing.T, n node) {
	s, _ := Next(n.Server, DeleteRequested{}, noon)
	for range 20 {
		if s.State == Deleted {
			return
		}
		for _, e := range answers(s) {
			s, _ = Next(s, e, noon)
		}
	}
	t.Fatalf("from %s, deleting ends in\n%s", snapshot(t, n.Server), snapshot(t, s))
}

// Each answer to a due step moves the server on, or the runner would repeat it without end.
func TestEveryResultChangesTheServer(t *testing.T) {
	for _, c := range []struct {
		state  State
		answer Event
	}{
		{Preparing, prepared},
		{Preparing, Refused{Step: Prepare}},
		{Scheduling, Chosen{Choices: []schedule.Choice{choice("a")}}},
		{Scheduling, Chosen{}},
		{Scheduling, NoValidHost{}},
		{Scheduling, NoValidHost{Again: true}},
		{Scheduling, Refused{Step: Schedule}},
		{Claiming, Claimed{Try: 1}},
		{Claiming, ClaimLost{Try: 1}},
		{Claiming, Refused{Step: Claim}},
		{Rescheduling, Released{}},
		{Failing, Released{}},
		{DeletingAllocation, Released{}},
	} {
		s := fresh()
		s.State, s.Try, s.Choices = c.state, 1, []schedule.Choice{choice("a"), choice("b")}
		next, _ := Next(s, c.answer, noon)
		if next.State == s.State && next.Try == s.Try && next.Round == s.Round {
			t.Errorf("%s × %T stays where it is", c.state, c.answer)
		}
	}
}
