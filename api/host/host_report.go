package host

import (
	"time"

	"github.com/openberth/berth/condition"
)

// Report is the state of a host. Its agent sends it at each change and at least once a minute.
type Report struct {
	Host        string    `json:"host"`                   // the hypervisor hostname, and the name of the root provider
	Instance    string    `json:"instance"`               // UUID of the agent, created once and kept in its journal
	Start       string    `json:"start,omitempty"`        // of the agent's process, see Sender; compute never returns it
	Previous    []string  `json:"previous,omitempty"`     // see Sender
	LockID      string    `json:"lock_id,omitempty"`      // see Sender
	Position    Position  `json:"position,omitzero"`      // the newest assignments that this agent has followed
	NotFollowed string    `json:"not_followed,omitempty"` // why the agent does not follow the assignments; empty: it does
	Guests      []Present `json:"guests,omitempty"`       // the guests that exist on the host, by id
	Provider    string    `json:"provider"`               // UUID of the root provider

	Hypervisor string `json:"hypervisor_type,omitempty"` // Nova's: QEMU, phyp, fake; empty: not yet known
	Down       string `json:"hypervisor_down,omitempty"` // why the hypervisor can build no guests; empty: it can

	HostIP string    `json:"host_ip,omitempty"`  // an IP address of the host, to be shown; absent: none is known
	Booted time.Time `json:"booted_at,omitzero"` // when the machine was started, in whole seconds; absent: not known

	Devices []Device `json:"devices"` // every device that device_spec offers, by address
	// Cells are the NUMA nodes with CPUs or memory for guests, by number: from an agent without the use of Counted, from
	// compute with it.
	Cells   []Cell         `json:"cells,omitempty"`
	Counted []CountedGuest `json:"counted,omitempty"` // the guests with a topology that the agent has on its nodes
	Nodes   []Node         `json:"nodes,omitempty"`   // all NUMA nodes of the kernel, by number
	// NodesInPlacement: what nodes give to guests with NUMA cells is on a provider of each in Placement, so the claim of
	// such a guest takes from them, and has no PCPU of the root.
	NodesInPlacement bool `json:"numa_in_placement,omitempty"`

	CPURatio float64 `json:"cpu_allocation_ratio,omitempty"` // shared vCPUs per thread of Cell.CPUs; absent: 1
	MemRatio float64 `json:"ram_allocation_ratio,omitempty"` // of small pages; absent: 1

	Conditions []condition.Condition `json:"conditions"` // the problems of the host

	InPlace bool          `json:"in_placement"`      // [pci] report_in_placement
	Cleaned []CleanResult `json:"cleaned,omitempty"` // each repeated while compute repeats the request
	// DisabledDevices are the disablements that the agent knows, by address, also of devices that the host does not have.
	DisabledDevices []DisabledDevice `json:"disabled_devices,omitempty"`
	// EnabledDevices are the answers to Assignments.EnableDevices: the ids of the requests.
	EnabledDevices []string `json:"enabled_devices,omitempty"`
	// NoDiskMoves is why disks cannot be moved between this host and others, as a clause; absent: they can.
	NoDiskMoves string `json:"no_disk_moves,omitempty"`
	// MoveAddress is the address at which other hosts reach the hypervisor for moves; absent: the name of the host.
	MoveAddress string `json:"move_address,omitempty"`
	// DiskImages is the format of the images that the disks of guests can become, such as qcow2, or NoDisks. Absent: they
	// cannot, for the reason in NoDiskImages.
	DiskImages   string `json:"disk_images,omitempty"`
	NoDiskImages string `json:"no_disk_images,omitempty"`

	// Set by compute.
	Seen      time.Time `json:"seen,omitzero"`           // when the report was received
	Dead      bool      `json:"dead,omitempty"`          // an operator has declared the host dead
	Disabled  bool      `json:"disabled,omitempty"`      // an operator has disabled the host: no server is scheduled to it
	Connected bool      `json:"connected,omitempty"`     // the agent has an open stream of assignments
	Account   string    `json:"account,omitempty"`       // id of the user that the host is bound to
	Quiet     float64   `json:"quiet_seconds,omitempty"` // since the last sign of life, measured with a monotonic clock

	SilentAfter float64 `json:"silent_after_seconds,omitempty"` // the value of Quiet from which on the host is silent

	DisabledReason string `json:"disabled_reason,omitempty"` // as the operator gave it

	// StartFailed is why the present start of the agent cannot report the host yet: the rest is the last report of an
	// earlier start, or, without a provider, there has been none.
	StartFailed string `json:"start_failed,omitempty"`
}

