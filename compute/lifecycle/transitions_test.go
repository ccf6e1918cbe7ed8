package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func fresh() Server { return Server{ID: "s", Name: "web"} }

// prepared is what the servers of these tests request.
var prepared = Prepared{Requests: []pci.Request{{ID: "R", Alias: "nic", Count: 1}}}

func choice(host string) schedule.Choice {
	return schedule.Choice{Host: host, Root: provider.ID("root-" + host),
		Mappings: map[string][]provider.ID{"R-0": {provider.ID("pf-" + host)}}}
}

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

// world is what may be true outside, as far as the server's record allows to know it.
type world struct {
	claims map[string]bool // consumers for which Placement may hold something
	guests map[string]bool // "host id": guests that agents have told of, and not yet of their end
}

// after says how the world may be once the event has been taken in.
func (w world) after(before Server, e Event, now Server) world {
	w = world{maps.Clone(w.claims), maps.Clone(w.guests)}
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
		w.stands(before, e.Host, e.Consumer)
	case GuestRunning:
		w.stands(before, e.Host, e.Consumer)
	case GuestStopped:
		w.stands(before, e.Host, e.Consumer)
	case GuestRefused:
		w.stands(before, e.Host, e.Consumer)
	case GuestMigrated:
		w.renamed(before, e.Host, e.Consumer)
	case GuestFailed:
		stays := before.Move != nil && before.Move.Kind == LiveMigration && e.Consumer == before.Move.From.Consumer &&
			(before.Phase() == LiveMigrating || before.Move.Failed != "")
		if !stays {
			w.ends(before, e.Host, e.Consumer)
		}
	case GuestGone:
		if !before.Expects(e.Consumer, e.Host) { // else it means little: the agent builds it again
			w.ends(before, e.Host, e.Consumer)
		}
	}
	if now.isDue(Claim) {
		w.claims["s"] = true // from now on the claim may be written
	}
	return w
}

// ends notes that a guest is no more, whatever it was called before.
func (w world) ends(before Server, host, as string) {
	delete(w.guests, host+" "+as)
	for _, l := range before.Residences() {
		if l.Host == host && l.Consumer == as && l.PreviousConsumer != "" && (as == "s" || before.AllocatedHost() != host) {
			delete(w.guests, host+" "+l.PreviousConsumer)
		}
		// it goes before its agent has heard of its new id
		if l.Host == host && l.PreviousConsumer == as && (l.Consumer == "s" || before.AllocatedHost() != host) {
			delete(w.guests, host+" "+l.Consumer)
		}
	}
}

// stands notes a guest that an agent speaks of, under the name that it has now.
func (w world) stands(before Server, host, as string) {
	if before.Expects(as, host) {
		w.guests[host+" "+as] = true
	}
	w.renamed(before, host, as)
}

func (w world) renamed(before Server, host, as string) {
	for _, l := range before.Residences() {
		if was := host + " " + l.PreviousConsumer; l.Host == host && l.Consumer == as && l.PreviousConsumer != "" &&
			!l.Gone && w.guests[was] {
			delete(w.guests, was)
			w.guests[host+" "+as] = true
		}
	}
}

