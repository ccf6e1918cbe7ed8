package lifecycle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// vfClass is the class of the device of the port "q", which vfRequest requests of the provider "pf".
const vfClass = resource.Class("SRIOV_NET_VF")

var (
	vfRequest = pci.Request{ID: "V", Count: 1, Providers: []provider.ID{"pf"},
		Requirement: pci.Requirement{Class: vfClass}, Port: &pci.PortNeeds{ID: "q"}}
	picked = []schedule.Picked{{RequestID: "V", Address: "0000:3b:00.1", Provider: "pf"}}
	bound  = Port{ID: "q", Host: "a", Device: "0000:3b:00.1"}
)

// attaching is a server whose port "q" with a device is claimed and not yet picked.
func attaching(t *testing.T) Server {
	t.Helper()
	s := applyAll(withPort(t), PortAttachRequested{ID: "w", Request: NetworkRequest{Port: "q"}},
		PortClaimed{ID: "w", Port: Port{ID: "q"}, Device: vfRequest})
	if len(s.Steps()) != 0 || !slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return r.ID == "V" }) ||
		len(s.Ports) != 1 || s.RefusePortChange("attach_interface") == "" {
		t.Fatalf("%v %+v %+v", s.Steps(), s.Requests, s.Ports)
	}
	return s
}

// attachedVF is a server with the port "q" and its device.
func attachedVF(t *testing.T) Server {
	t.Helper()
	return applyAll(attaching(t), GuestRunning{Host: "a", Devices: picked}, PortAttached{ID: "w", Port: bound},
		GuestRunning{Host: "a", Devices: picked, Ports: []string{"p", "q"}})
}

// A port with a device is attached when its agent has picked the device, the port is bound with it, and the guest has
// it. The claimed allocation then has the device.
func TestPortWithADeviceIsAttached(t *testing.T) {
	s := applyAll(attaching(t), GuestRunning{Host: "a", Devices: picked})
	if !slices.Equal(s.Steps(), []Step{ChangePort}) {
		t.Fatalf("picked: %v", s.Steps())
	}
	s = applyAll(s, PortAttached{ID: "w", Port: bound})
	if len(s.Steps()) != 0 || len(s.Ports) != 2 || s.PortChange == nil {
		t.Fatalf("bound: %v %+v %+v", s.Steps(), s.Ports, s.PortChange)
	}
	s = applyAll(s, GuestStopped{Host: "a", Devices: picked, ShutDown: true}, GuestRunning{Host: "a", Devices: picked})
	if s.PortChange == nil {
		t.Fatal("the guest has no port yet")
	}
	s = applyAll(s, GuestStopped{Host: "a", Devices: picked, Ports: []string{"p", "q"}})
	if s.PortChange != nil || s.Choices[0].Allocation["pf"][vfClass] != 1 || s.Refusal != nil {
		t.Errorf("%+v, allocation %v", s.PortChange, s.Choices[0].Allocation)
	}
}

// What is refused, by the agent, the network service or the hypervisor, is undone: nothing is released before the agent
// has freed the device, and then the server is as before.
func TestPortWithADeviceIsNotAttached(t *testing.T) {
	runs, bound := GuestRunning{Host: "a", Devices: picked}, PortAttached{ID: "w", Port: bound}
	for name, events := range map[string][]Event{
		"no free device":       {GuestRefused{Host: "a", Message: "no device"}},
		"not bound":            {runs, PortRefused{ID: "w", Reason: "no device"}},
		"not by hypervisor":    {runs, bound, refusedVF},
		"refused repeatedly":   {runs, bound, refusedVF, refusedVF},
		"refused while bound":  {runs, refusedVF, GuestRunning{Host: "a"}, bound},
		"its host is dead":     {HostDead{Host: "a"}},
		"dead with its device": {runs, bound, HostDead{Host: "a"}},
	} {
		before := withPort(t)
		s := applyAll(attaching(t), events...)
		if len(s.Ports) != 1 || len(s.Requests) != len(before.Requests) || s.PortChange.Refused == "" {
			t.Fatalf("%s: %+v %+v %+v", name, s.Ports, s.Requests, s.PortChange)
		}
		if waits := len(s.Devices) > 0; waits == (len(s.Steps()) > 0) {
			t.Fatalf("%s: devices %v, steps %v", name, s.Devices, s.Steps())
		}
		s = applyAll(s, GuestRunning{Host: "a", Ports: []string{"p"}})
		if !slices.Equal(s.Steps(), []Step{ChangePort}) {
			t.Fatalf("%s: %v", name, s.Steps())
		}
		s = applyAll(s, PortNotAttached{ID: "w", Reason: s.PortChange.Refused})
		if s.PortChange != nil || s.Refusal == nil || s.Refusal.Code != 400 || len(s.Networks) != 1 || s.State != Active ||
			!reflect.DeepEqual(s.Choices, before.Choices) || s.Power != On || s.Actual != On {
			t.Errorf("%s: %+v %+v %v", name, s.PortChange, s.Refusal, s.Networks)
		}
	}
}

