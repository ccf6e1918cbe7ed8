package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// attachRequest is a request to attach a port.
func attachRequest(port string) PortAttachRequested {
	return PortAttachRequested{ID: "w-" + port, Request: NetworkRequest{Port: port, Network: "n"}}
}

// wantOutcome checks the result of a request.
func wantOutcome(t *testing.T, s Server, id, port, refused string) {
	t.Helper()
	o, known, ended := s.PortOutcome(id)
	if !known || !ended || o.Port != port || !strings.Contains(o.Refused, refused) || refused == "" && o.Refused != "" {
		t.Errorf("%s: %+v, known %t, ended %t", id, o, known, ended)
	}
}

// Changes of ports that are requested at the same time are performed one after the other, and each has its own result:
// the second one is refused, the others are made. Other actions are refused until the last one has ended.
func TestChangesOfPortsAreQueued(t *testing.T) {
	s := withPort(t)
	for _, port := range []string{"q", "r", "u"} {
		if s = applyAll(s, attachRequest(port)); s.LastAction != "w-"+port {
			t.Fatalf("%s is not accepted", port)
		}
	}
	s = applyAll(s, PortDetachRequested{ID: "d", Port: "p"})
	if s.PortChange.ID != "w-q" || len(s.PortQueue) != 3 || len(s.Networks) != 2 {
		t.Fatalf("%+v, %d wait; %v", s.PortChange, len(s.PortQueue), s.Networks)
	}
	s = applyAll(s, PortAttached{ID: "w-q", Port: Port{ID: "q", Host: "a"}})
	if s.PortChange.ID != "w-r" || !slices.Equal(s.Steps(), []Step{ChangePort}) || s.Refuse(Resize, false) == "" {
		t.Fatalf("%+v %v", s.PortChange, s.Steps())
	}
	s = applyAll(s, PortNotAttached{ID: "w-r", Reason: "no room"})
	if _, _, ended := s.PortOutcome("w-u"); ended || s.PortChange.ID != "w-u" {
		t.Fatalf("%+v", s.PortChange)
	}
	s = applyAll(s, PortAttached{ID: "w-u", Port: Port{ID: "u", Host: "a"}}, PortDetached{ID: "d"})
	wantOutcome(t, s, "w-q", "q", "")
	wantOutcome(t, s, "w-r", "", "no room")
	wantOutcome(t, s, "w-u", "u", "")
	wantOutcome(t, s, "d", "", "")
	if s.PortChange != nil || len(s.PortQueue) != 0 || len(s.Ports) != 2 || len(s.Networks) != 2 || len(s.Steps()) != 0 ||
		s.Refuse(Resize, false) != "" {
		t.Errorf("%+v %+v %v", s.PortChange, s.Ports, s.Networks)
	}
}

// A port is attached once, and detached once, although the requests were accepted together.
func TestQueuedChangesOfTheSamePort(t *testing.T) {
	s := applyAll(withPort(t), attachRequest("q"), PortAttachRequested{ID: "again", Request: NetworkRequest{Port: "q",
		Network: "n"}}, PortDetachRequested{ID: "d1", Port: "p"}, PortDetachRequested{ID: "d2", Port: "p"})
	s = applyAll(s, PortAttached{ID: "w-q", Port: Port{ID: "q", Host: "a"}}, PortDetached{ID: "d1"})
	wantOutcome(t, s, "w-q", "q", "")
	wantOutcome(t, s, "again", "", "attached to instance s already")
	wantOutcome(t, s, "d1", "", "")
	wantOutcome(t, s, "d2", "", "Port p is not attached")
	if len(s.Ports) != 1 || len(s.Networks) != 1 || s.PortChange != nil {
		t.Errorf("%+v %v %+v", s.Ports, s.Networks, s.PortChange)
	}
}

// The queue has a bound. Above it a request is refused, with what to do, and those that wait are not affected.
func TestQueueOfPortChangesIsBounded(t *testing.T) {
	s := applyAll(withPort(t), attachRequest("q"))
	for n := range MaxQueuedPortChanges {
		if refusal := s.RefusePortRequest("attach_interface"); refusal != "" {
			t.Fatalf("%d wait: %s", n, refusal)
		}
		s = applyAll(s, attachRequest(fmt.Sprint(n)))
	}
	refusal := s.RefusePortRequest("attach_interface")
	if last := applyAll(s, attachRequest("last")); last.LastAction == "w-last" || !strings.Contains(refusal, "try again") {
		t.Errorf("accepted, refusal %q", refusal)
	}
	for range 3 * MaxQueuedPortChanges { // results do not grow without end
		s = applyAll(s, PortNotAttached{ID: s.PortChange.ID, Reason: "no"}, attachRequest("more"))
	}
	if len(s.PortOutcomes) > maxPortOutcomes || len(s.PortQueue) > MaxQueuedPortChanges {
		t.Errorf("%d results, %d wait", len(s.PortOutcomes), len(s.PortQueue))
	}
}

// Requests that wait are refused when the server is deleted or its guest is lost.
func TestQueuedPortChangesEndWithTheServer(t *testing.T) {
	for name, event := range map[string]Event{
		"deleted":    DeleteRequested{},
		"guest lost": GuestFailed{Host: "a", Message: "lost"},
	} {
		s := applyAll(withPort(t), attachRequest("q"), attachRequest("r"), event)
		if _, known, ended := s.PortOutcome("w-r"); !ended || !known || len(s.PortQueue) > 0 {
			t.Errorf("%s: known %t, ended %t", name, known, ended)
		}
	}
}

// A change that is requested while the ports of the server are bound again, after a move, waits for that.
func TestPortChangeWaitsForTheBinding(t *testing.T) {
	s := withPort(t)
	s.Ports = portsUnbound(s.Ports)
	s = applyAll(s, attachRequest("q"))
	if s.PortChange != nil || len(s.PortQueue) != 1 || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Fatalf("%+v %v", s.PortChange, s.Steps())
	}
	bound := slices.Clone(s.Ports)
	bound[0].Host = "a"
	if s = applyAll(s, PortsBound{Host: "a", Ports: bound}); s.PortChange == nil || s.PortChange.ID != "w-q" {
		t.Errorf("%+v", s.PortChange)
	}
}
