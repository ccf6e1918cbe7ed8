package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// withPort is an active server on host a with a port of a guarantee.
func withPort(t *testing.T) Server {
	t.Helper()
	s := fresh()
	s.Networks = []NetworkRequest{{Network: "n"}}
	port := Port{ID: "p", Network: "n", Created: true, Groups: []resource.Group{{Suffix: "g",
		Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1}}}}
	at := choice("a")
	at.Mappings["g"] = []provider.ID{"bridge-a"}
	s = applyAll(s, Created{}, prepared, Chosen{Choices: []schedule.Choice{at}, Ports: []Port{port}}, Claimed{Try: 1})
	if s.State != BindingPorts || s.Ports[0].Allocation["g"] != "bridge-a" || s.Assignment() != "" ||
		!slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Fatalf("%s %+v %v", s.Stage(), s.Ports, s.Steps())
	}
	bound := slices.Clone(s.Ports)
	bound[0].Host, bound[0].VIF = "a", "ovs"
	s = applyAll(s, PortsBound{Host: "a", Ports: bound}, GuestRunning{Host: "a"})
	if s.State != Active || len(s.Steps()) != 0 {
		t.Fatalf("%s %v", s.Stage(), s.Steps())
	}
	return s
}

// The guest is not assigned to a host where a port cannot be bound: the claim is released, and another host is tried.
func TestPortThatCannotBeBound(t *testing.T) {
	s := fresh()
	s.Networks = []NetworkRequest{{Network: "n"}}
	s = applyAll(s, Created{}, prepared, Chosen{Choices: []schedule.Choice{choice("a")}, Ports: []Port{{ID: "p"}}},
		Claimed{Try: 1}, PortsNotBound{Host: "a", Reason: "no agent"})
	if s.State != Rescheduling || s.FailedHosts["a"] != "no agent" {
		t.Errorf("%s %v", s.Stage(), s.FailedHosts)
	}
}

// The ports follow a cold move after the source has stopped; a revert restores their allocation at the source, although
// the groups are others by now.
func TestPortsOfAMove(t *testing.T) {
	s := withPort(t)
	there := choice("b")
	there.Mappings["g2"] = []provider.ID{"bridge-b"}
	now := s.Ports[0]
	now.Groups = []resource.Group{{Suffix: "g2"}}
	s = applyAll(s, ActionRequested{ID: "m", Action: Migrate},
		Chosen{Choices: []schedule.Choice{there}, Ports: []Port{now}}, AllocationsMoved{},
		GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 2})
	if s.Phase() != StoppingSource || s.Ports[0].Allocation["g2"] != "bridge-b" ||
		s.Move.From.Ports[0].Allocation["g"] != "bridge-a" {
		t.Fatalf("%s %+v", s.Stage(), s.Ports)
	}
	s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"})
	if s.Phase() != BindingDestination || !slices.Equal(s.Steps(), []Step{BindPorts}) || s.Assignment() != "" {
		t.Fatalf("%s %v", s.Stage(), s.Steps())
	}
	bound := slices.Clone(s.Ports)
	bound[0].Host = "b"
	s = applyAll(s, PortsBound{Host: "b", Ports: bound}, GuestRunning{Host: "b"})
	if s.Phase() != Resized {
		t.Fatal(s.Stage())
	}
	s = applyAll(s, ActionRequested{ID: "r", Action: Revert}, GuestGone{Host: "b"}, Released{}, AllocationsRestored{})
	if s.State != Active || s.Host != "a" || s.Ports[0].Allocation["g"] != "bridge-a" ||
		!slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Errorf("%s %s %+v %v", s.Stage(), s.Host, s.Ports, s.Steps())
	}
	startsAtSource(t, s)
}

// startsAtSource checks that the stopped guest of a server that has gone back to host a is started when its port is
// bound there, or cannot be bound.
func startsAtSource(t *testing.T, s Server) {
	t.Helper()
	power := func(s Server) Power {
		if list := s.Entries(); len(list) == 1 {
			return list[0].Power
		}
		return ""
	}
	bound := slices.Clone(s.Ports)
	bound[0].Host = "a"
	after := applyAll(s, PortsBound{Host: "a", Ports: bound})
	refused := applyAll(s, PortsNotBound{Host: "a", Reason: "no agent"})
	if power(s) != Off || power(after) != On || power(refused) != On || !slices.Equal(refused.Steps(), []Step{BindPorts}) {
		t.Errorf("%s: power %s, with its port %s, with a port that cannot be bound %s %v", s.Stage(), power(s), power(after),
			power(refused), refused.Steps())
	}
	later := applyAll(refused, PortsBound{Host: "a", Ports: bound})
	if later.PortsRefused != "" || len(later.Steps()) != 0 {
		t.Errorf("bound later: %q %v", later.PortsRefused, later.Steps())
	}
}

