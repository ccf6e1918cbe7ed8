package lifecycle

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// inGroup returns a server of an anti-affinity group whose other member is on a host.
func inGroup(s Server, others ...string) Server {
	s.Group = "g"
	g := &schedule.ServerGroup{ID: "g", Policy: schedule.AntiAffinity, Others: map[string]int{}}
	for _, host := range others {
		g.Others[host]++
	}
	return s.WithGroup(g)
}

// Choices that break the policy of the server group are left out, at each point at which a choice is recorded.
func TestChoicesThatBreakThePolicy(t *testing.T) {
	three := Chosen{Choices: []schedule.Choice{choice("a"), choice("b"), choice("c")}, Candidates: 3}
	s := applyAll(inGroup(fresh(), "a"), Created{}, prepared, three)
	if s.State != Claiming || s.Choices[0].Host != "b" || !slices.Equal(s.GroupHosts(), []string{"b"}) {
		t.Fatalf("%s %v %v", s.State, s.Choices, s.GroupHosts())
	}
	lost := applyAll(inGroup(s, "a", "c"), ClaimLost{Try: s.Try, Reason: "taken"}) // another member has got c meanwhile
	if lost.State != Scheduling || len(lost.GroupHosts()) > 0 {
		t.Errorf("%s %v", lost.State, lost.GroupHosts())
	}
	s.Round = MaxRounds
	if last := applyAll(inGroup(s, "a", "c"), ClaimLost{Try: s.Try, Reason: "taken"}); last.State != Failing {
		t.Errorf("after the last round: %s", last.State)
	}
	none := inGroup(applyAll(fresh(), Created{}, prepared), "a", "b", "c")
	if none.Round = MaxRounds - 1; applyAll(none, three).State != Error { // nothing has been claimed
		t.Errorf("no choice in the last round: %s", applyAll(none, three).State)
	}
}

// A move whose choices break the policy has not changed anything yet, and searches again.
func TestMoveThatBreaksThePolicy(t *testing.T) {
	s := inGroup(ran(t), "b")
	s = applyAll(s, ActionRequested{ID: "m", Action: Migrate}, Chosen{Choices: []schedule.Choice{choice("b")}})
	if s.Phase() != Planning || !slices.Equal(s.GroupHosts(), []string{"a"}) {
		t.Fatalf("%s %v", s.Phase(), s.GroupHosts())
	}
	moves := applyAll(s, Chosen{Choices: []schedule.Choice{choice("b"), choice("c")}})
	if moves.Phase() != MovingAllocations || !slices.Equal(moves.GroupHosts(), []string{"a", "c"}) {
		t.Errorf("%s %v", moves.Phase(), moves.GroupHosts())
	}
	s.Round = MaxRounds - 1
	if s = applyAll(s, Chosen{Choices: []schedule.Choice{choice("b")}}); s.State != Active || s.Host != "a" {
		t.Errorf("after the last round: %s on %s", s.Stage(), s.Host)
	}
}

// A server that is shown as deleted restricts no other member, although its guest may still be on a silent host.
func TestDeletedMemberHasNoHosts(t *testing.T) {
	s := applyAll(inGroup(ran(t)), DeleteRequested{Silent: true})
	if s.Ended.IsZero() || s.AllocatedHost() == "" || len(s.GroupHosts()) > 0 {
		t.Errorf("%s on %q: %v", s.State, s.AllocatedHost(), s.GroupHosts())
	}
}
