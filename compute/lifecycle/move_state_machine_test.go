package lifecycle

import (
	"reflect"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// The hypervisor refused to stop a guest, the server was to go on running, and its agent stopped it at another try
// before it had read that.
func TestRestartedSourceIsStoppedBeforeTheDestinationIsBuilt(t *testing.T) {
	s := resizing(GuestStopped{Host: "a", Consumer: "s"}, GuestRunning{Host: "a", Consumer: "s"})
	s = applyAll(s, GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 1})
	if s.Phase() != StoppingSource {
		t.Fatalf("%s: the guest on a runs", s.Stage())
	}
	if s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}); s.Phase() != SpawningDestination {
		t.Errorf("%s: the guest on a has stopped", s.Stage())
	}
	s = resizing(GuestStopped{Host: "a", Consumer: "s"})
	if s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}, Claimed{Try: 1}); s.Phase() != StoppingSource {
		t.Errorf("%s: the guest on a has stopped, and its agent starts it again as long as it is not told otherwise",
			s.Stage())
	}
	s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"}, GuestFailed{Host: "b", Consumer: "s", Message: "no"},
		Released{},
		Chosen{Choices: []schedule.Choice{choice("c")}}, Claimed{Try: 2})
	if s.Phase() != SpawningDestination || s.Host != "c" {
		t.Errorf("%s on %s: the guest on a has been stopped for the move before", s.Stage(), s.Host)
	}
}

// A live migration that fails while the server is being deleted: the guest has not left the source.
func TestFailedLiveMigrationKeepsTheSourceGuest(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Live}, Chosen{Choices: []schedule.Choice{choice("b")}},
		AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m"},
		Claimed{Try: 1}, GuestClaimed{Host: "b", Consumer: "s"}, DeleteRequested{}, GuestFailed{Host: "a", Consumer: "m",
			Message: "it cannot go"})
	if len(s.Leftovers) != 1 || s.Leftovers[0].Gone || !slices.Contains(s.Removals(), Removal{Host: "a", Consumer: "m"}) {
		t.Errorf("%s %+v %v", s.State, s.Leftovers, s.Removals())
	}
	if s = applyAll(s, GuestGone{Host: "a", Consumer: "m"}); !s.Leftovers[0].Gone {
		t.Errorf("%+v", s.Leftovers)
	}
}

