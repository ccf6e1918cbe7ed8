package host

import "time"

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

	Devices []Device `json:"devices"` // every device that device_spec offers, by address
	// Cells are the NUMA nodes with CPUs or memory for guests, by number: from an agent without the use of Counted, from
	// compute with it.
	Cells   []Cell         `json:"cells,omitempty"`
	Counted []CountedGuest `json:"counted,omitempty"` // the guests with a topology that the agent has on its nodes

	CPURatio   float64       `json:"cpu_allocation_ratio,omitempty"` // shared vCPUs per thread of Cell.CPUs; absent: 1
	MemRatio   float64       `json:"ram_allocation_ratio,omitempty"` // of small pages; absent: 1
	Conditions []string      `json:"conditions"`                     // one sentence for each problem of the host
	InPlace    bool          `json:"in_placement"`                   // [pci] report_in_placement
	Cleaned    []CleanResult `json:"cleaned,omitempty"`              // each repeated while compute repeats the request
	// NoDiskMoves is why disks cannot be moved between this host and others, as a clause; absent: they can.
	NoDiskMoves string `json:"no_disk_moves,omitempty"`
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

// Device is one PCI device of a host. ForPorts has an effect only while devices are reported in Placement.
type Device struct {
	Host          string   `json:"host"`
	Address       string   `json:"address"`
	VendorID      string   `json:"vendor_id"`
	ProductID     string   `json:"product_id"`
	Type          string   `json:"dev_type"`         // type-PCI, type-PF, type-VF
	Parent        string   `json:"parent,omitempty"` // address of the PF of a VF
	NUMANode      int      `json:"numa_node"`        // -1 when unknown
	Driver        string   `json:"driver,omitempty"`
	IOMMUGroup    int      `json:"iommu_group"` // -1 when none
	ResourceClass string   `json:"resource_class"`
	Traits        []string `json:"traits"`
	Provider      string   `json:"provider,omitempty"` // UUID of its provider; empty while not in Placement
	State         string   `json:"state"`              // such as available, claimed, allocated; see schedule.State
	Holder        string   `json:"holder,omitempty"`   // UUID of the server that holds it

	// set by compute: Holder is a consumer that compute has not placed on the host, and when this was first found
	UnknownSince time.Time `json:"holder_unknown_since,omitzero"`

	RequestID string `json:"request_id,omitempty"` // of the request it serves

	RemoteManaged  bool   `json:"remote_managed,omitempty"`  // set by its rule: no alias is ever given it
	ForPorts       bool   `json:"for_ports,omitempty"`       // its rule has physical_network: for network ports only
	LiveMigratable string `json:"live_migratable,omitempty"` // "true", "false" or absent, set by its rule
	DevicePort
	OneTimeUse bool `json:"one_time_use,omitempty"` // after a guest has started with it, it must be cleaned
	Spent      bool `json:"spent,omitempty"`        // used once and not cleaned yet: `berth device clean`

	// Set by compute.
	Wanted  time.Time `json:"clean_wanted,omitzero"`   // since when an operator requests that it is cleaned
	Refused string    `json:"clean_refused,omitempty"` // why its agent has not cleaned it; absent: no answer yet
}

// DevicePort are the properties of a device for network ports, from its rule.
type DevicePort struct {
	// PhysicalNetwork is the name of its network, empty for null; absent: the rule has no physical_network.
	PhysicalNetwork *string `json:"physical_network,omitempty"`
	Trusted         bool    `json:"trusted,omitempty"`

	// Of a remote-managed VF: by these its card finds it. Absent: the agent is older, or they are unknown.
	CardSerial string `json:"card_serial_number,omitempty"`
	PFMAC      string `json:"pf_mac_address,omitempty"` // of its PF; of a PF or a NIC for ports, its own
	VFNumber   int    `json:"vf_num,omitempty"`         // at its PF; with the others absent is 0
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
