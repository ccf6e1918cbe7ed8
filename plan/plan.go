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
	// Later is how much the device is to be kept for others, at least 0: of equally near devices those with the smallest
	// sum are used.
	Later int
}

// Request is a number of devices of one kind.
type Request struct {
	Count  int
	Policy pci.NUMAPolicy
}

// Set is a number of sets of devices: all devices of one set have a value of the family in common. Several sets may
// have the same value.
type Set struct {
	Family   string
	Requests []int // indexes of the requests whose devices are in the sets, equally many of each in each set
	Times    int   // how many sets, which agree each by itself; it divides each Count. 0 is 1
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
	Devices [][]int       // by request: indexes of Host.Devices, those of a request in sets in the order of these
	Values  [][]string    // by Guest.Sets: the value of each set
	Far     int           // the sum of the ranks of the devices; see numa.Local
	Later   int           // the sum of Device.Later
}

// Refusal is why a guest does not fit.
type Refusal struct {
	// Undecided is set if the search reached its limit: a plan may exist. The rest of the refusal is empty then.
	Undecided bool

	Cells numa.Refusal // why its cells do not fit, whatever the devices; its Reason is empty if they do

	// If the cells fit: a request that lacks a device or that is in Set, and how many of all devices there are at most, if
	// they need not agree.
	Request        int
	Served, Wanted int
	Nodes          []int // of the guest, where most devices are near enough; nil: a guest without cells does not fit
	Set            int   // the set whose devices do not agree, if all devices are there; or -1
}
