// Package host is the contract between the agent of a host and compute: the report up, the assignments down,
// and what became of each guest.
//
// The agent opens every connection; a host listens on nothing. It reports with
//
//	PUT  /berth/v1/hosts/{host}                        Report
//	GET  /berth/v1/hosts/{host}/assignments?since=R&instance=I    a stream of Assignments, one JSON object a line
//	PUT  /berth/v1/hosts/{host}/guests/{server}        Guest
//
// and people and programs read
//
//	GET  /berth/v1/hosts                               {"hosts": [Report…]}
//	GET  /berth/v1/devices                             {"devices": [Device…]}
//
// Nobody commands the agent. A line of assignments is always the whole truth about the host at a
// revision, so that lost lines lose nothing. An unchanged truth is repeated as a heartbeat at least every
// Heartbeat, so that a dead connection shows.
//
// One agent serves a host. A report or a stream of another instance is answered with 409 while the last report of the one before is
// younger than three minutes; then its place is free.
package host

import "time"

// Heartbeat is the longest silence on an assignment stream; an agent that hears nothing for three of them connects anew.
const Heartbeat = 10 * time.Second

// Report is what a host has, told by its agent each time that it changes and at least once a minute.
type Report struct {
	Host       string    `json:"host"`          // the hypervisor hostname, and the name of the root provider
	Instance   string    `json:"instance"`      // UUID of the agent, made once and kept in its journal
	Provider   string    `json:"provider"`      // UUID of the root provider
	Devices    []Device  `json:"devices"`       // every device that device_spec offers, by address
	Conditions []string  `json:"conditions"`    // sentences about what is wrong on the host; empty when all is well
	InPlace    bool      `json:"in_placement"`  // [pci] report_in_placement
	Seen       time.Time `json:"seen,omitzero"` // set by compute: when the report came
}

// Device is one PCI device of a host with what the scheduler and people want to know of it.
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
	Provider      string   `json:"provider,omitempty"`   // UUID of the provider that counts it; empty while not in Placement
	State         string   `json:"state"`                // available, claimed, allocated, unavailable, unclaimable, removed
	Holder        string   `json:"holder,omitempty"`     // UUID of the server that holds it
	RequestID     string   `json:"request_id,omitempty"` // of the request it serves
}

// Assignments is one line of the stream: all servers that shall be on the host.
type Assignments struct {
	Revision int64    `json:"revision"` // grows with each change of this host's servers
	Servers  []Server `json:"servers"`  // by id. A guest whose server is not here shall be gone.
}

// Server is a guest that shall run on the host.
type Server struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	VCPUs    int       `json:"vcpus"`
	MemoryMB int       `json:"memory_mb"`
	DiskGB   int       `json:"disk_gb"`
	Requests []Request `json:"pci_requests"`
}

// Request is one PCI request of a server with the providers that Placement chose for it.
type Request struct {
	ID        string   `json:"request_id"`
	Alias     string   `json:"alias"`
	Count     int      `json:"count"`
	VendorID  string   `json:"vendor_id,omitempty"`
	ProductID string   `json:"product_id,omitempty"`
	Type      string   `json:"dev_type,omitempty"`
	Class     string   `json:"resource_class,omitempty"`
	Required  []string `json:"required_traits,omitempty"`
	Forbidden []string `json:"forbidden_traits,omitempty"`
	Policy    string   `json:"numa_policy,omitempty"`
	Providers []string `json:"providers,omitempty"` // one for each device; absent when Placement was not asked
}

// Phase is where a guest is.
type Phase string

// The phases that an agent reports. Claimed is on the way; the others end something.
const (
	Claimed Phase = "claimed" // the devices are journalled, the guest is about to be built
	Running Phase = "running" // the guest runs with its devices
	Failed  Phase = "failed"  // the guest cannot be built here; nothing of it is left and its devices are free again
	Gone    Phase = "gone"    // the guest and its claims are no more
)

// Guest is what became of one server on the host. An agent repeats it until compute has answered 204; it may come twice. The claim
// of a server that is not, or no longer, assigned to the host is answered with 409, and then no guest may be built: of a server that
// no agent has spoken for, compute gives everything back as soon as it is deleted.
type Guest struct {
	Phase   Phase    `json:"phase"`
	Devices []Picked `json:"devices,omitempty"` // what the guest holds, with phases claimed and running
	Message string   `json:"message,omitempty"` // the sentence of a failure
}

// Picked is a device given to a guest.
type Picked struct {
	RequestID string `json:"request_id"`
	Address   string `json:"address"`
	Provider  string `json:"provider,omitempty"`
}
