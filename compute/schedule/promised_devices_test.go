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
		promised.Guests = []schedule.Guest{{ID: "s1", Requests: []pci.Request{r}, Cells: numa.WithNodes(guest(1), []int{at})}}
		check(t, question{requests: []pci.Request{r}, cells: guest(1)}, promised, "", "")
	}
}
