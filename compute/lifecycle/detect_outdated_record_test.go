package lifecycle

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

func TestContradicts(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a"}
	released := Server{ID: "s", State: DeletingAllocation, Host: "a"}
	if !released.Contradicts("a", false, []schedule.Present{{ID: "s", Server: "s"}}) {
		t.Error("a guest that the assignments do not mention on the host of a server that is to be released")
	}
	for _, c := range []struct {
		name   string
		host   string
		behind bool
		guest  schedule.Present
		want   bool
	}{
		{"its guest where the record has it", "a", false, schedule.Present{ID: "s", Server: "s", Assigned: true}, false},
		{"its guest where the record does not have it", "b", false, schedule.Present{ID: "s", Server: "s"}, true},
		{"a guest of a migration of it there", "b", false, schedule.Present{ID: "m", Server: "s"}, true},
		{"such a guest that the assignments name, as for removal", "b", false, schedule.Present{ID: "m", Server: "s",
			Assigned: true}, false},
		{"a guest of another server", "b", false, schedule.Present{ID: "t", Server: "t"}, false},
		{"a host that is behind, with its guest", "b", true, schedule.Present{ID: "s", Server: "s", Assigned: true}, true},
		{"a host that is behind, where the record has it", "a", true, schedule.Present{}, true},
		{"a host that is behind, with another guest", "b", true, schedule.Present{ID: "t", Server: "t", Assigned: true},
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.Contradicts(c.host, c.behind, []schedule.Present{c.guest}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A record from a backup may have a move under way that has ended since: the source is not built again.
func TestMovedAhead(t *testing.T) {
	moving := func(change func(*Server)) Server {
		s := Server{ID: "s", State: Moving, Host: "b", Move: &Move{Phase: PreLiveMigration,
			From: Residence{Consumer: "m", Host: "a"}}}
		change(&s)
		return s
	}
	for _, c := range []struct {
		name   string
		server Server
		as     string
		guest  string // at the destination
		want   bool
	}{
		{"the destination has the guest", moving(func(*Server) {}), "m", "s", true},
		{"it has another guest", moving(func(*Server) {}), "m", "t", false},
		{"the destination's own claim", moving(func(*Server) {}), "s", "s", false},
		{"the source is to be stopped", moving(func(s *Server) { s.Move.StopSource = true }), "m", "s", false},
		{"the server is to be stopped", moving(func(s *Server) { s.Power = Off }), "m", "s", false},
		{"both are on one host", moving(func(s *Server) { s.Host = "a" }), "m", "s", false},
		{"no move", Server{ID: "s", State: Active, Host: "b"}, "m", "s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.server.MovedAhead(c.as, []schedule.Present{{ID: c.guest}}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A record from a backup may be older than the way back from a move: what the server holds is its other consumer's.
func TestHeldFor(t *testing.T) {
	on := func(host string, vcpus int) resource.Allocation {
		return resource.Allocation{resource.ProviderID("root-" + host): {"VCPU": vcpus}}
	}
	residence := func(host string, vcpus int) Residence {
		c := choice(host)
		c.Allocation = on(host, vcpus)
		return Residence{Consumer: "m", Host: host, Choice: &c}
	}
	moving := func(phase MovePhase, from Residence) Server {
		return Server{ID: "s", State: Moving, Choices: []schedule.Choice{choice("b")}, Move: &Move{Phase: phase, From: from}}
	}
	left := func(l Residence) Server { return Server{ID: "s", State: Active, Host: "b", Leftovers: []Residence{l}} }
	gone := residence("a", 1)
	gone.Gone = true
	for _, c := range []struct {
		name   string
		server Server
		own    resource.Allocation
		want   string
	}{
		{"the server holds what the migration held", moving(ClaimingDestination, residence("a", 1)), on("a", 1), "m"},
		{"it has come back to the source with another allocation", moving(ClaimingDestination, residence("a", 1)), on("a", 2),
			"m"},
		{"the migration holds nothing yet", moving(MovingAllocations, residence("a", 1)), on("a", 1), ""},
		{"it holds the destination", moving(ClaimingDestination, residence("a", 1)), on("b", 1), ""},
		{"it holds nothing", moving(ClaimingDestination, residence("a", 1)), nil, ""},
		{"it moves within one host, with another allocation", moving(ClaimingDestination, residence("b", 1)), on("b", 2), ""},
		{"it moves within one host, and is back", moving(ClaimingDestination, residence("b", 1)), on("b", 1), "m"},
		{"it has come back to a host where it left a guest", left(residence("a", 1)), on("a", 2), "m"},
		{"that guest is gone", left(gone), on("a", 2), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.server.HeldFor(c.own); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A live migration has ended when the destination says that the guest runs there, also if the record, which is from a
// backup, has it at the beginning.
func TestLiveMigrationHasEnded(t *testing.T) {
	s := applyAll(Server{ID: "s", State: Active, Host: "a", Choices: []schedule.Choice{choice("a")}},
		ActionRequested{ID: "m", Action: Live},
		Chosen{Choices: []schedule.Choice{choice("b")}}, AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m"},
		Claimed{Try: 1})
	if s.Phase() != PreLiveMigration {
		t.Fatal(s.Stage())
	}
	s = applyAll(s, GuestRunning{Host: "b", Consumer: "s"})
	if s.State != Active || s.Host != "b" || s.Move != nil || s.Migration.Status != "completed" {
		t.Errorf("%s on %s, %+v, %+v", s.State, s.Host, s.Move, s.Migration)
	}
	if want := []Removal{{Host: "a", Consumer: "m"}}; !slices.Equal(s.Removals(), want) {
		t.Errorf("%+v, want %+v", s.Removals(), want)
	}
}

// A migration that has the source's allocation although the record has the transfer still due: the server's own
// allocation is that of a later claim, unless it has everything that the guest at the source uses.
func TestSourceMoved(t *testing.T) {
	a := resource.Allocation{"root-a": {"VCPU": 1}, "pf-a": {"GPU": 1}}
	s := Server{ID: "s", State: Moving, Move: &Move{Phase: MovingAllocations, Consumer: "m", From: Residence{Consumer: "s",
		Host: "a", Choice: &schedule.Choice{Host: "a", Root: "root-a", Allocation: a},
		Devices: []schedule.Picked{{RequestID: "r", Provider: "pf-a"}}}}}
	for _, c := range []struct {
		name           string
		own, migration resource.Allocation
		want           bool
	}{
		{"the transfer is due", a, nil, false},
		{"the transfer is done", nil, a, false},
		{"a destination on another host is claimed", resource.Allocation{"root-b": {"VCPU": 1}}, a, true},
		{"a destination on the same host is claimed", resource.Allocation{"root-a": {"VCPU": 2}, "qf-a": {"GPU": 1}}, a,
			true},
		{"the server has what the guest uses", a, resource.Allocation{"root-a": {"VCPU": 1}}, false},
		{"the migration has something else", a, resource.Allocation{"root-b": {"VCPU": 1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.SourceMoved(c.own, c.migration); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