// A move alone: what happens to it, in the words of the phases that it goes through.
func TestMovePhases(t *testing.T) {
	built, found, taken := askPrepared{"resize from a"}, choicesFound{}, destinationClaimed{host: "b"}
	ack, stopped := sourceReported{built: true}, sourceReported{built: true, stopped: true}
	ready := destinationPrepared{"b"}
	failed := destinationFailed{host: "b", message: "no hugepages"}
	lastFailed := destinationFailed{host: "b", message: "no hugepages", lastReason: "no host is left."}
	for _, c := range []struct {
		name   string
		kind   Kind
		events []moveEvent
		want   []MovePhase
		ends   moveEffect // the last one that ends the move
	}{
		{"a resize that is confirmed", Resizing,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, stopped, destinationArrived{}, moveConfirmed{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, StoppingSource, SpawningDestination,
				Resized, Resized}, leaveSource{}},
		{"a resize that is reverted", Resizing,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, stopped, destinationArrived{}, moveReverted{"b"},
				destinationGone{host: "b"}, destinationReleased{}, allocationsRestored{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, StoppingSource, SpawningDestination,
				Resized, Reverting, ReleasingDestination, RestoringAllocations, RestoringAllocations}, returnToSource{}},
		{"a migration whose destination fails twice", Migrating,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, stopped, failed, destinationReleased{}, found, taken,
				lastFailed, destinationReleased{}, allocationsRestored{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, StoppingSource, SpawningDestination,
				ReschedulingDestination, SchedulingDestination, ClaimingDestination, SpawningDestination,
				ReleasingDestination, RestoringAllocations, RestoringAllocations}, returnToSource{}},
		{"a live migration", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, ready, sourceMigrated{"b"}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, LiveMigrating,
				LiveMigrating}, leaveSource{}},
		{"a live migration that fails", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, ready, sourceFailed{message: "no"}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, LiveMigrating,
				Reverting}, nil},
		{"a live migration that is aborted while the guest migrates", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, ready, moveAborted{prepared: true}, sourceFailed{},
				destinationGone{host: "b"}, destinationReleased{}, allocationsRestored{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, LiveMigrating,
				LiveMigrating, Reverting, ReleasingDestination, RestoringAllocations, RestoringAllocations}, returnToSource{}},
		{"a live migration that is aborted too late", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, ready, moveForced{}, moveAborted{prepared: true},
				sourceMigrated{"b"}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, LiveMigrating,
				LiveMigrating, LiveMigrating, LiveMigrating}, leaveSource{}},
		{"a live migration that is aborted while a host is sought", LiveMigration,
			[]moveEvent{built, moveAborted{}, found}, []MovePhase{Planning, Planning, Planning}, returnToSource{}},
		{"a live migration that is aborted while allocations move", LiveMigration,
			[]moveEvent{built, found, moveAborted{}, allocationsMoved{}, ack},
			[]MovePhase{Planning, MovingAllocations, MovingAllocations, AwaitingSourceAck, ReleasingDestination}, nil},
		{"a live migration that is aborted while its destination is claimed", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, moveAborted{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, ReleasingDestination}, nil},
		{"a live migration that is aborted while its destination prepares", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, moveAborted{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration,
				ReleasingDestination}, nil},
		{"a live migration that is aborted after its destination has prepared a part", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, moveAborted{prepared: true}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, Reverting}, nil},
		{"an evacuation", Evacuating,
			[]moveEvent{built, found, allocationsMoved{}, taken, destinationArrived{}},
			[]MovePhase{Planning, MovingAllocations, ClaimingDestination, SpawningDestination, SpawningDestination},
			leaveSource{}},
		{"no host for a move", Migrating, []moveEvent{built, searchEnded{"full"}}, []MovePhase{Planning, Planning},
			returnToSource{}},
		{"no request for a move", Resizing, []moveEvent{searchEnded{"no such alias"}}, []MovePhase{PreparingMove},
			returnToSource{}},
		{"a lost source", Migrating,
			[]moveEvent{built, found, sourceFailed{message: "fire"}, allocationsMoved{}},
			[]MovePhase{Planning, MovingAllocations, MovingAllocations, ReleasingDestination}, nil},
		{"a dead source, and nothing has changed yet", Migrating, []moveEvent{built, sourceDead{}},
			[]MovePhase{Planning, Planning}, returnToSource{}},
		{"a dead source of a disk that the destination may have", Resizing,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, stopped, sourceDead{}, destinationArrived{}},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, StoppingSource, SpawningDestination,
				SpawningDestination, SpawningDestination}, leaveSource{}},
		{"a dead source of a disk that the destination does not have", Resizing,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, stopped, sourceDead{}, failed},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, StoppingSource, SpawningDestination,
				SpawningDestination, ReleasingDestination}, nil},
		{"a source that dies during a live migration", LiveMigration,
			[]moveEvent{built, found, allocationsMoved{}, ack, taken, ready, sourceDead{}, failed},
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, ClaimingDestination, PreLiveMigration, LiveMigrating,
				SpawningDestination, ReleasingDestination}, nil},
		{"events that belong to no phase here", Migrating,
			[]moveEvent{built, destinationReleased{}, ready, destinationGone{host: "b"}, sourceMigrated{"b"}, failed},
			[]MovePhase{Planning, Planning, Planning, Planning, Planning, Planning}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Move{Kind: c.kind, Phase: PreparingMove, Consumer: "m", From: Residence{Consumer: "s", Host: "a"}}
			var got []MovePhase
			var ends moveEffect
			for _, e := range c.events {
				before := m
				next, effects := m.next(e)
				if !reflect.DeepEqual(m, before) {
					t.Errorf("%T changes the move given", e)
				}
				m = next
				got = append(got, m.Phase)
				for _, effect := range effects {
					switch effect.(type) {
					case leaveSource, returnToSource:
						ends = effect
					}
				}
			}
			if !slices.Equal(got, c.want) || ends != c.ends {
				t.Errorf("%v, ends with %T, want\n%v, %T", got, ends, c.want, c.ends)
			}
		})
	}
}
