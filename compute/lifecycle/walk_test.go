package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func fresh() Server {
	return Server{ID: "s", Name: "web", Requests: []pci.Request{{ID: "R", Alias: "nic", Count: 1}}}
}

func choice(host string) schedule.Choice {
	return schedule.Choice{Host: host, Root: provider.ID("root-" + host), Mappings: map[string][]provider.ID{"R-0": {provider.ID("pf-" + host)}}}
}

var states = []State{"", Scheduling, Claiming, Assigned, Active, Retreating, Failing, Error, Unassigning, Releasing, Deleted}

// events are all that can happen to a server in this state, right, late and from elsewhere.
func events(s Server) []Event {
	picked := []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1", Provider: "pf-a"}}
	list := []Event{
		Created{}, Released{}, DeleteRequested{},
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 3},
		Chosen{Choices: []schedule.Choice{choice("a"), choice("b")}, Candidates: 2, Refused: "1 host: x"},
		NothingFits{Candidates: 2, Reason: "2 hosts: full", Again: true}, NothingFits{Reason: "nothing left"},
		Claimed{Try: s.Try}, Claimed{Try: s.Try - 1}, Claimed{Try: s.Try + 1},
		ClaimLost{Try: s.Try, Reason: "taken"}, ClaimLost{Try: s.Try - 1, Reason: "taken"},
	}
	for _, step := range []Step{Schedule, Claim, Release} {
		list = append(list, Refused{Step: step, Reason: "forbidden"}, Stumbled{Step: step, Reason: "does not answer"})
	}
	for _, host := range []string{"a", "b", ""} {
		list = append(list, GuestClaimed{Host: host, Devices: picked}, GuestClaimed{Host: host}, GuestRunning{Host: host, Devices: picked},
			GuestFailed{Host: host, Message: "no hugepages"}, GuestGone{Host: host})
	}
	return list
}

// world is what may be true outside, as far as the server's record allows to know it.
type world struct {
	claimed bool // Placement may hold an allocation of the server
	guest   bool // the agent has told of a guest and not yet of its end
}

// after says how the world may be once the event has been taken in.
func (w world) after(before Server, e Event, now Server) world {
	switch e := e.(type) {
	case ClaimLost:
		if before.State == Claiming && e.Try == before.Try {
			w.claimed = false
		}
	case Released:
		if slices.Contains(before.Steps(), Release) {
			w.claimed = false
		}
	case GuestClaimed:
		w.guest = w.guest || before.Assignment() == e.Host && e.Host != ""
	case GuestRunning:
		w.guest = w.guest || before.Assignment() == e.Host && e.Host != ""
	case GuestFailed:
		w.guest = w.guest && e.Host != before.Host
	case GuestGone:
		// From a host where the server is assigned it means little: the agent builds it again.
		w.guest = w.guest && (e.Host != before.Host || before.Assignment() != "")
	}
	w.claimed = w.claimed || now.State == Claiming // from now on the claim may be written
	return w
}

func wrong(s Server, w world) string {
	last := func(want ...State) bool { return slices.Contains(want, s.State) }
	switch {
	case !slices.Contains(states, s.State):
		return "an unknown state"
	case w.claimed && last("", Scheduling, Error, Deleted):
		return "it may hold an allocation that nobody releases"
	case w.guest && slices.Contains(s.Steps(), Release):
		return "its claim is given back while its guest may be there"
	case w.guest && s.Placed() == "":
		return "its guest may be on a host that does not count it"
	case last(Assigned, Active, Unassigning) && s.Host == "":
		return "it is placed on no host"
	case s.Assignment() != "" && s.Assignment() != s.Placed():
		return "it is assigned where it is not placed"
	case last(Error, Deleted, Active, Assigned, Unassigning) && len(s.Steps()) > 0:
		return "a state that waits or ends has a step"
	case last(Scheduling, Claiming, Retreating, Failing, Releasing) && len(s.Steps()) != 1:
		return "a state on the way has no step"
	case last(Claiming) && len(s.Choices) == 0:
		return "there is nothing to claim"
	case last(Error, Failing) && (s.Fault == nil || s.Fault.Message == ""):
		return "it fails without a sentence"
	case last(Active) && s.Launched.IsZero():
		return "it runs and never began to"
	case last(Deleted) && s.Ended.IsZero():
		return "it ended at no time"
	case s.Round > MaxRounds:
		return "too many rounds"
	case len(s.Trail) > maxTrail:
		return "the trail has no end"
	case last(Assigned) && (len(s.Requests) != 1 || len(s.Requests[0].Providers) != 1):
		return "its requests do not name the chosen provider"
	}
	return ""
}

