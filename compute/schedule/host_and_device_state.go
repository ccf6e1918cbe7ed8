package schedule

import (
	"time"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// Host is the state of one host: the last report of its agent, and the servers placed there.
type Host struct {
	Name        string
	Instance    string    // of the agent that reported; empty if not reported
	Start       string    `json:",omitempty"` // start of that agent's process
	LockID      string    `json:",omitempty"` // machine and directory of its journal; empty when unknown
	Present     []Present `json:",omitempty"` // the guests that exist on the host, by id
	NotFollowed string    `json:",omitempty"` // why the agent does not follow the assignments; empty when it does
	HypervisorState
	Provider    provider.ID           // the root provider
	Devices     []pci.Offered         // every device that the host's device_spec offers, by address
	Conditions  []condition.Condition // problems on the host
	InPlacement bool                  // the agent counts its devices in Placement ([pci] report_in_placement)
	Disks
	Seen time.Time // when the last report came

	Disabled []pci.Disablement `json:",omitempty"` // those that the agent knows, by address

	NUMA

	Guests []Guest // the servers placed on the host; not part of a report
	Load   float64 // usage from 0 to 1: the largest used share of a class of the root provider; not part of a report

	free    []pci.Offered // what Free returns; nil: not known yet
	memory  PlanMemory    // of plans on the host as it is; nil: none
	machine string        // a part of PlanState, see WithMachine; empty: not known yet
}

// HypervisorState is what is known of the hypervisor of a host.
type HypervisorState struct {
	Down       string    `json:",omitempty"` // why it can build no guests; empty when it can
	Hypervisor string    `json:",omitempty"` // Nova's hypervisor_type; empty: not yet known
	Booted     time.Time // when the machine was started; zero: not known
	HostIP     string    `json:",omitempty"` // an IP address of the host, to be shown; empty: none is known
}

// NUMA is the NUMA nodes of a host.
type NUMA struct {
	Cells   []numa.Cell    // the NUMA nodes, by number, without the usage of guests
	Nodes   numa.Topology  // all NUMA nodes of its kernel, also those without CPUs
	Counted []CountedGuest // the guests with NUMA cells that the agent has on Cells
	Limits  numa.Limits    // overcommit limits of Cells
	// NodesInPlacement: a claim takes what its cells use from the provider of each node, and no PCPU from the root
	NodesInPlacement bool
}

// HostRoot is a host and its root provider.
type HostRoot struct {
	Name string
	Root provider.ID
}

// Disks is what can be done with the disks of the guests of a host.
type Disks struct {
	DiskImages   string `json:",omitempty"` // format of the images that they can become, or NoDisks; empty: they cannot
	NoDiskImages string `json:",omitempty"` // why they cannot become images
	NoDiskMoves  string `json:",omitempty"` // why they cannot be moved between this host and others; empty: they can
	MoveAddress  string `json:",omitempty"` // at which other hosts reach the hypervisor; empty: the name of the host
}

// NoDisks is Disks.DiskImages of a host whose driver makes no disks.
const NoDisks = "none"

// Guest is a consumer of a server with devices or cells on a host: the server itself, its migration or a leftover.
type Guest struct {
	ID       string
	Requests []pci.Request
	Devices  []Picked // the devices that the agent has reported for it; nil before that

	Cells  []numa.GuestCell // its NUMA cells; nil: none
	Placed []numa.Placed    // their placement as the agent has reported it; nil before that
}

// CountedGuest is a guest with NUMA cells that an agent has placed on its host.
type CountedGuest struct {
	ID     string
	Cells  []numa.GuestCell
	Placed []numa.Placed // of each cell
}

// Present is a guest that exists on a host, as its agent reports it.
type Present struct {
	ID       string // of the server or of a migration
	Server   string // UUID shown to users
	Assigned bool   // the assignments that the agent follows contain it
}

// Picked is a device that the agent gave to a server.
type Picked struct {
	RequestID string
	Address   string // as the kernel writes it
	Provider  provider.ID
}
