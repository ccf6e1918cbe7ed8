package schedule_test

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// memories are the plans that are remembered, by state and question.
type memories map[string]memory

type memory map[string]schedule.PlanAnswer

func (m memory) Answer(question string) (schedule.PlanAnswer, bool) {
	a, known := m[question]
	return a, known
}

func (m memory) Keep(question string, answer schedule.PlanAnswer) { m[question] = answer }

// remember returns the host with the memory of its state.
func (m memories) remember(h schedule.Host) schedule.Host {
	h = h.WithFree()
	state := h.PlanState()
	if m[state] == nil {
		m[state] = memory{}
	}
	return h.WithMemory(m[state])
}

// Remembered plans are those of hosts in the same state only: each change of a host that a plan depends on is seen.
func TestRememberedPlansFollowTheHost(t *testing.T) {
	plans := memories{}
	full := func() schedule.Host {
		h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p0", 0), testDevice(2, pci.Plain, "1533", "p1", 1)),
			node(0, 0, 2), node(1, 1, 2))
		for i := range h.Devices {
			h.Devices[i].Traits = nil
		}
		return h
	}
	r := withPolicy(pci.Required, requestFor(2, "", "1533"))
	r.ID = "R"
	for name, change := range map[string]func(*schedule.Host){
		"as it was":            func(*schedule.Host) {},
		"a device is claimed":  func(h *schedule.Host) { h.Devices[0].State = pci.Claimed },
		"a device is spent":    func(h *schedule.Host) { h.Devices[1].Spent = true },
		"of another class":     func(h *schedule.Host) { h.Devices[0].ResourceClass = "CUSTOM_OTHER" },
		"of another product":   func(h *schedule.Host) { h.Devices[0].Product = "1534" },
		"not in Placement":     func(h *schedule.Host) { h.Devices[0].Provider = "" },
		"on another node":      func(h *schedule.Host) { h.Devices[1].NUMANode = 0 },
		"on no known node":     func(h *schedule.Host) { h.Devices[1].NUMANode = pci.NoNUMA },
		"for ports":            func(h *schedule.Host) { h.Devices[1].ForPorts = true },
		"a node has no CPUs":   func(h *schedule.Host) { h.Cells[1].Dedicated = nil },
		"CPUs are in use":      func(h *schedule.Host) { h.Cells[1].Pinned = h.Cells[1].Dedicated },
		"memory is in use":     func(h *schedule.Host) { h.Cells[0].UsedMemory = 4096 },
		"a guest is on a node": func(h *schedule.Host) { h.Guests = []schedule.Guest{{ID: "g", Cells: guest(1)}} },
	} {
		h := full()
		change(&h)
		ask := func(h schedule.Host) ([]provider.ID, []schedule.Refusal) {
			p := schedule.Input{Hosts: hosts(h), Cells: guest(2), Now: noon, Silence: schedule.Silence,
				Counted: map[string]bool{"R": true}}
			roots, _, refusals := schedule.PlanHosts(p, []pci.Request{r}, 1)
			return roots, refusals
		}
		ask(plans.remember(full()))
		fresh, why := ask(h)
		remembered, whyRemembered := ask(plans.remember(h))
		if !reflect.DeepEqual(fresh, remembered) || !reflect.DeepEqual(why, whyRemembered) {
			t.Errorf("%s: %v %v, remembered %v %v", name, fresh, why, remembered, whyRemembered)
		}
		if (len(fresh) == 1) != (name == "as it was" || name == "on another node") {
			t.Errorf("%s: %v %v", name, fresh, why)
		}
	}
}

// A host whose machine was described before has the PlanState of one that is described as it is, whatever changes
// without a new report.
func TestPlanStateOfDescribedMachine(t *testing.T) {
	of := func(change func(*schedule.Host), describe func(schedule.Host) schedule.Host) string {
		h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p0", 0), testDevice(2, pci.Plain, "1533", "p1", 1)),
			node(0, 0, 2), node(1, 1, 2))
		h = describe(h)
		change(&h)
		return h.WithFree().PlanState()
	}
	states := map[string]bool{}
	for name, change := range map[string]func(*schedule.Host){
		"none":     func(*schedule.Host) {},
		"claimed":  func(h *schedule.Host) { h.Devices[0].State, h.Devices[0].Holder = pci.Claimed, "g" },
		"spent":    func(h *schedule.Host) { h.Devices[0].Spent = true },
		"disabled": func(h *schedule.Host) { *h = h.WithDisabled(pci.Disablement{Address: h.Devices[1].Address}) },
		"guest":    func(h *schedule.Host) { h.Guests = []schedule.Guest{{ID: "g", Cells: guest(1)}} },
	} {
		fresh := of(change, func(h schedule.Host) schedule.Host { return h })
		if described := of(change, schedule.Host.WithMachine); described != fresh {
			t.Errorf("%s: %s, described before: %s", name, fresh, described)
		}
		states[fresh] = true
	}
	if len(states) != 5 {
		t.Errorf("%d states of 5 differ", len(states))
	}
	named := of(func(*schedule.Host) {}, func(h schedule.Host) schedule.Host {
		h.Devices[0].Bandwidth, h.Devices[0].Gone = "bw", true
		return h
	})
	if !states[named] {
		t.Errorf("no plan depends on the provider of bandwidth: %s", named)
	}
}
