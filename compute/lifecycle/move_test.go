package lifecycle

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// applyAll gives a server events one after the other.
func applyAll(s Server, events ...Event) Server {
	for _, e := range events {
		s, _ = Next(s, e, noon)
	}
	return s
}

// resizing is a server on host a that is being resized, after its migration has taken over what it holds.
func resizing(between ...Event) Server {
	s := Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Resize}, prepared, Chosen{Choices: []schedule.Choice{choice("b")}})
	s = applyAll(s, between...)
	return applyAll(s, AllocationsMoved{})
}

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

// A record from a backup knows of fewer rebuilds than there were.
func TestRebuildWithAnOlderRecord(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a", Builds: 1}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 3}); s.Builds != 3 {
		t.Errorf("%d builds are known, the guest has 3", s.Builds)
	}
	s = Server{ID: "s", State: Active, Host: "a", Builds: 1}
	s = applyAll(s, ActionRequested{ID: "w", Action: Rebuild}, GuestRunning{Host: "a", Consumer: "s", Build: 3})
	if s.Builds != 4 || s.Task != Rebuilding {
		t.Errorf("%d builds, %q: the rebuild is yet to come", s.Builds, s.Task)
	}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 4}); s.Builds != 4 || s.Task != "" {
		t.Errorf("%d builds, %q", s.Builds, s.Task)
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
		{"a dead source whose choice it is", Resizing,
			[]moveEvent{built, found, allocationsMoved{}, sourceDead{}}, // another round
			[]MovePhase{Planning, MovingAllocations, AwaitingSourceAck, SchedulingDestination}, nil},
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

// The request to Placement is stored once: a repeated step brings other request ids, and they do not count.
func TestRequestIsStoredOnce(t *testing.T) {
	again := Prepared{Requests: []pci.Request{{ID: "again", Alias: "nic", Count: 1}}}
	s := applyAll(fresh(), Created{})
	if s.State != Preparing || !slices.Equal(s.Steps(), []Step{Prepare}) || len(s.History) > 0 || s.Updated != noon {
		t.Fatalf("%s %v %+v", s.Stage(), s.Steps(), s.History)
	}
	if s = applyAll(s, prepared, again); s.State != Scheduling || s.Requests[0].ID != "R" {
		t.Errorf("%s %+v", s.Stage(), s.Requests)
	}
	s = applyAll(s, Chosen{Choices: []schedule.Choice{choice("a")}}, Claimed{Try: 1}, GuestRunning{Host: "a"})
	s = applyAll(s, ActionRequested{ID: "m", Action: Resize, Flavor: flavor.Flavor{ID: "large"}})
	if s.Phase() != PreparingMove || !slices.Equal(s.Steps(), []Step{Prepare}) || s.TaskState() != "resize_prep" ||
		len(s.Requests) != 0 || s.Move.From.Requests[0].ID != "R" {
		t.Fatalf("%s %v %+v", s.Stage(), s.Steps(), s.Requests)
	}
	if s = applyAll(s, again, prepared); s.Phase() != Planning || s.Requests[0].ID != "again" ||
		!strings.HasPrefix(s.History[len(s.History)-1].Text, "resize from a: asks for") {
		t.Errorf("%s %+v %+v", s.Stage(), s.Requests, s.History)
	}
}

// A request that cannot be built, because the configuration has changed, ends a new server in ERROR and a resize where
// it was.
func TestRequestThatCannotBeBuilt(t *testing.T) {
	refused := Refused{Step: Prepare, Reason: "there is no alias nic."}
	const says = "The request to Placement cannot be built: there is no alias nic."
	s := applyAll(fresh(), Created{}, refused)
	if s.Status() != "ERROR" || s.State != Error || s.Fault.Message != says {
		t.Errorf("%s %+v", s.Stage(), s.Fault)
	}
	before := ran(t)
	s = applyAll(before, ActionRequested{ID: "m", Action: Resize, Flavor: flavor.Flavor{ID: "large"}}, refused)
	if s.Status() != "ACTIVE" || s.TaskState() != "" || s.Flavor.ID != before.Flavor.ID || s.Host != "a" ||
		!reflect.DeepEqual(s.Requests, before.Requests) || s.Migration.Status != "error" ||
		s.History[len(s.History)-1].Text != says+" It goes back to a." {
		t.Errorf("%s %s %+v", s.Status(), s.Stage(), s.History)
	}
}