var refusedVF = GuestRefused{Host: "a", Devices: picked, Message: "no hot plug"}

// A detached port is released when the agent has freed its device. If the hypervisor refuses, the server keeps it.
func TestPortWithADeviceIsDetached(t *testing.T) {
	start := attachedVF(t)
	s := applyAll(start, PortDetachRequested{ID: "d", Port: "q"})
	if len(s.Steps()) != 0 || len(s.Ports) != 1 || len(s.Requests) != len(start.Requests)-1 ||
		len(s.Choices[0].Allocation["pf"]) != 0 {
		t.Fatalf("%v %+v %+v %v", s.Steps(), s.Ports, s.Requests, s.Choices[0].Allocation)
	}
	kept := applyAll(s, refusedVF)
	if kept.PortChange != nil || kept.Refusal == nil || !strings.Contains(kept.Refusal.Message, "no hot plug") ||
		!reflect.DeepEqual(kept.Ports, start.Ports) || !reflect.DeepEqual(kept.Requests, start.Requests) ||
		!reflect.DeepEqual(kept.Choices, start.Choices) || len(kept.Steps()) != 0 {
		t.Errorf("%+v %+v %+v %v", kept.Refusal, kept.Ports, kept.Requests, kept.Steps())
	}
	for _, e := range []Event{GuestRunning{Host: "a", Ports: []string{"p"}}, HostDead{Host: "a"}} {
		free := applyAll(s, e)
		if !slices.Equal(free.Steps(), []Step{ChangePort}) {
			t.Fatalf("%T: %v", e, free.Steps())
		}
		if free = applyAll(free, PortDetached{ID: "d"}); free.PortChange != nil || len(free.Networks) != 1 {
			t.Errorf("%T: %+v %+v", e, free.PortChange, free.Networks)
		}
	}
}

// Whatever happens while a port with a device is attached or detached, in any order: a server that is ACTIVE ends the
// change when the agent, the network service and Placement do their part, and its requests and its ports agree.
func TestAnyOrderOfPortDeviceEvents(t *testing.T) {
	key := func(s Server) string {
		return fmt.Sprint(s.State, s.PortChange != nil, changeOf(s), len(s.Ports), len(s.Requests), s.Devices, s.Power,
			s.Actual, s.Choices, s.DeletedPorts)
	}
	list := []Event{PortAttachRequested{ID: "w", Request: NetworkRequest{Port: "q"}},
		PortClaimed{ID: "w", Port: Port{ID: "q"}, Device: vfRequest}, PortRefused{ID: "w", Reason: "no"},
		PortAttached{ID: "w", Port: bound}, PortNotAttached{ID: "w", Reason: "no"}, PortDetached{ID: "d"},
		PortDetachRequested{ID: "d", Port: "q"}, GuestRunning{Host: "a", Devices: picked},
		GuestRunning{Host: "a", Devices: picked, Ports: []string{"q"}}, GuestRunning{Host: "a"}, refusedVF,
		GuestRefused{Host: "a", Message: "no"}, HostDead{Host: "a"}, DeleteRequested{},
		GuestStopped{Host: "a", Devices: picked, ShutDown: true}, PortDeleted{Port: "q"}, PortDetached{ID: "q"}}
	start := withPort(t)
	seen, queue := map[string]bool{key(start): true}, []Server{start}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		checkPortChangeEnds(t, s)
		for _, e := range list {
			_, attach := e.(PortAttachRequested)
			if attach && slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == "q" }) {
				continue // the Compute API refuses it
			}
			next := trim(applyAll(s, e))
			next.Refusal = nil
			if k := key(next); !seen[k] {
				seen[k] = true
				queue = append(queue, next)
			}
		}
		if len(seen) > 10000 {
			t.Fatal("a record grows without limit")
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d situations", len(seen))
	}
}

