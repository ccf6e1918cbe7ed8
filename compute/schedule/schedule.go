// Package schedule filters Placement's candidates for a server on their hosts, and orders the accepted ones.
//
// A filter judges a candidate, not a host: two candidates on one host use different devices, and possibly only one of
// them is suitable. A refused candidate yields a Refusal with a reason. Randomness comes from a seed, so the same input
// yields the same result, and two servers scheduled at the same time do not prefer the same device.
//
// The filters, in order: the host (its agent reports, it is not excluded, it is the requested one), the allocations
// (Placement has those of all servers on the host), the devices (Nova's PciPassthroughFilter: what each chosen
// provider, or without providers the host, has free for each request) and the NUMA cells (Nova's NUMATopologyFilter:
// the guest's cells on the host's, with devices near them). Each server is judged independently, on what the reports
// and the guests placed since leave free. Several servers need several calls of Choose.
package schedule

import (
	"time"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Host is the state of one host: the last report of its agent, and the servers placed there.
type Host struct {
	Name         string
	Instance     string      // of the agent that reported; empty if not reported
	Start        string      `json:",omitempty"` // start of that agent's process
	ProcessSpace string      `json:",omitempty"` // boot and process namespace of that process; empty when unknown
	Present      []Present   `json:",omitempty"` // the guests that exist on the host, by id
	Behind       string      `json:",omitempty"` // why the agent does not follow the assignments; empty when it does
	Provider     provider.ID // the root provider
	Devices      []Device    // every device that the host's device_spec offers, by address
	Conditions   []string    // messages about problems on the host
	InPlacement  bool        // the agent counts its devices in Placement ([pci] report_in_placement)
	Seen         time.Time   // when the last report came

	Cells   []numa.Cell // the NUMA nodes, by number
	Counted []string    // ids of the guests whose usage Cells include
	Limits  numa.Limits // overcommit limits of Cells

	Guests []Guest // the servers placed on the host; not part of a report
	Load   float64 // usage from 0 to 1: the largest used share of a class of the root provider; not part of a report
}

// State is the state of a device, as the agent reports it.
type State string

// The states used here: only an available device can be given to a server; the devices of a server are claimed and then
// allocated. The other states (unavailable, unclaimable, removed) are used only by the agent.
const (
	Available State = "available"
	Claimed   State = "claimed"
	Allocated State = "allocated"
)

// Device is one device of a report.
type Device struct {
	pci.Device
	ResourceClass resource.Class
	Traits        []resource.Trait
	Provider      provider.ID // the provider that has it in its inventory; empty while not in Placement
	State         State
	Holder        string // UUID of the server that has the device, or empty
	RequestID     string // of the request that it fulfils

	// its rule has physical_network: for network ports only while the host reports devices to Placement
	ForPorts       bool
	RemoteManaged  bool     // set in its rule: for network ports only
	LiveMigratable pci.Flag // set in its rule
	OneTimeUse     bool     // must be cleaned after a guest has started with it
	Spent          bool     // has been used once and not been cleaned
}

// Guest is a consumer of a server with devices or cells on a host: the server itself, its migration or a leftover.
type Guest struct {
	ID       string
	Requests []pci.Request
	Devices  []Picked // the devices that the agent has reported for it; nil before that

	Cells  []numa.GuestCell // its NUMA cells; nil: none
	Placed []numa.Placed    // their placement as the agent has reported it; nil before that
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

// Candidate is an allocation candidate of Placement: the allocation, and the providers of each request group.
type Candidate struct {
	Root       provider.ID // of the host; a candidate with sharing providers touches other trees too
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the suffix of the group
}

// Input is the input of Choose, except the PCI requests and the seed.
type Input struct {
	Candidates []Candidate
	Hosts      map[provider.ID]Host // by root provider; candidates on other hosts are refused
	Cells      []numa.GuestCell     // the NUMA cells of the server; nil: none
	// use NUMA nodes with guests first ([compute] packing_host_numa_cells_allocation_strategy)
	Pack          bool
	Only          string            // name of the only permitted host; empty: any
	ExcludedHosts map[string]string // hosts by name that are not permitted, and why
	FailedHosts   map[string]string // hosts by name where the server failed, and why
	Lacking       map[string]bool   // hosts by name for which Placement lacks allocations of servers
	Now           time.Time
	Silence       time.Duration // a host whose last report is older than this is refused
}

// Choice is an accepted candidate and its host.
type Choice struct {
	Host       string
	Root       provider.ID
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID
}

// Filter is the name of a filter, as in Nova.
type Filter string

// The filters, in order. FilterNUMA is last because it depends on the devices that are free for the candidate.
const (
	FilterHost        Filter = "host"
	FilterAllocations Filter = "AllocationsFilter"
	FilterDevices     Filter = "PciPassthroughFilter"
	FilterNUMA        Filter = "NUMATopologyFilter"
)

// LacksAllocations is the reason of FilterAllocations.
const LacksAllocations = "Placement lacks allocations of servers there, so what it offers may be in use; " +
	"`berth host heal HOST` shows them and writes them back"

// Refusal is why a filter refused a candidate.
type Refusal struct {
	Host   string
	Filter Filter
	// equal for equal shortages on all hosts, such as "no free type-VF 8086:1515 on the chosen provider"
	Reason string
	// the nearest miss on this host, such as "node 1 has 3"; may be empty. Shown to users: it names neither host nor
	// device
	Nearest   string
	Device    string  // address of the device of Nearest, for operators; may be empty
	Shortfall float64 // distance from acceptance; the smallest one is the nearest miss
}
