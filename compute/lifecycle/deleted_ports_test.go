package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// A port that the network service has deleted is detached with its device, also if BindPorts has left it out before.
// The last action of the user stays what it was.
func TestDeletedPortWithADevice(t *testing.T) {
	for name, ports := range map[string][]Port{"bound": attachedVF(t).Ports, "left out": attachedVF(t).Ports[:1]} {
		s := attachedVF(t)
		s.Ports = ports
		s = applyAll(s, PortDeleted{Port: "q"})
		if s.PortChange == nil || s.PortChange.Device == nil || len(s.Ports) != 1 || s.LastAction != "w" ||
			!strings.Contains(s.History[len(s.History)-2].Text, "deleted port q") {
			t.Fatalf("%s: %+v %+v", name, s.PortChange, s.History)
		}
		s = applyAll(s, PortDeleted{Port: "q"}, GuestRunning{Host: "a", Ports: []string{"p"}}, PortDetached{ID: "q"})
		if s.PortChange != nil || s.HasPort("q") || len(s.Networks) != 1 || len(s.Choices[0].Allocation["pf"]) != 0 {
			t.Errorf("%s: %+v %+v %v", name, s.PortChange, s.Networks, s.Choices[0].Allocation)
		}
	}
}

// BindPorts in state Active reports a port that it has left out: it is detached, although no deletion was reported.
func TestPortThatIsGoneWithoutReport(t *testing.T) {
	s := withPort(t)
	s.Ports = portsToRestore(s.Ports)
	s = applyAll(s, PortsBound{Host: "a"})
	if s.PortChange == nil || s.PortChange.Detach != "p" || !slices.Equal(s.Steps(), []Step{ChangePort}) {
		t.Fatalf("%+v %v", s.PortChange, s.Steps())
	}
	if s = applyAll(s, PortDetached{ID: "p"}); len(s.Networks) != 0 || s.PortChange != nil {
		t.Errorf("%+v %+v", s.Networks, s.PortChange)
	}
}

// A port that the network service has for another device is detached from a guest, and the user sees the reason after
// that too. BindPorts is not repeated.
func TestPortWithAnotherDevice(t *testing.T) {
	s := withPort(t)
	s.Ports = portsToRestore(s.Ports)
	s = applyAll(s, PortsBound{Host: "a", Lost: map[string]string{"p": "its device is \"x\""}})
	if s.PortChange == nil || s.PortChange.Detach != "p" || !slices.Equal(s.Steps(), []Step{ChangePort}) {
		t.Fatalf("%+v %v", s.PortChange, s.Steps())
	}
	s = applyAll(s, PortDetached{ID: "p"})
	const want = `The port is detached: its device is "x".`
	if len(s.Networks) != 0 || len(s.Steps()) != 0 || s.Refusal == nil || s.Refusal.Message != want ||
		s.Status() != "ACTIVE" {
		t.Errorf("%+v %v %+v", s.Networks, s.Steps(), s.Refusal)
	}
}

// Ports that do not belong to a server, and those of a server that is being deleted, change nothing.
func TestDeletedPortsWithoutEffect(t *testing.T) {
	full := attaching(t)
	full.DeletedPorts = make([]string, MaxDeletedPorts)
	for name, s := range map[string]Server{
		"another port":      withPort(t),
		"a deletion":        applyAll(withPort(t), DeleteRequested{}),
		"it is detached":    applyAll(withPort(t), PortDetachRequested{ID: "d", Port: "p"}),
		"no server":         {},
		"too many recorded": full,
	} {
		port := "p"
		if name == "another port" {
			port = "other"
		}
		if next := applyAll(s, PortDeleted{Port: port}); len(next.History) != len(s.History) ||
			len(next.DeletedPorts) != len(s.DeletedPorts) {
			t.Errorf("%s: %+v %q", name, next.History, next.DeletedPorts)
		}
	}
}

// A deletion while a port is attached is recorded, and has its effect after that, also if the id of the port was not
// known. A refused attachment has nothing to detach.
func TestDeletionOfAPortThatIsBeingAttached(t *testing.T) {
	for _, r := range []NetworkRequest{{Port: "q"}, {Network: "m"}} {
		s := applyAll(withPort(t), PortAttachRequested{ID: "w", Request: r}, PortDeleted{Port: "q"})
		if !slices.Equal(s.DeletedPorts, []string{"q"}) || s.PortChange.ID != "w" {
			t.Fatalf("%+v: %q %+v", r, s.DeletedPorts, s.PortChange)
		}
		for _, e := range []Event{PortAttached{ID: "w", Port: Port{ID: "q", Network: "m", Host: "a", Created: r.Port == ""}},
			PortNotAttached{ID: "w", Reason: "gone"}} {
			next := applyAll(s, e)
			if next.PortChange == nil || next.PortChange.Detach != "q" || len(next.DeletedPorts) != 0 {
				t.Fatalf("%+v %T: %+v %q", r, e, next.PortChange, next.DeletedPorts)
			}
			next = applyAll(next, PortDetached{ID: "q"})
			if len(next.Networks) != 1 || len(next.Ports) != 1 || next.PortChange != nil || next.Networks[0].Network != "n" {
				t.Errorf("%+v %T: %+v %+v", r, e, next.Networks, next.Ports)
			}
		}
	}
}