// NoDisks is the value of DiskImages of a host whose driver makes no disks.
const NoDisks = "none"

// Account is the account that may speak for a host.
type Account struct {
	Account string `json:"account"` // the id of the user
}

// Sender returns the sender of the report.
func (r Report) Sender() Sender {
	return Sender{Instance: r.Instance, Start: r.Start, Previous: r.Previous, LockID: r.LockID}
}

// CountedGuest is a guest with a topology on the NUMA nodes of a host.
type CountedGuest struct {
	ID     string       `json:"id"`
	Cells  []GuestCell  `json:"cells"`
	Placed []PlacedCell `json:"placed"` // the place of each cell
}

// Cell is one NUMA node of a host: its capacity for guests, and what they use.
type Cell struct {
	ID        int     `json:"id"`                  // the kernel's number
	Socket    int     `json:"socket"`              // physical package of its CPUs; -1 when unknown
	CPUs      []int   `json:"cpus"`                // threads that guests share, ascending ([compute] cpu_shared_set)
	Dedicated []int   `json:"dedicated,omitempty"` // threads to pin, ascending, none of CPUs ([compute] cpu_dedicated_set)
	Siblings  [][]int `json:"siblings,omitempty"`  // threads that share a core, each group ascending; absent without SMT
	MemoryMB  int     `json:"memory_mb"`           // MiB in all, with huge pages, minus what is reserved for the host
	Pages     []Pages `json:"pages,omitempty"`     // huge pages, by size

	Pinned     []int `json:"pinned,omitempty"` // threads of Dedicated that guests use, ascending
	Floating   int   `json:"floating"`         // shared virtual CPUs of guests with a topology
	UsedMemory int   `json:"used_memory_mb"`   // MiB of small pages that guests with a topology use
}

// Node is one NUMA node of a host as its kernel describes it, also a node that gives nothing to guests.
type Node struct {
	ID        int         `json:"id"`                  // the kernel's number
	CPUs      bool        `json:"cpus"`                // it has CPUs, for guests or for the host
	Socket    int         `json:"socket"`              // physical package of its CPUs; -1 when unknown
	Distances map[int]int `json:"distances,omitempty"` // to each node, by number; absent: unknown
}

// Pages are the huge pages of one size on a cell.
type Pages struct {
	SizeKB int `json:"size_kb"`
	Total  int `json:"total"`
	Used   int `json:"used"` // by guests of this host's agent
}

// Sender identifies the start of the agent that sends a request. Compute admits one start for each host.
type Sender struct {
	Instance string   // UUID of the agent, created once and kept in its journal
	Start    string   // random, drawn by each process of the agent and journalled before it is sent
	Previous []string // earlier Starts in the journal since the last acknowledged one; at most MaxPrevious
	LockID   string   // machine and directory of the journal, which the process has locked; empty when unknown
}

// MaxPrevious is the maximum length of Sender.Previous: starts that compute has not acknowledged, as when it does not
// answer.
const MaxPrevious = 32

// CleanResult is the answer to a CleanRequest. A clean device is also reported by Device.Spent.
type CleanResult struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"`             // of the request
	Refused string    `json:"refused,omitempty"` // why the device was not cleaned; absent: it was
}

// Forgotten lists the providers of a host that was forgotten, by name.
type Forgotten struct {
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"` // created by other services, or an ancestor of such a provider
}
