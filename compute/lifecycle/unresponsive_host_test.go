package lifecycle

import (
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// A hypervisor that does not answer makes a move leave its destination, but not if the source with the disk is lost:
// the destination may have copied the only disk.
func TestMoveWithLostSourceStaysOnHostWithoutHypervisor(t *testing.T) {
	down := HostUnresponsive{Host: "b", Reason: "down", Hypervisor: true}
	for _, lost := range []bool{false, true} {
		s := applyAll(ran(t), ActionRequested{ID: "m", Action: Migrate}, prepared,
			Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}, AllocationsMoved{},
			GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 2}, GuestStopped{Host: "a", Consumer: "m"},
			GuestClaimed{Host: "b", Consumer: "s"})
		if s.Phase() != SpawningDestination || !s.Reported {
			t.Fatal(s.Stage())
		}
		s.Move.From.Gone = lost
		if down.Concerns(s) == lost {
			t.Errorf("source lost %v: must leave the destination %v", lost, !lost)
		}
	}
}
