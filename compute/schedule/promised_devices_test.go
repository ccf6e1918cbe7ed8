package schedule_test

import (
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// While Placement does not count devices, the one that a server gets and the report does not have yet is near its
// planned node: it does not count as taken on another one.
func TestPromisedDeviceIsNearItsGuest(t *testing.T) {
	h := withCells(host("h", testDevice(1, pci.Plain, "1533", "", 0), testDevice(2, pci.Plain, "1533", "", 1)),
		node(0, 0, 2), node(1, 1, 2))
	r := withPolicy(pci.Required, requestFor(1, pci.Plain, "1533"))
	r.ID = "Q"
	for at := range 2 {
		promised := h
		promised.Guests = []schedule.Guest{{ID: "s1", Requests: []pci.Request{r},
			Cells: numa.WithChoices(guest(1), []numa.CellChoice{{Node: at}})}}
		check(t, question{requests: []pci.Request{r}, cells: guest(1)}, promised, "", "")
	}
}

// So are the devices of a set: those that agree count as taken.
func TestPromisedSetAgrees(t *testing.T) {
	below := func(root uint8, d pci.Offered) pci.Offered {
		d.Bridges = []pci.Address{{Bus: root}}
		return d
	}
	h := host("h",
		below(0x81, testDevice(1, pci.Plain, "2330", "", 0)), below(0x82, testDevice(2, pci.Plain, "1533", "", 0)),
		below(0x82, testDevice(3, pci.Plain, "2330", "", 0)), below(0x81, testDevice(4, pci.Plain, "1533", "", 0)))
	gpu, nic := requestFor(1, pci.Plain, "2330"), requestFor(1, pci.Plain, "1533")
	gpu.ID, nic.ID = "G", "N"
	gpu.Match = &pci.Match{Set: 1, Family: "pcie_root", Times: 1}
	nic.Match = gpu.Match
	h.Guests = []schedule.Guest{{ID: "s1", Requests: []pci.Request{gpu, nic}}}
	p := schedule.Input{Hosts: hosts(h), Now: noon, Silence: schedule.Silence}
	if roots, _, refusals := schedule.PlanHosts(p, []pci.Request{gpu, nic}, 1); len(roots) != 1 {
		t.Error(refusals)
	}
}
