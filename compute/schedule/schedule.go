// Package schedule chooses where a server shall lie: it judges each of Placement's candidates on its host, and orders
// those that stand.
//
// A filter judges a candidate on a host, not a host (spec 002, "PCI NUMA affinity"): two candidates on one host use
// different devices, and only one of them may fit. What a filter turns down is a Refusal, a value with a
// sentence in it. Chance comes as a seed, so that the same question has the same answer and two servers asking
// at once do not both want the same device.
//
// The filters are, in their order: the host (an agent that reports, not excluded, the one that was asked for), the
// allocations (Placement has those of all servers on the host), the devices (Nova's
// PciPassthroughFilter: what each chosen provider, or without providers the host, has free for each request) and the NUMA cells
// (NUMATopologyFilter: the guest's cells on the host's, with the devices near them). Each server is judged by itself on what the
// reports and the guests placed since leave over, so that several servers at once are several questions.
package schedule

import (
	"time"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Host is what compute knows of one host: the last report of its agent, and the servers placed there.
type Host struct {
	Name         string
	Instance     string      // of the agent that reported; empty for one that does not say
	Start        string      `json:",omitempty"` // of that agent's process
	ProcessSpace string      `json:",omitempty"` // boot and process namespace of that process; empty when unknown
	Present      []Present   `json:",omitempty"` // the guests that exist on the host, by id
	Behind       string      `json:",omitempty"` // why the agent does not follow the assignments; empty when it does
	Provider     provider.ID // the root provider
	Devices      []Device    // every device that the host's device_spec offers, by address
	Conditions   []string    // sentences about what is wrong on the host
	InPlacement  bool        // the agent counts its devices in Placement ([pci] report_in_placement)
	Seen         time.Time   // when the last report came

	Cells   []numa.Cell // the NUMA nodes, by number
	Counted []string    // ids of the guests whose use Cells show
	Limits  numa.Limits // how far Cells may be overcommitted

	Guests []Guest // the servers placed on the host; not part of a report
	Load   float64 // how full the host is, 0 to 1: the largest used share of a class of its root; not part of a report
}

// State is where a device is in its life on the host, as its agent sees it.
type State string

// The states that matter here: only an available device can be given to a server, and those of a server are claimed and
// then allocated. The other words (unavailable, unclaimable, removed) are the agent's own.
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
	Provider      provider.ID // that counts it; empty while not in Placement
	State         State
	Holder        string // UUID of the server that holds it, or empty
	RequestID     string // of the request it serves

	ForPorts       bool     // its rule has physical_network: while the host counts devices in Placement, only network ports may have it
	RemoteManaged  bool     // its rule says so: only network ports may have it
	LiveMigratable pci.Flag // as its rule says
	OneTimeUse     bool     // after a guest has started with it, it must be cleaned
	Spent          bool     // it has been used once and not been cleaned
}

// Guest is a server placed on a host, or what is left of one there: whoever has its devices in Placement.
type Guest struct {
	ID       string
	Requests []pci.Request
	Devices  []Picked // what the agent told that it gave it; nil as long as it has not told

	Cells  []numa.Part   // its NUMA cells; nil: it has none
	Placed []numa.Placed // where they lie, as the agent told; nil as long as it has not told
}

// Present is a guest that exists on a host, as its agent reports it.
type Present struct {
	ID       string // of the server or of a migration
	Server   string // UUID that users know
	Assigned bool   // the assignments that the agent follows name it
}

// Picked is a device that the agent gave to a server.
type Picked struct {
	RequestID string
	Address   string // as the kernel writes it
	Provider  provider.ID
}

// Candidate is one of Placement's answers: what would be taken, and which providers serve each group.
type Candidate struct {
	Root       provider.ID // of the host; a candidate with sharing providers touches other trees too
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the suffix of the group
}

// Picture is all that a choice is made from.
type Input struct {
	Candidates    []Candidate
	Hosts         map[provider.ID]Host // by root provider; Candidates on others are refused
	Cells         []numa.Part          // the NUMA cells of the server that is to be placed; nil: it has none
	Pack          bool                 // NUMA nodes that are in use are filled up first ([compute] packing_host_numa_cells_allocation_strategy)
	Only          string               // the one host that will do, by name; empty: any
	ExcludedHosts map[string]string    // hosts by name that will not do, and the sentence why
	FailedHosts   map[string]string    // hosts by name that must not be tried again, and what happened there
	Lacking       map[string]bool      // hosts by name: Placement lacks allocations of servers there
	Now           time.Time
	Silence       time.Duration // a host whose last report is older than this is refused
}

// Choice is a candidate that stood, and its host.
type Choice struct {
	Host       string
	Root       provider.ID
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID
}

// Step is where a candidate is turned down. The filters bear Nova's names.
type Filter string

// The steps, in their order. NUMA is judged last, on the devices that are really left.
const (
	FilterHost        Filter = "host"
	FilterAllocations Filter = "AllocationsFilter"
	FilterDevices     Filter = "PciPassthroughFilter"
	FilterNUMA        Filter = "NUMATopologyFilter"
)

// LacksAllocations is the reason of StepAllocations.
const LacksAllocations = "Placement lacks allocations of servers there, so what it offers may be in use; " +
	"`berth host heal HOST` shows them and writes them back"

// Refusal says why a candidate on a host was turned down.
type Refusal struct {
	Host      string
	Filter    Filter
	Reason    string  // the same sentence wherever the same is lacking, such as "no free type-VF 8086:1515 on the chosen provider"
	Nearest   string  // how close it was on this host, such as "node 1 has 3"; may be empty. It names neither host nor device: users read it
	Device    string  // address of the device that Nearest tells of, for operators; may be empty
	Shortfall float64 // how far away: the smallest is the nearest miss
}
