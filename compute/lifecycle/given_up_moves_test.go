package lifecycle

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// After a move or an unshelving that was given up, the server has the reason until its next action, as after an action
// that the hypervisor has refused. So a client that waits can report that the action did not happen.
func TestGivenUpMoveShowsItsReason(t *testing.T) {
	const reason = "No valid host was found: full."
	shelved := applyAll(ran(t), ActionRequested{ID: "1", Action: Shelve}, GuestGone{Host: "a", Consumer: "s"}, Released{})
	if shelved.Status() != "SHELVED_OFFLOADED" {
		t.Fatal(shelved.Status())
	}
	moved := []Event{ActionRequested{ID: "m", Action: Migrate}, Chosen{Choices: []schedule.Choice{choice("b")}},
		AllocationsMoved{}, GuestClaimed{Host: "a", Consumer: "m"}}
	for name, c := range map[string]struct {
		s    Server
		want string
	}{
		"no host":       {applyAll(ran(t), ActionRequested{ID: "m", Action: Migrate}, NoValidHost{Reason: "full"}), reason},
		"no host, live": {applyAll(ran(t), ActionRequested{ID: "m", Action: Live}, NoValidHost{Reason: "full"}), reason},
		"resize": {applyAll(ran(t), ActionRequested{ID: "m", Action: Resize}, prepared, NoValidHost{Reason: "full"}),
			reason},
		"after the allocations were moved": {applyAll(applyAll(ran(t), moved...), ClaimLost{Try: 2, Reason: "taken"},
			NoValidHost{Reason: "full"}, Released{}, AllocationsRestored{}), reason},
		"unshelve": {applyAll(shelved, ActionRequested{ID: "2", Action: Unshelve}, NoValidHost{Reason: "full"}), reason},
	} {
		if c.s.Refusal == nil || c.s.Refusal.Message != c.want || c.s.TaskState() != "" {
			t.Errorf("%s: %s/%s has the reason %+v, want %q; history %v", name, c.s.Status(), c.s.TaskState(), c.s.Refusal,
				c.want, c.s.History)
		}
		if next := applyAll(c.s, ActionRequested{ID: "3", Action: Stop}); !strings.HasPrefix(name, "unshelve") &&
			next.Refusal != nil {
			t.Errorf("%s: the reason remains after the next action: %+v", name, next.Refusal)
		}
	}
	reverted := applyAll(ran(t), append(moved, Claimed{Try: 2}, GuestStopped{Host: "a", Consumer: "m"},
		GuestRunning{Host: "b", Consumer: "s"}, ActionRequested{ID: "4", Action: Revert}, GuestGone{Host: "b", Consumer: "s"},
		Released{}, AllocationsRestored{}, GuestRunning{Host: "a", Consumer: "s"})...)
	if reverted.Status() != "ACTIVE" || reverted.Refusal != nil {
		t.Errorf("a move that a user reverted has the reason %+v (%s)", reverted.Refusal, reverted.Status())
	}
}