// changeOf returns the stage of the change of a port.
func changeOf(s Server) string {
	if s.PortChange == nil {
		return ""
	}
	c := s.PortChange
	return fmt.Sprint(c.Detach, c.Device != nil, c.Port != nil, c.Refused != "")
}

// checkPortChangeEnds checks that the change of a port of an ACTIVE server ends.
func checkPortChangeEnds(t *testing.T, s Server) {
	t.Helper()
	for range 6 {
		if s.State != Active || s.PortChange == nil && len(s.DeletedPorts) == 0 {
			break
		}
		if s.PortChange == nil { // the agent has lost the device of a port, and picks it again
			s = applyAll(s, GuestRunning{Host: "a", Devices: picked, Ports: []string{"q"}})
			continue
		}
		change, asked := s.PortChange, slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return r.ID == "V" })
		switch {
		case !slices.Equal(s.Steps(), []Step{ChangePort}) && asked && len(s.Ports) > 1:
			s = applyAll(s, GuestRunning{Host: "a", Devices: picked, Ports: []string{"q"}})
		case !slices.Equal(s.Steps(), []Step{ChangePort}) && asked:
			s = applyAll(s, GuestRunning{Host: "a", Devices: picked})
		case !slices.Equal(s.Steps(), []Step{ChangePort}):
			s = applyAll(s, GuestRunning{Host: "a"})
		case change.Detach != "":
			s = applyAll(s, PortDetached{ID: change.ID})
		case change.Refused != "":
			s = applyAll(s, PortNotAttached{ID: "w", Reason: "no"})
		case change.Device == nil:
			s = applyAll(s, PortClaimed{ID: "w", Port: Port{ID: "q"}, Device: vfRequest})
		default:
			s = applyAll(s, PortAttached{ID: "w", Port: bound})
		}
	}
	if s.State != Active {
		return
	}
	if len(s.DeletedPorts) > 0 {
		t.Errorf("the deleted ports %q are not detached: %s", s.DeletedPorts, s.RefusePortChange("detach_interface"))
	}
	requested := slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return r.ID == "V" })
	if has := slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == "q" }); s.PortChange != nil ||
		has != requested && !has {
		t.Errorf("change %+v, ports %+v, requests %+v", s.PortChange, s.Ports, s.Requests)
	}
}

// In a live migration the ports get their bindings after the agent of the destination has picked the devices. A host
// where that is refused is left before another one is tried.
func TestPortsWithDevicesOfALiveMigration(t *testing.T) {
	s := attachedVF(t)
	there := choice("b")
	there.Mappings[vfRequest.GroupSuffix(0)] = []provider.ID{"pf-b"}
	s = applyAll(s, ActionRequested{ID: "m", Action: Live},
		Chosen{Choices: []schedule.Choice{there}, Ports: s.Ports, PortDevices: []pci.Request{vfRequest}}, AllocationsMoved{},
		GuestRunning{Host: "a", Consumer: "m", Devices: picked}, Claimed{Try: 2})
	if s.Phase() != PreLiveMigration || s.Assignment() != "b" || len(s.Steps()) != 0 {
		t.Fatalf("%s %q %v", s.Stage(), s.Assignment(), s.Steps())
	}
	onB := []schedule.Picked{{RequestID: "V", Address: "0000:5e:00.1", Provider: "pf-b"}}
	s = applyAll(s, GuestClaimed{Host: "b", Devices: onB})
	if s.Phase() != PreLiveMigration || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Fatalf("%s %v", s.Stage(), s.Steps())
	}
	refused := applyAll(s, PortsNotBound{Host: "b", Reason: "no agent"})
	if refused.Phase() != PreLiveMigration || refused.Assignment() != "" || len(refused.Steps()) != 0 {
		t.Errorf("refused: %s %q %v", refused.Stage(), refused.Assignment(), refused.Steps())
	}
	if refused = applyAll(refused, GuestGone{Host: "b"}); refused.Phase() != ReschedulingDestination ||
		refused.FailedHosts["b"] != "no agent" {
		t.Errorf("refused and gone: %s %v", refused.Stage(), refused.FailedHosts)
	}
	added := slices.Clone(s.Ports)
	added[slices.IndexFunc(added, func(p Port) bool { return p.ID == "q" })].Device = "0000:5e:00.1"
	s = applyAll(s, PortsBound{Host: "b", Ports: added})
	if s.Phase() != LiveMigrating || len(s.Steps()) != 0 ||
		s.Entries()[1].DeviceMap["0000:3b:00.1"] != "0000:5e:00.1" {
		t.Fatalf("%s %v %+v", s.Stage(), s.Steps(), s.Entries())
	}
	s = applyAll(s, GuestMigrated{Host: "a", Consumer: "m"})
	if s.State != Active || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Errorf("%s %v", s.Stage(), s.Steps())
	}
}

