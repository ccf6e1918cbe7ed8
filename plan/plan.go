package plan

import (
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// Host is what a host has free.
type Host struct {
	Room    numa.Host // its NUMA nodes, with what guests use
	Devices []Device  // the free ones, in the order of preference
}

// NoCard is the Card of a device that excludes no other one.
const NoCard = -1

// Device is a free device.
type Device struct {
	Fits []bool // by request of the guest: whether it can serve the request, anywhere on the host
	// Near are the nearest nodes with CPUs, ascending; nil: unknown. Beside are the nodes on the sockets of these, nil if
	// the sockets of the host's nodes are unknown.
	Near, Beside []int
	// Values are its values of the families that Guest.Sets names, by family and ascending.
	Values map[string][]string
	// Card numbers the card that can be given as a whole, when Whole is set, or in parts: never both.
	Card  int
	Whole bool
	// Later is how much the device is to be kept for others: of equally near devices those with the smallest sum are
	// used.
	Later int
}

// Request is a number of devices of one kind.
type Request struct {
	Count  int
	Policy pci.NUMAPolicy
}

// Set is a number of sets of devices: all devices of one set have a value of the family in common.
type Set struct {
	Family   string
	Requests []int // indexes of the requests whose devices are in the sets, equally many of each in each set
	Times    int   // how many sets, which agree each by itself; 0 is 1
}

// Guest is a guest that is to be placed.
type Guest struct {
	Cells    []numa.GuestCell
	Nodes    []int // the nodes of a guest that is placed already, ascending; Cells do not count then
	Requests []Request
	Sets     []Set // a request is in one of them at most
}

// Plan is where a guest fits.
type Plan struct {
	Placed  []numa.Placed // of each cell
	Devices [][]int       // by request: indexes of Host.Devices
	Far     int           // the sum of the ranks of the devices; see numa.Local
}

// Refusal is why a guest does not fit.
type Refusal struct {
	Cells numa.Refusal // why its cells do not fit, whatever the devices; its Reason is empty if they do

	// If the cells fit: the request that lacks a device, and how many of all devices are there at most.
	Request        int
	Served, Wanted int
	Nodes          []int // of the guest, where most devices are near enough; nil: they are too few anywhere
	Set            int   // the set whose devices are there but do not agree, or -1
}

// Make returns a plan for a guest, or why there is none. Of several plans it returns one with as many devices of the
// first rank as possible, then of the second; of these the first one in the order of numa.Options.
func Make(h Host, g Guest) (Plan, *Refusal) {
	s := &search{host: h, guest: g}
	s.prepare()
	switch {
	case len(g.Nodes) > 0:
		s.try(g.Nodes, nil)
	case len(g.Cells) == 0:
		s.try(nil, nil)
	default:
		if refusal := s.tryNodes(); refusal.Reason != "" {
			return Plan{}, &Refusal{Cells: refusal}
		}
	}
	if s.best == nil {
		return Plan{}, s.refusal()
	}
	return s.plan(), nil
}
