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
//	POST /berth/v1/hosts/{host}/devices/{address}/clean    the device shall be cleaned
//	DELETE /berth/v1/hosts/{host}                      Forgotten: the host will never return
//	GET  /berth/v1/hosts/{host}/allocations            Allocations: how Placement differs from compute's records
//	POST /berth/v1/hosts/{host}/allocations            Heal → Allocations: what Placement lacks is added
//
// Nobody commands the agent. A line of assignments is always the whole truth about the host at a
// revision, so that lost lines lose nothing. An unchanged truth is repeated as a heartbeat at least every
// Heartbeat, so that a dead connection shows.
//
// One agent serves a host. A report or a stream of another instance is answered with 409 while the last report of the one before is
// younger than three minutes; then its place is free.
package host

import (
	"fmt"
	"time"
)

// Heartbeat is the longest silence on an assignment stream; an agent that hears nothing for three of them connects anew.
const Heartbeat = 10 * time.Second

// Report is what a host has, told by its agent each time that it changes and at least once a minute.
type Report struct {
	Host       string    `json:"host"`                           // the hypervisor hostname, and the name of the root provider
	Instance   string    `json:"instance"`                       // UUID of the agent, made once and kept in its journal
	Provider   string    `json:"provider"`                       // UUID of the root provider
	Devices    []Device  `json:"devices"`                        // every device that device_spec offers, by address
	Cells      []Cell    `json:"cells,omitempty"`                // the NUMA nodes that have CPUs or memory for guests, by number
	Counted    []string  `json:"counted,omitempty"`              // ids of the guests with a topology whose use the cells show
	CPURatio   float64   `json:"cpu_allocation_ratio,omitempty"` // shared virtual CPUs for a thread of Cell.CPUs; absent: 1
	MemRatio   float64   `json:"ram_allocation_ratio,omitempty"` // of small pages; absent: 1
	Conditions []string  `json:"conditions"`                     // sentences about what is wrong on the host; empty when all is well
	InPlace    bool      `json:"in_placement"`                   // [pci] report_in_placement
	Cleaned    []Answer  `json:"cleaned,omitempty"`              // what became of wishes, each as long as compute repeats the wish
	Seen       time.Time `json:"seen,omitzero"`                  // set by compute: when the report came
	Dead       bool      `json:"dead,omitempty"`                 // set by compute: an operator says that it will not return
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

	RemoteManaged  bool   `json:"remote_managed,omitempty"`  // its rule says so: no alias is ever given it
	ForPorts       bool   `json:"for_ports,omitempty"`       // its rule has physical_network: while devices are reported in Placement, only network ports may have it
	LiveMigratable string `json:"live_migratable,omitempty"` // "true", "false" or absent, as its rule says
	OneTimeUse     bool   `json:"one_time_use,omitempty"`    // after a guest has started with it, it must be cleaned
	Spent          bool   `json:"spent,omitempty"`           // it has been used once and not been cleaned: `berth device clean`

	Wanted  time.Time `json:"clean_wanted,omitzero"`   // set by compute: since when an operator wants it cleaned
	Refused string    `json:"clean_refused,omitempty"` // set by compute: why its agent did not clean it when it was wanted; absent: it has not answered
}

// Cell is one NUMA node of a host: what guests may have of it, and what they have.
type Cell struct {
	ID        int     `json:"id"`                  // the kernel's number
	Socket    int     `json:"socket"`              // physical package of its CPUs; -1 when unknown
	CPUs      []int   `json:"cpus"`                // host threads that guests share, rising ([compute] cpu_shared_set)
	Dedicated []int   `json:"dedicated,omitempty"` // host threads for dedicated virtual CPUs, rising; none of CPUs ([compute] cpu_dedicated_set)
	Siblings  [][]int `json:"siblings,omitempty"`  // threads that share a core, each group rising; absent without SMT
	MemoryMB  int     `json:"memory_mb"`           // MiB in all, with those of huge pages, less what is reserved for the host
	Pages     []Pages `json:"pages,omitempty"`     // huge pages, by size

	Pinned     []int `json:"pinned,omitempty"` // those of Dedicated that guests have, rising
	Floating   int   `json:"floating"`         // virtual CPUs of guests with a topology that share CPUs
	UsedMemory int   `json:"used_memory_mb"`   // MiB of small pages that guests with a topology have
}