// An agent at the source of a move that has lost its journal picks another device for a port. Its assignment then has
// that one, so that it can build the guest; if the server returns, the port is bound again.
func TestSourceOfAMoveGetsTheDeviceThatItsAgentPicks(t *testing.T) {
	s := attachedVF(t)
	there := choice("b")
	there.Mappings[vfRequest.GroupSuffix(0)] = []provider.ID{"pf-b"}
	s = applyAll(s, ActionRequested{ID: "m", Action: Migrate},
		Chosen{Choices: []schedule.Choice{there}, Ports: s.Ports, PortDevices: []pci.Request{vfRequest}}, AllocationsMoved{},
		GuestRunning{Host: "a", Consumer: "m", Devices: picked}, Claimed{Try: 1})
	if got := portAt(s, "a", "m"); got.Device != picked[0].Address {
		t.Fatalf("%s: %+v", s.Stage(), got)
	}
	other := []schedule.Picked{{RequestID: "V", Address: "0000:3b:00.2", Provider: "pf"}}
	s = applyAll(s, GuestClaimed{Host: "a", Consumer: "m", Devices: other})
	if got := portAt(s, "a", "m"); got.Device != other[0].Address {
		t.Errorf("%s: %+v", s.Stage(), got)
	}
	s = applyAll(s, GuestStopped{Host: "a", Consumer: "m"})
	if got := portAt(s, "a", "m"); got.Device != other[0].Address {
		t.Errorf("a report without devices: %+v", got)
	}
}

// portAt returns the port "q" in the assignments of a host.
func portAt(s Server, host, consumer string) (port Port) {
	for _, e := range s.Entries() {
		for _, p := range e.Ports {
			if e.Host == host && e.Consumer == consumer && p.ID == "q" {
				port = p
			}
		}
	}
	return port
}

// If compute's database is restored to before the ports of a server are bound, its guest reports that it runs. Its
// assignment has no interface until the port is bound again: an interface without the device would replace the guest's.
func TestGuestKeepsItsDeviceUntilARestoredRecordHasIt(t *testing.T) {
	at := choice("a")
	at.Mappings[vfRequest.GroupSuffix(0)] = []provider.ID{"pf"}
	s := fresh()
	s.Networks = []NetworkRequest{{Port: "q"}}
	s = applyAll(s, Created{}, prepared, Chosen{Choices: []schedule.Choice{at}, Ports: []Port{{ID: "q"}},
		PortDevices: []pci.Request{vfRequest}}, Claimed{Try: 1},
		GuestRunning{Host: "a", Devices: picked, Ports: []string{"q"}})
	if list := s.Entries(); len(list) != 1 || !list[0].ClaimOnly || !slices.Equal(s.Steps(), []Step{BindPorts}) {
		t.Fatalf("%s %+v, due %v", s.Stage(), list, s.Steps())
	}
	s = applyAll(s, PortsBound{Host: "a", Ports: []Port{bound}}, GuestRunning{Host: "a", Devices: picked})
	if list := s.Entries(); s.State != Active || list[0].ClaimOnly || len(s.Steps()) > 0 {
		t.Errorf("%s %+v, due %v", s.Stage(), list, s.Steps())
	}
}