func wrong(s Server, w world) string {
	last := func(want ...State) bool { return slices.Contains(want, s.State) }
	phase := func(want ...MovePhase) bool { return slices.Contains(want, s.Phase()) }
	stays := s.Residences()
	for c := range w.claims {
		owned := c == "s" && !last("", Preparing, Scheduling, Shelved, Error, DeletedAwaitingCleanup, Deleted) &&
			!phase(SchedulingDestination, AwaitingSourceAck, RevertBlocked) &&
			(s.Move == nil || s.Move.AllocationsMoved() || s.Move.From.Consumer == "s") ||
			slices.ContainsFunc(stays, func(l Residence) bool { return l.Consumer == c })
		if !owned {
			return c + " may hold an allocation that nobody releases"
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
	world
}

// key tells nodes apart by what matters to what may follow.
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
	start := node{Server: fresh(), world: world{map[string]bool{}, map[string]bool{}}}
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
				t.Fatalf("%s × %T: nobody has thought of it", n.Stage(), e)
			}
			s = trim(s)
			next := node{s, n.after(n.Server, e, s)}
			if why := wrong(s, next.world); why != "" {
				t.Fatalf("%s (%+v) × %#v → %s (%+v): %s\n%s\n%s", n.Stage(), n.world, e, s.Stage(), next.world, why, before,
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

// answers are what a world says that does its part, to what is due or awaited.
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

// canEnd deletes the server and lets the world do its part.
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

// Each answer to a due step moves the server on, or the runner would perform it for ever.
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

// Losing and failing for ever ends in ERROR, in bounded time, with all reasons.
func TestRepeatedFailuresEndInError(t *testing.T) {
	s := applyAll(fresh(), Created{}, prepared)
	for n := 0; s.State != Error; n++ {
		if n > 1000 {
			t.Fatal("it never ends")
		}
		switch s.State {
		case Scheduling:
			s, _ = Next(s, Chosen{Choices: slices.Repeat([]schedule.Choice{choice("a")}, schedule.MaxChoices)}, noon)
		case Claiming:
			s, _ = Next(s, ClaimLost{Try: s.Try, Reason: "VCPU is taken"}, noon)
		case Failing:
			s, _ = Next(s, Released{}, noon)
		}
	}
	if s.Round != MaxRounds || s.Try != MaxRounds*schedule.MaxChoices || !strings.Contains(s.Fault.Message,
		"VCPU is taken") {
		t.Errorf("rounds %d, tries %d, %s", s.Round, s.Try, s.Fault.Message)
	}
}

// However a reason comes, with its full stop or without, the sentence that the user reads has one.
func TestOneFullStop(t *testing.T) {
	for _, reason := range []string{"no such class CUSTOM_X", "no such class CUSTOM_X."} {
		s := applyAll(fresh(), Created{}, prepared)
		plain, _ := Next(s, NoValidHost{Reason: reason}, noon)
		if plain.Fault.Message != "No valid host was found: no such class CUSTOM_X." {
			t.Error(plain.Fault.Message)
		}
		s.FailedHosts = map[string]string{"a": reason}
		tried, _ := Next(s, NoValidHost{Reason: reason}, noon)
		if tried.Fault.Message != "No valid host was found: no such class CUSTOM_X; tried before: a: no such class "+
			"CUSTOM_X." {
			t.Error(tried.Fault.Message)
		}
	}
}

func TestHistory(t *testing.T) {
	s := fresh()
	at := noon
	for _, e := range []Event{
		Created{},
		prepared,
		StepFailed{Step: Schedule, Reason: "Placement does not answer"},
		StepFailed{Step: Schedule, Reason: "Placement does not answer"},
		Chosen{Choices: []schedule.Choice{choice("a"), choice("b")}, Candidates: 3, Refused: "1 host: full"},
		ClaimLost{Try: 1, Reason: "taken"},
		Claimed{Try: 2},
		GuestClaimed{Host: "b", Devices: []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1"}}},
		GuestFailed{Host: "b", Message: "no hugepages"},
		Released{},
		NoValidHost{Candidates: 1, Reason: "1 host: full", Again: true},
		NoValidHost{Candidates: 1, Reason: "1 host: full", Again: true},
		NoValidHost{Reason: "all are taken"},
		DeleteRequested{},
	} {
		at = at.Add(time.Second)
		s, _ = Next(s, e, at)
	}
	var got []string
	for _, m := range s.History {
		line := m.At.Format("05") + " " + m.Text
		if m.Times > 1 {
			line += fmt.Sprintf(" (%d times)", m.Times)
		}
		got = append(got, line)
	}
	want := []string{
		"02 asks for request R: 1 of alias nic",
		"04 cannot schedule now, will try again: Placement does not answer (2 times)",
		"05 Placement returned 3 candidates; 2 choices; refused: 1 host: full",
		"05 claiming host a; R-0 of alias nic from provider pf-a",
		"06 lost the claim on a: taken",
		"06 claiming host b; R-0 of alias nic from provider pf-b",
		"07 claimed on b; waiting for its agent to build the guest",
		"08 the agent of b picked 0000:3b:00.1 for alias nic",
		"09 the guest failed on b: no hugepages",
		"10 released its allocations in Placement",
		"12 Placement returned 1 candidate; no host is suitable: 1 host: full (2 times)",
		"13 Placement returned 0 candidates; no host is suitable: all are taken",
		"13 No valid host was found: all are taken; tried before: b: no hugepages.",
		"14 deleted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Fault == nil || s.State != Deleted || s.Status() != "DELETED" {
		t.Errorf("%s %v", s.State, s.Fault)
	}
}

func TestHistoryKeepsBothEnds(t *testing.T) {
	s := fresh()
	for i := range 500 {
		s = addHistory(s, noon, fmt.Sprint(i))
	}
	if len(s.History) != maxHistory || s.History[historyHead-1].Text != fmt.Sprint(historyHead-1) ||
		s.History[maxHistory-1].Text != "499" {
		t.Errorf("%d marks: %v", len(s.History), s.History)
	}
	if s = addHistory(s, noon, strings.Repeat("ü", maxText)); len(s.History[maxHistory-1].Text) > maxText+8 {
		t.Errorf("a mark of %d bytes", len(s.History[maxHistory-1].Text))
	}
}

func TestStatus(t *testing.T) {
	ran, broken := fresh(), fresh()
	ran.Launched = noon
	broken.Fault = &Fault{Message: "x"}
	for _, c := range []struct {
		server             Server
		state              State
		status, vm, doing  string
		placed, assignment bool
	}{
		{fresh(), Preparing, "BUILD", "building", "scheduling", false, false},
		{fresh(), Scheduling, "BUILD", "building", "scheduling", false, false},
		{fresh(), Claiming, "BUILD", "building", "scheduling", false, false},
		{fresh(), Spawning, "BUILD", "building", "spawning", true, true},
		{ran, Active, "ACTIVE", "active", "", true, true},
		{fresh(), Rescheduling, "BUILD", "building", "scheduling", false, false},
		{broken, Failing, "BUILD", "building", "", false, false},
		{broken, Error, "ERROR", "error", "", false, false},
		{fresh(), DeletingGuest, "BUILD", "building", "deleting", true, false},
		{ran, DeletingGuest, "ACTIVE", "active", "deleting", true, false},
		{broken, DeletingAllocation, "ERROR", "error", "deleting", false, false},
		{ran, Deleted, "DELETED", "deleted", "", false, false},
	} {
		s := c.server
		s.State, s.Host = c.state, "h"
		if s.Status() != c.status || s.VMState() != c.vm || s.TaskState() != c.doing ||
			(s.AllocatedHost() == "h") != c.placed || (s.Assignment() == "h") != c.assignment {
			t.Errorf("%s: %s %s %q %q %q", c.state, s.Status(), s.VMState(), s.TaskState(), s.AllocatedHost(), s.Assignment())
		}
	}
}