// Ports of a live migration get bindings to the destination before its agent is assigned the guest, and are bound there
// when the guest has arrived. If it does not arrive, they are restored at the source.
func TestPortsOfALiveMigration(t *testing.T) {
	s := withPort(t)
	s = applyAll(s, ActionRequested{ID: "m", Action: Live},
		Chosen{Choices: []schedule.Choice{choice("b")}, Ports: s.Ports}, AllocationsMoved{},
		GuestRunning{Host: "a", Consumer: "m"}, Claimed{Try: 2})
	if s.Phase() != BindingDestination || s.Assignment() != "" || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Fatalf("%s %v", s.Stage(), s.Steps())
	}
	lost := applyAll(s, GuestFailed{Host: "a", Consumer: "m", Message: "lost"})
	if lost.Phase() != ReleasingDestination || lost.Move.SourceLost == "" {
		t.Errorf("the guest is lost: %s %+v", lost.Stage(), lost.Move)
	}
	refused := applyAll(s, PortsNotBound{Host: "b", Reason: "no agent"})
	if refused.Phase() != ReschedulingDestination || refused.FailedHosts["b"] != "no agent" {
		t.Errorf("no binding: %s %v", refused.Stage(), refused.FailedHosts)
	}
	s = applyAll(s, PortsBound{Host: "b", Ports: s.Ports}, GuestClaimed{Host: "b"})
	if s.Phase() != LiveMigrating || len(s.Steps()) != 0 {
		t.Fatalf("%s %v", s.Stage(), s.Steps())
	}
	s = applyAll(s, GuestRunning{Host: "b"})
	if s.State != Active || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Errorf("%s %v", s.Stage(), s.Steps())
	}
}

// A server that ends keeps nothing in the network service: Release is due in each way to the end.
func TestPortsAreReleasedInEachWayToTheEnd(t *testing.T) {
	networked := fresh()
	networked.Networks = []NetworkRequest{{Network: "n"}}
	for name, s := range map[string]Server{
		"deleted before candidates": applyAll(networked, Created{}, prepared, DeleteRequested{}),
		"no valid host":             applyAll(networked, Created{}, prepared, NoValidHost{Reason: "full"}),
		"request refused":           applyAll(networked, Created{}, Refused{Step: Prepare, Reason: "no alias"}),
		"deleted":                   applyAll(withPort(t), DeleteRequested{}, GuestGone{Host: "a"}),
		"guest failed":              applyAll(withPort(t), GuestFailed{Host: "a", Message: "lost"}),
		"shelved":                   applyAll(withPort(t), ActionRequested{ID: "w", Action: Shelve}, GuestGone{Host: "a"}),
	} {
		if !slices.Equal(s.Steps(), []Step{Release}) {
			t.Errorf("%s: %s %v", name, s.Stage(), s.Steps())
		}
		s = applyAll(s, Released{})
		if len(s.Steps()) != 0 || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Host != "" }) {
			t.Errorf("%s: %s %v %+v", name, s.Stage(), s.Steps(), s.Ports)
		}
	}
}

// A port is attached in one step, during which no other action starts; a refusal leaves the server as it was.
func TestPortIsAttachedAndDetached(t *testing.T) {
	s := withPort(t)
	attach := PortAttachRequested{ID: "w1", Request: NetworkRequest{Port: "q", Network: "n"}}
	s = applyAll(s, attach)
	if !slices.Equal(s.Steps(), []Step{ChangePort}) || s.LastAction != "w1" || len(s.Networks) != 2 ||
		s.Refuse(Resize, false) == "" || s.RefusePortChange("attach_interface") == "" {
		t.Fatalf("%v %+v", s.Steps(), s.Networks)
	}
	if again := applyAll(s, PortAttachRequested{ID: "w2"}, PortAttached{ID: "w2"},
		PortDetached{ID: "w2"}); again.PortChange.ID !=
		"w1" || len(again.Ports) != 1 {
		t.Errorf("%+v", again.PortChange)
	}
	refused := applyAll(s, PortNotAttached{ID: "w1", Reason: "no room"})
	if refused.PortChange != nil || len(refused.Networks) != 1 || refused.Refusal == nil ||
		!strings.Contains(refused.Refusal.Message, "no room") || refused.Status() != "ACTIVE" {
		t.Errorf("%+v", refused.Refusal)
	}
	s = applyAll(s, PortAttached{ID: "w1", Port: Port{ID: "q", Host: "a"}})
	if len(s.Ports) != 2 || len(s.Steps()) != 0 {
		t.Fatalf("%+v %v", s.Ports, s.Steps())
	}
	s = applyAll(s, PortDetachRequested{ID: "w3", Port: "p"})
	if len(s.Ports) != 1 || len(s.Networks) != 2 || !slices.Equal(s.Steps(), []Step{ChangePort}) {
		t.Fatalf("%+v %+v %v", s.Ports, s.Networks, s.Steps())
	}
	s = applyAll(s, PortDetached{ID: "w3"})
	if len(s.Networks) != 1 || s.Networks[0].Port != "q" || s.PortChange != nil {
		t.Errorf("%+v", s.Networks)
	}
}