type node struct {
	Server
	world
}

// key tells nodes apart by what matters to what may follow.
func (n node) key() string {
	return fmt.Sprint(n.State, n.Host, n.Heard, n.Round, len(n.Choices), slices.Sorted(maps.Keys(n.Excluded)), n.Fault != nil, n.Launched.IsZero(), n.world)
}

// Everything that can happen to a server happens to it, in every order: after each event the invariants hold, and whatever
// the state, deleting it and letting Placement and the agent answer ends in deleted with nothing held.
func TestWalk(t *testing.T) {
	start := node{Server: fresh()}
	seen := map[string]bool{start.key(): true}
	reached := map[State]bool{}
	queue := []node{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		reached[n.State] = true
		if n.State != "" {
			canEnd(t, n)
		}
		for _, e := range events(n.Server) {
			before := snapshot(t, n.Server)
			s, known := move(n.Server, e, noon)
			if !known {
				t.Fatalf("%s × %T: nobody has thought of it", n.State, e)
			}
			if snapshot(t, n.Server) != before {
				t.Fatalf("%s × %#v: the server given was changed", n.State, e)
			}
			next := node{s, n.after(n.Server, e, s)}
			if why := wrong(s, next.world); why != "" {
				t.Fatalf("%s (%+v) × %#v → %s (%+v): %s", n.State, n.world, e, s.State, next.world, why)
			}
			if again, _ := move(n.Server, e, noon); !reflect.DeepEqual(again, s) {
				t.Fatalf("%s × %#v: two answers", n.State, e)
			}
			if !seen[next.key()] {
				seen[next.key()] = true
				queue = append(queue, next)
			}
		}
	}
	for _, s := range states {
		if !reached[s] {
			t.Errorf("%s was never reached", s)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d situations: the walk shows nothing", len(seen))
	}
}

func snapshot(t *testing.T, s Server) string {
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// canEnd deletes the server and lets the world do its part.
func canEnd(t *testing.T, n node) {
	s, _ := Next(n.Server, DeleteRequested{}, noon)
	for range 3 {
		switch {
		case slices.Contains(s.Steps(), Release):
			s, _ = Next(s, Released{}, noon)
		case s.State == Unassigning:
			s, _ = Next(s, GuestGone{Host: s.Host}, noon)
		}
	}
	if s.State != Deleted {
		t.Fatalf("from %s, deleting ends in %s", n.State, s.State)
	}
}

// Each answer to a due step moves the server on, or the runner would perform it for ever.
func TestEveryAnswerMovesOn(t *testing.T) {
	for _, c := range []struct {
		state  State
		answer Event
	}{
		{Scheduling, Chosen{Choices: []schedule.Choice{choice("a")}}},
		{Scheduling, Chosen{}},
		{Scheduling, NothingFits{}},
		{Scheduling, NothingFits{Again: true}},
		{Scheduling, Refused{Step: Schedule}},
		{Claiming, Claimed{Try: 1}},
		{Claiming, ClaimLost{Try: 1}},
		{Claiming, Refused{Step: Claim}},
		{Retreating, Released{}},
		{Failing, Released{}},
		{Releasing, Released{}},
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
func TestBadLuckEnds(t *testing.T) {
	s, _ := Next(fresh(), Created{}, noon)
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
	if s.Round != MaxRounds || s.Try != MaxRounds*schedule.MaxChoices || !strings.Contains(s.Fault.Message, "VCPU is taken") {
		t.Errorf("rounds %d, tries %d, %s", s.Round, s.Try, s.Fault.Message)
	}
}

// However a reason comes, with its full stop or without, the sentence that the user reads has one.
func TestOneFullStop(t *testing.T) {
	for _, reason := range []string{"no such class CUSTOM_X", "no such class CUSTOM_X."} {
		s, _ := Next(fresh(), Created{}, noon)
		plain, _ := Next(s, NothingFits{Reason: reason}, noon)
		if plain.Fault.Message != "No valid host was found: no such class CUSTOM_X." {
			t.Error(plain.Fault.Message)
		}
		s.Excluded = map[string]string{"a": reason}
		tried, _ := Next(s, NothingFits{Reason: reason}, noon)
		if tried.Fault.Message != "No valid host was found: no such class CUSTOM_X; tried before: a: no such class CUSTOM_X." {
			t.Error(tried.Fault.Message)
		}
	}
}

func TestTrailTellsTheStory(t *testing.T) {
	s := fresh()
	at := noon
	for _, e := range []Event{
		Created{},
		Stumbled{Step: Schedule, Reason: "Placement does not answer"},
		Stumbled{Step: Schedule, Reason: "Placement does not answer"},
		Chosen{Choices: []schedule.Choice{choice("a"), choice("b")}, Candidates: 3, Refused: "1 host: full"},
		ClaimLost{Try: 1, Reason: "taken"},
		Claimed{Try: 2},
		GuestClaimed{Host: "b", Devices: []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1"}}},
		GuestFailed{Host: "b", Message: "no hugepages"},
		Released{},
		NothingFits{Candidates: 1, Reason: "1 host: full", Again: true},
		NothingFits{Candidates: 1, Reason: "1 host: full", Again: true},
		NothingFits{Reason: "all are taken"},
		DeleteRequested{},
	} {
		at = at.Add(time.Second)
		s, _ = Next(s, e, at)
	}
	var got []string
	for _, m := range s.Trail {
		line := m.At.Format("05") + " " + m.Text
		if m.Times > 1 {
			line += fmt.Sprintf(" (%d times)", m.Times)
		}
		got = append(got, line)
	}
	want := []string{
		"01 asks for request R: 1 of alias nic",
		"03 cannot schedule now, will try again: Placement does not answer (2 times)",
		"04 Placement offers 3 candidates; 2 choices; refused: 1 host: full",
		"04 claims a place on a; R-0 of alias nic from provider pf-a",
		"05 lost the claim on a: taken",
		"05 claims a place on b; R-0 of alias nic from provider pf-b",
		"06 claimed on b; its agent is to build the guest",
		"07 the agent of b picked 0000:3b:00.1 for alias nic",
		"08 the guest failed on b: no hugepages",
		"09 holds nothing in Placement",
		"11 Placement offers 1 candidate; nothing fits: 1 host: full (2 times)",
		"12 Placement offers 0 candidates; nothing fits: all are taken",
		"12 No valid host was found: all are taken; tried before: b: no hugepages.",
		"13 deleted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Fault == nil || s.State != Deleted || s.Status() != "DELETED" {
		t.Errorf("%s %v", s.State, s.Fault)
	}
}

func TestTrailKeepsBothEnds(t *testing.T) {
	s := fresh()
	for i := range 500 {
		s = mark(s, noon, fmt.Sprint(i))
	}
	if len(s.Trail) != maxTrail || s.Trail[trailHead-1].Text != fmt.Sprint(trailHead-1) || s.Trail[maxTrail-1].Text != "499" {
		t.Errorf("%d marks: %v", len(s.Trail), s.Trail)
	}
	if s = mark(s, noon, strings.Repeat("ü", maxText)); len(s.Trail[maxTrail-1].Text) > maxText+8 {
		t.Errorf("a mark of %d bytes", len(s.Trail[maxTrail-1].Text))
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
		{fresh(), Scheduling, "BUILD", "building", "scheduling", false, false},
		{fresh(), Claiming, "BUILD", "building", "scheduling", false, false},
		{fresh(), Assigned, "BUILD", "building", "spawning", true, true},
		{ran, Active, "ACTIVE", "active", "", true, true},
		{fresh(), Retreating, "BUILD", "building", "scheduling", false, false},
		{broken, Failing, "BUILD", "building", "", false, false},
		{broken, Error, "ERROR", "error", "", false, false},
		{fresh(), Unassigning, "BUILD", "building", "deleting", true, false},
		{ran, Unassigning, "ACTIVE", "active", "deleting", true, false},
		{broken, Releasing, "ERROR", "error", "deleting", false, false},
		{ran, Deleted, "DELETED", "deleted", "", false, false},
	} {
		s := c.server
		s.State, s.Host = c.state, "h"
		if s.Status() != c.status || s.VMState() != c.vm || s.TaskState() != c.doing || (s.Placed() == "h") != c.placed || (s.Assignment() == "h") != c.assignment {
			t.Errorf("%s: %s %s %q %q %q", c.state, s.Status(), s.VMState(), s.TaskState(), s.Placed(), s.Assignment())
		}
	}
}