// Pages are the huge pages of one size on a cell.
type Pages struct {
	SizeKB int `json:"size_kb"`
	Total  int `json:"total"`
	Used   int `json:"used"` // by guests of this host's agent
}

// Assignments is one line of the stream: all servers that shall be on the host.
//
// Cloud is made once, with compute's database. An agent keeps it with its first line, and takes no line of another cloud until its
// operator says so (`berth agent adopt`): an empty database must not end the guests of the one before.
type Assignments struct {
	Cloud    string   `json:"cloud,omitempty"` // UUID
	Revision int64    `json:"revision"`        // grows with each change of this host's servers
	Servers  []Server `json:"servers"`         // by id. A guest whose server is not here shall be gone.
	Clean    []Wish   `json:"clean,omitempty"` // devices for one-time use that an operator wants back
}

// Wish is a device for one-time use that an operator wants back: the agent cleans it, once for each wish, if nobody holds it. It stands in the
// lines until the agent has answered.
type Wish struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"` // another time is another wish
}

// Forgotten is what became of the providers of a host that is forgotten, by name.
type Forgotten struct {
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"` // others made them, or they stand above one of those
}

// Answer is what became of a Wish. That a device is clean shows in Device.Spent too.
type Answer struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"`             // of the wish
	Refused string    `json:"refused,omitempty"` // why the device is not clean; absent: it is
}

// Server is a guest that shall be on the host.
//
// ID is the consumer that holds its devices in Placement: the server's own UUID, or while the server moves away, that of the
// migration which keeps the source's devices until the move is confirmed or reverted. So one server may stand twice in a line of a
// host that it is resized on: as the migration (stopped) and as itself.
type Server struct {
	ID       string    `json:"id"`
	Server   string    `json:"server,omitempty"` // UUID that users know; absent: ID
	Was      string    `json:"was,omitempty"`    // the ID under which this guest stood here before: its devices and its guest go over to ID, first of all
	Name     string    `json:"name"`
	VCPUs    int       `json:"vcpus"`
	MemoryMB int       `json:"memory_mb"`
	DiskGB   int       `json:"disk_gb"`
	Image    string    `json:"image,omitempty"`
	Requests []Request `json:"pci_requests"`
	Topology []Part    `json:"topology,omitempty"` // the guest's NUMA cells, by number; absent: it has none

	Power    Power     `json:"power,omitempty"`    // absent: On
	Build    int       `json:"build,omitempty"`    // how often it has been rebuilt: with another number the guest is built anew with the devices it has
	Incoming bool      `json:"incoming,omitempty"` // it will arrive by live migration: claim its devices and say so (phase claimed), start nothing
	Outgoing *Outgoing `json:"outgoing,omitempty"` // it is to be migrated live: say departed, or failed when it still runs here as before
}

// Power is what a guest shall do.
type Power string

// The powers.
const (
	On  Power = "on"
	Off Power = "off" // it keeps its devices
)

// Outgoing says where a guest goes by live migration.
type Outgoing struct {
	Host    string            `json:"host"`
	Devices map[string]string `json:"devices,omitempty"` // address here → address there
}

// Part is one NUMA cell of a guest.
type Part struct {
	VCPUs     []int  `json:"vcpus"`               // numbers of the guest's CPUs, rising
	Dedicated []int  `json:"dedicated,omitempty"` // those of them that have a host thread for themselves
	Threads   string `json:"threads,omitempty"`   // hw:cpu_thread_policy: prefer (or absent), isolate, require
	MemoryMB  int    `json:"memory_mb"`           // MiB
	PageKB    int    `json:"page_kb,omitempty"`   // size of its huge pages; -1 the largest that fit, -2 those or small ones, -3 small ones, not overcommitted; absent: small ones
	Emulator  int    `json:"emulator,omitempty"`  // host threads for the emulator alone, beside those of the CPUs
}