// A shelved server has nothing of a deleted port but its entries, which are removed at once.
func TestDeletedPortOfAServerWithoutGuest(t *testing.T) {
	s := applyAll(withPort(t), ActionRequested{ID: "x", Action: Shelve}, GuestGone{Host: "a"}, Released{})
	if s.State != Shelved || len(s.Networks) != 1 || len(s.Ports) != 1 {
		t.Fatalf("%s %+v %+v", s.State, s.Networks, s.Ports)
	}
	s = applyAll(s, PortDeleted{Port: "p"})
	if len(s.Networks)+len(s.Ports)+len(s.DeletedPorts) != 0 {
		t.Errorf("%+v %+v %q", s.Networks, s.Ports, s.DeletedPorts)
	}
}

// moving returns the event with which each part of a cold migration from host a to b ends, and of the build before it.
func moving(port Port, devices []pci.Request) []Event {
	here, there := choice("a"), choice("b")
	for _, c := range []schedule.Choice{here, there} {
		c.Mappings["V0"] = []provider.ID{"pf"}
	}
	bind := func(host string) PortsBound {
		p := port
		p.Host = host
		if len(devices) > 0 {
			p.Device = picked[0].Address
		}
		return PortsBound{Host: host, Ports: []Port{p}}
	}
	claimed := func(host string) Event { return GuestClaimed{Host: host, Devices: picked} }
	return []Event{
		Created{}, prepared, Chosen{Choices: []schedule.Choice{here}, Ports: []Port{port}, PortDevices: devices},
		Claimed{Try: 1}, claimed("a"), bind("a"), GuestRunning{Host: "a", Devices: picked, Ports: []string{port.ID}},
		ActionRequested{ID: "m", Action: Migrate},
		Chosen{Choices: []schedule.Choice{there}, Ports: []Port{port}, PortDevices: devices},
		AllocationsMoved{}, GuestRunning{Host: "a", Consumer: "m", Devices: picked}, Claimed{Try: 2},
		GuestStopped{Host: "a", Consumer: "m", Devices: picked}, claimed("b"), bind("b"),
		GuestRunning{Host: "b", Devices: picked, Ports: []string{port.ID}},
		ActionRequested{ID: "c", Action: Confirm},
	}
}

// Whenever a port is deleted during a build and a migration, its deletion has its effect at the end: the port is
// detached, and with it its device. Until then no change begins, and the entry of the port has its id. The record
// alone determines it, so a restart at any point changes nothing.
func TestPortDeletedDuringABuildAndAMove(t *testing.T) {
	for name, devices := range map[string][]pci.Request{"without a device": nil, "with a device": {vfRequest}} {
		port := Port{ID: "q", Network: "n", Created: true}
		all := moving(port, devices)
		begun := 0
		for at := range all {
			s := fresh()
			s.Networks = []NetworkRequest{{Network: "n"}}
			s = applyAll(s, all[:at+1]...)
			idle := s.RefusePortChange("detach_interface") == ""
			before := len(s.DeletedPorts)
			may := s.MayHavePort("q")
			s = applyAll(s, PortDeleted{Port: "q"})
			where := fmt.Sprintf("%s, after event %d %T, %s", name, at, all[at], s.Stage())
			switch {
			case !may: // not created yet
				if before != len(s.DeletedPorts) || s.PortChange != nil {
					t.Errorf("%s: %q %+v", where, s.DeletedPorts, s.PortChange)
				}
				continue
			case idle != (s.PortChange != nil) || idle == (len(s.DeletedPorts) > 0):
				t.Errorf("%s: idle %v, deleted %q, change %+v", where, idle, s.DeletedPorts, s.PortChange)
				continue
			case idle:
				begun++
				continue
			case s.Networks[0].Port != "q":
				t.Errorf("%s: %+v", where, s.Networks)
			}
			for _, e := range all[at+1:] {
				if _, action := e.(ActionRequested); action && s.PortChange != nil {
					break
				}
				s = applyAll(s, e)
			}
			if s.PortChange == nil || s.PortChange.Detach != "q" || len(s.DeletedPorts) > 0 || s.HasPort("q") {
				t.Errorf("%s: at the end %s, deleted %q, change %+v", where, s.Stage(), s.DeletedPorts, s.PortChange)
				continue
			}
			s = applyAll(s, GuestRunning{Host: s.Host}, PortDetached{ID: "q"})
			if s.PortChange != nil || len(s.Networks)+len(s.Ports) > 0 || len(s.Requests) != len(prepared.Requests) {
				t.Errorf("%s: at the end %+v %+v %+v", where, s.Networks, s.Ports, s.Requests)
			}
		}
		if begun != 2 { // built, and confirmed
			t.Errorf("%s: %d detached at once", name, begun)
		}
	}
}

// A port that is deleted after it was claimed at the destination is detached at the source if the move is reverted.
func TestDeletedPortOfARevertedMove(t *testing.T) {
	port := Port{ID: "q", Network: "n", Created: true}
	all := moving(port, []pci.Request{vfRequest})
	s := fresh()
	s.Networks = []NetworkRequest{{Network: "n"}}
	s = applyAll(s, all[:len(all)-1]...)
	s = applyAll(s, PortDeleted{Port: "q"}, ActionRequested{ID: "r", Action: Revert}, GuestGone{Host: "b"}, Released{},
		AllocationsRestored{}, PortsBound{Host: "a"}, GuestRunning{Host: "a", Consumer: "s", Devices: picked})
	if s.Host != "a" || s.PortChange == nil || s.PortChange.Device == nil || len(s.DeletedPorts) > 0 {
		t.Errorf("%s on %s: %+v %q", s.Stage(), s.Host, s.PortChange, s.DeletedPorts)
	}
}