// Request is one PCI request of a server with the providers that Placement chose for it.
type Request struct {
	ID         string   `json:"request_id"`
	Alias      string   `json:"alias"`
	Count      int      `json:"count"`
	VendorID   string   `json:"vendor_id,omitempty"`
	ProductID  string   `json:"product_id,omitempty"`
	Type       string   `json:"dev_type,omitempty"`
	Class      string   `json:"resource_class,omitempty"`
	Required   []string `json:"required_traits,omitempty"`
	Forbidden  []string `json:"forbidden_traits,omitempty"`
	Policy     string   `json:"numa_policy,omitempty"`
	Migratable string   `json:"live_migratable,omitempty"` // "true" or "false": the device's must be the same; absent: any
	Providers  []string `json:"providers,omitempty"`       // one for each device; absent when Placement was not asked
	Or         []Or     `json:"or,omitempty"`              // the other definitions of the alias: a device that meets one of them is as good
}

// Or is another definition of an alias, of the same type, class and traits wherever Placement is asked.
type Or struct {
	VendorID   string `json:"vendor_id,omitempty"`
	ProductID  string `json:"product_id,omitempty"`
	Class      string `json:"resource_class,omitempty"`
	Migratable string `json:"live_migratable,omitempty"`
}

// Phase is where a guest is.
type Phase string

// The phases that an agent reports. Claimed is on the way; the others end something.
const (
	Claimed  Phase = "claimed"  // the devices are journalled, the guest is about to be built
	Running  Phase = "running"  // the guest runs with its devices
	Stopped  Phase = "stopped"  // the guest is there with its devices and does not run, as it shall
	Refused  Phase = "refused"  // the guest is there with its devices, and the hypervisor will not start, stop or rebuild it as it shall: it stays as it is
	Departed Phase = "departed" // the guest runs where it was to go; its devices here are still held, for nobody
	Failed   Phase = "failed"   // the guest cannot be built here; nothing of it is left and its devices are free again
	Gone     Phase = "gone"     // the guest and its claims are no more
)

// Guest is what became of one server on the host. An agent repeats it until compute has answered 204; it may come twice. The claim
// of a server that is not, or no longer, assigned to the host is answered with 409, and then no guest may be built: of a server that
// no agent has spoken for, compute gives everything back as soon as it is deleted.
//
// Words may overtake each other on their way. Compute takes those of one agent about one server in the order of their numbers: one that is
// older than what it has heard changes nothing, and is answered with 409 and the header Berth-Latest, the number that it has heard. An agent that
// reads that (its journal is from a backup) counts on from there and repeats. What an agent says that is not the one whose report compute
// has is answered with 409 too, and never taken.
//
// {server} in the path is the ID of the line. When an entry has come to stand under another ID (Was), the agent tells its phase anew, under the
// new ID: a move goes on only then.
//
// With phase refused the wish is given up: compute takes what the guest does for what it shall do, and the next line says so.
type Guest struct {
	Phase   Phase    `json:"phase"`
	Devices []Picked `json:"devices,omitempty"` // what the guest holds, with phases claimed, running, stopped and refused
	Parts   []Placed `json:"parts,omitempty"`   // where the guest's NUMA cells lie, with the same phases
	Build   int      `json:"build,omitempty"`   // Server.Build of the guest that stands there, with the same phases
	Power   Power    `json:"power,omitempty"`   // with phase refused: what the guest does; absent: On
	Message string   `json:"message,omitempty"` // the sentence of a failure or a refusal

	Instance string `json:"instance,omitempty"` // of the agent, as in its report
	Number   int64  `json:"number,omitempty"`   // larger than in all that this instance has said before, also before it was begun anew; absent: it does not count
}

// Latest is the header of the answer to a word that came too late: the number that compute has heard already.
const Latest = "Berth-Latest"

// Late is the cause of the fault when compute has heard something newer of the server than what was told.
type Late struct {
	Number int64 // the largest that compute has heard
}

// Error says it in a sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("compute has heard something newer of this server (number %d)", l.Number)
}

// Picked is a device given to a guest.
type Picked struct {
	RequestID string `json:"request_id"`
	Address   string `json:"address"`
	Provider  string `json:"provider,omitempty"`
}

// Placed is where one NUMA cell of a guest lies.
type Placed struct {
	Node     int         `json:"node"`               // of the host
	CPUs     map[int]int `json:"cpus,omitempty"`     // dedicated virtual CPU → host thread
	Emulator []int       `json:"emulator,omitempty"` // host threads for the emulator alone
	PageKB   int         `json:"page_kb,omitempty"`  // size of its huge pages; absent: small pages
}
