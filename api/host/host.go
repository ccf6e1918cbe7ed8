// Package host is the contract between the agent of a host and compute: reports to compute, assignments to the agent,
// and the phases of each guest.
//
// The agent opens every connection; a host listens on no port. It sends
//
//	PUT  /berth/v1/hosts/{host}                        Report
//	GET  /berth/v1/hosts/{host}/assignments?…          a stream of Assignments, one JSON object a line; see WatchRequest
//	PUT  /berth/v1/hosts/{host}/guests/{server}        Guest
//
// Users and other programs send
//
//	GET  /berth/v1/hosts                               {"hosts": [Report…]}
//	GET  /berth/v1/devices                             {"devices": [Device…]}
//	POST /berth/v1/hosts/{host}/devices/{address}/clean    requests that the device is cleaned
//	DELETE /berth/v1/hosts/{host}                      Forgotten: removes a host that will never return
//	GET  /berth/v1/hosts/{host}/allocations            Allocations: how Placement differs from compute's records
//	POST /berth/v1/hosts/{host}/allocations            Heal → Allocations: adds what Placement lacks
//
// The agent receives no commands. A line of assignments is always the complete desired state of the host at a
// revision, so that lost lines do no harm. The line is repeated as a heartbeat at least every Heartbeat, so that the
// agent notices a dead connection.
//
// A guest is destroyed only if a line names it in Remove. The absence of a guest from a line means nothing: compute's
// database may have been restored from a backup or replaced.
//
// One start of one agent serves a host. Each start of an agent draws a random Start and sends it with every request.
// Compute admits one start and answers others with 409 while that one is alive: while it has an open stream, or has
// sent a report within three minutes. A start that continues the journal of the admitted one on the same boot of the
// same machine replaces it at once, because the journal's lock proves that the earlier process has ended. On another
// boot it waits until the earlier start had time to reconnect. A 409 that a later try can lift has the header
// Retry-After.
package host

import (
	"fmt"
	"time"
)

// Heartbeat is the longest silence on an assignment stream. An agent that receives nothing for three of them
// reconnects.
const Heartbeat = 10 * time.Second

// Report is the state of a host. Its agent sends it at each change and at least once a minute.
type Report struct {
	Host     string    `json:"host"`               // the hypervisor hostname, and the name of the root provider
	Instance string    `json:"instance"`           // UUID of the agent, created once and kept in its journal
	Start    string    `json:"start,omitempty"`    // of the agent's process, see Sender; compute never returns it
	Previous []string  `json:"previous,omitempty"` // see Sender
	Place    string    `json:"place,omitempty"`    // see Sender.ProcessSpace
	Position Position  `json:"position,omitzero"`  // the newest assignments that this agent has followed
	Behind   string    `json:"behind,omitempty"`   // why the agent does not follow the assignments; empty: it does
	Guests   []Present `json:"guests,omitempty"`   // the guests that exist on the host, by id
	Provider string    `json:"provider"`           // UUID of the root provider
	Devices  []Device  `json:"devices"`            // every device that device_spec offers, by address
	Cells    []Cell    `json:"cells,omitempty"`    // the NUMA nodes with CPUs or memory for guests, by number
	Counted  []string  `json:"counted,omitempty"`  // ids of the guests with a topology whose use the cells include

	CPURatio   float64       `json:"cpu_allocation_ratio,omitempty"` // shared vCPUs per thread of Cell.CPUs; absent: 1
	MemRatio   float64       `json:"ram_allocation_ratio,omitempty"` // of small pages; absent: 1
	Conditions []string      `json:"conditions"`                     // one sentence for each problem of the host
	InPlace    bool          `json:"in_placement"`                   // [pci] report_in_placement
	Cleaned    []CleanResult `json:"cleaned,omitempty"`              // each repeated while compute repeats the request

	// Set by compute.
	Seen      time.Time `json:"seen,omitzero"`           // when the report was received
	Dead      bool      `json:"dead,omitempty"`          // an operator has declared the host dead
	Connected bool      `json:"connected,omitempty"`     // the agent has an open stream of assignments
	Quiet     float64   `json:"quiet_seconds,omitempty"` // since the last sign of life, measured with a monotonic clock
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
	Provider      string   `json:"provider,omitempty"`   // UUID of its provider; empty while not in Placement
	State         string   `json:"state"`                // such as available, claimed, allocated; see schedule.State
	Holder        string   `json:"holder,omitempty"`     // UUID of the server that holds it
	RequestID     string   `json:"request_id,omitempty"` // of the request it serves

	RemoteManaged  bool   `json:"remote_managed,omitempty"`  // set by its rule: no alias is ever given it
	ForPorts       bool   `json:"for_ports,omitempty"`       // its rule has physical_network: for network ports only
	LiveMigratable string `json:"live_migratable,omitempty"` // "true", "false" or absent, set by its rule
	OneTimeUse     bool   `json:"one_time_use,omitempty"`    // after a guest has started with it, it must be cleaned
	Spent          bool   `json:"spent,omitempty"`           // used once and not cleaned yet: `berth device clean`

	// Set by compute.
	Wanted  time.Time `json:"clean_wanted,omitzero"`   // since when an operator requests that it is cleaned
	Refused string    `json:"clean_refused,omitempty"` // why its agent has not cleaned it; absent: no answer yet
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
	Instance     string   // UUID of the agent, created once and kept in its journal
	Start        string   // random, drawn by each process of the agent and journalled before it is sent
	Previous     []string // earlier Starts in the journal since the last acknowledged one; at most MaxPrevious
	ProcessSpace string   // boot and process namespace in which the process runs; empty when unknown
}

// MaxPrevious is the maximum length of Sender.Previous: starts that compute has not acknowledged, as when it does not
// answer.
const MaxPrevious = 32

// Sender returns the sender of the report.
func (r Report) Sender() Sender {
	return Sender{Instance: r.Instance, Start: r.Start, Previous: r.Previous, ProcessSpace: r.Place}
}

// Position is a point in the history of a host's assignments. Compute counts an epoch at each of its starts, and a
// revision at each change of the host's assignments. The zero Position precedes every other.
type Position struct {
	Epoch    int64  `json:"epoch"`    // number of compute's start on its database, from 1
	EpochID  string `json:"epoch_id"` // random, so that two copies of a database that count the same number differ
	Revision int64  `json:"revision"`
}

// Present is a guest that exists on the host.
type Present struct {
	ID       string `json:"id"`                 // its name in the hypervisor: the id of the server or of a migration
	Server   string `json:"server,omitempty"`   // UUID for users; absent: ID
	Assigned bool   `json:"assigned,omitempty"` // named in the followed line; false before the first line
}

// Assignments is one line of the stream: all servers that must be on the host, and all that must be removed from it.
//
// Cloud is created once, with compute's database. An agent stores it with its first line, and follows no line of
// another cloud until its operator runs `berth agent adopt`: an empty database must not destroy the guests of the
// previous one. The same holds for a line that precedes the agent's Position: it comes from a database that was
// restored from a backup.
type Assignments struct {
	Cloud    string `json:"cloud,omitempty"` // UUID
	Position        // of this line
	// Past is what compute's database records of the epoch that the agent named in its request: its last revision for
	// this host. It is absent when the agent named no epoch or the present one, and when the database has no record of
	// the epoch.
	Past    *Position      `json:"past,omitempty"`
	Servers []Server       `json:"servers"`          // by id
	Remove  []Removal      `json:"remove,omitempty"` // by id; each is repeated until the agent has reported phase gone
	Clean   []CleanRequest `json:"clean,omitempty"`  // devices for one-time use that must be cleaned
}

// Removal is a guest that must be destroyed, because according to compute's record its server was deleted, moved
// or shelved. The agent reports phase gone under ID, also when nothing of the guest exists.
type Removal struct {
	ID         string `json:"id"`            // as in Server
	PreviousID string `json:"was,omitempty"` // the previous ID, under which the agent may still have the guest
}

// Accept returns why a line must not be followed by an agent that has followed the assignments up to p; empty when it
// may. A line precedes p when compute's database lacks history that the agent has seen: it was restored from a backup,
// or it is a copy of the one that was used.
func (p Position) Accept(line Assignments) (refusal string) {
	const older = "compute's database lacks assignments that this host has followed, as after a restored backup"
	switch past := line.Past; {
	case p == Position{}:
		return ""
	case line.Epoch < p.Epoch:
		return fmt.Sprintf("%s: it is at start %d of compute, this host has seen start %d", older, line.Epoch, p.Epoch)
	case line.Epoch == p.Epoch && line.EpochID != p.EpochID:
		return fmt.Sprintf("%s: its start %d of compute is another one than this host has seen", older, p.Epoch)
	case line.Epoch == p.Epoch && line.Revision < p.Revision:
		return fmt.Sprintf("%s: it is at revision %d, this host at %d", older, line.Revision, p.Revision)
	case line.Epoch == p.Epoch:
		return ""
	case past == nil || past.Epoch != p.Epoch || past.EpochID != p.EpochID:
		return fmt.Sprintf("%s: it has no record of start %d of compute that this host has seen", older, p.Epoch)
	case past.Revision < p.Revision:
		return fmt.Sprintf("%s: start %d of compute ended there at revision %d, this host is at %d",
			older, p.Epoch, past.Revision, p.Revision)
	}
	return ""
}

// CleanRequest is an operator's request to clean a device for one-time use. The agent cleans it once for each request,
// if no guest has it. The request is repeated in the lines until the agent has answered.
type CleanRequest struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"` // identifies the request: another time is another request
}

// Forgotten lists the providers of a host that was forgotten, by name.
type Forgotten struct {
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"` // created by other services, or an ancestor of such a provider
}

// CleanResult is the answer to a CleanRequest. A clean device is also reported by Device.Spent.
type CleanResult struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"`             // of the request
	Refused string    `json:"refused,omitempty"` // why the device was not cleaned; absent: it was
}

// Server is a guest that must be on the host.
//
// ID is the consumer that has its devices in Placement: the server's own UUID, or while the server moves away, that of
// the migration that keeps the source's devices until the move is confirmed or reverted. So a line has a server twice
// while it is resized on the same host: as the migration (stopped) and as itself. An entry with PreviousID takes over
// the devices and the guest of that ID before the agent does anything else.
type Server struct {
	ID         string      `json:"id"`
	Server     string      `json:"server,omitempty"` // UUID for users; absent: ID
	PreviousID string      `json:"was,omitempty"`    // the ID of this guest before
	Name       string      `json:"name"`
	VCPUs      int         `json:"vcpus"`
	MemoryMB   int         `json:"memory_mb"`
	DiskGB     int         `json:"disk_gb"`
	Image      string      `json:"image,omitempty"`
	Requests   []Request   `json:"pci_requests"`
	Topology   []GuestCell `json:"topology,omitempty"` // the guest's NUMA cells, by number; absent: none

	Power    Power     `json:"power,omitempty"`    // absent: On
	Build    int       `json:"build,omitempty"`    // count of rebuilds: if it changes, rebuild with the same devices
	Incoming bool      `json:"incoming,omitempty"` // arrives by live migration: claim its devices, start nothing
	Outgoing *Outgoing `json:"outgoing,omitempty"` // live-migrate it: report departed, or failed if it still runs here
}

// Power is whether a guest must run.
type Power string

// The powers.
const (
	On  Power = "on"
	Off Power = "off" // the guest keeps its devices
)

// Outgoing is the destination of a live migration.
type Outgoing struct {
	Host    string            `json:"host"`
	Devices map[string]string `json:"devices,omitempty"` // address on the source → address on the destination
}

// GuestCell is one NUMA cell of a guest.
//
// PageKB is the size of its huge pages in KiB. -1: the largest that fit; -2: the largest that fit, or small pages; -3:
// small pages without overcommit; absent: small pages.
type GuestCell struct {
	VCPUs     []int  `json:"vcpus"`               // numbers of the guest's CPUs, ascending
	Dedicated []int  `json:"dedicated,omitempty"` // those of them that have a host thread of their own
	Threads   string `json:"threads,omitempty"`   // hw:cpu_thread_policy: prefer (or absent), isolate, require
	MemoryMB  int    `json:"memory_mb"`           // MiB
	PageKB    int    `json:"page_kb,omitempty"`
	Emulator  int    `json:"emulator,omitempty"` // host threads for the emulator alone, in addition to those of the CPUs
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
	Migratable string   `json:"live_migratable,omitempty"` // "true" or "false": the device must have it; absent: any
	Providers  []string `json:"providers,omitempty"`       // one for each device; absent if Placement was not used
	Or         []Or     `json:"or,omitempty"`              // other definitions of the alias; a device may meet any of them
}

// Or is another definition of an alias. Where Placement is used it has the same type, class and traits.
type Or struct {
	VendorID   string `json:"vendor_id,omitempty"`
	ProductID  string `json:"product_id,omitempty"`
	Class      string `json:"resource_class,omitempty"`
	Migratable string `json:"live_migratable,omitempty"`
}

// Phase is the state of a guest.
type Phase string

// The phases that an agent reports. Claimed is intermediate; the others are the results of a transition.
const (
	Claimed  Phase = "claimed"  // the devices are journalled; the guest is about to be built
	Running  Phase = "running"  // the guest runs with its devices
	Stopped  Phase = "stopped"  // the guest has its devices and does not run, as requested
	Refused  Phase = "refused"  // the hypervisor did not start, stop or rebuild the guest, which is as before
	Departed Phase = "departed" // the guest runs on the destination; its devices on this host are still claimed
	Failed   Phase = "failed"   // the guest cannot be built here; nothing of it is left and its devices are free
	Gone     Phase = "gone"     // the guest and its claims do not exist
)

// Guest is a report of one server on the host. An agent repeats it until compute has answered 204; it may be received
// twice. A claim of a server that is not, or no longer, assigned to the host is answered with 409, and then the agent
// must not build the guest: compute releases everything of a server without reports of an agent as soon as it is
// deleted. A claim is also answered with 409, and may be repeated, while another host has a guest of the server that
// compute has not placed there.
//
// Reports may overtake each other in the network. Compute records those of one agent about one server in the order of
// their numbers: a report that is older than the last one changes nothing, and is answered with 409 and the header
// Berth-Latest, the number of the last one. An agent that receives this answer (its journal was restored from a
// backup) continues counting from that number and repeats the report. A guest report of any other start than the
// admitted one is answered with 409 and changes nothing; one without instance, start and number with 400.
//
// {server} in the path is the ID in the line. When the ID of an entry has changed (PreviousID), the agent reports its
// phase again, under the new ID; a move continues only after that.
//
// After phase refused, compute cancels the requested change: the actual state of the guest becomes the desired state,
// and the next line has it.
type Guest struct {
	Phase   Phase        `json:"phase"`
	Devices []Picked     `json:"devices,omitempty"` // of the guest, with phases claimed, running, stopped and refused
	Cells   []PlacedCell `json:"parts,omitempty"`   // placement of the guest's NUMA cells, with the same phases
	Build   int          `json:"build,omitempty"`   // Server.Build of the existing guest, with the same phases
	Power   Power        `json:"power,omitempty"`   // actual power of the guest, with phase refused; absent: On
	Message string       `json:"message,omitempty"` // the reason of a failure or a refusal, as a sentence

	Instance string `json:"instance"` // of the agent, as in its report
	Start    string `json:"start"`    // of the agent's process, as in its report
	Number   int64  `json:"number"`   // larger than in all earlier reports of this instance, also of earlier processes
}

// Latest is the header of the answer to a report that came too late: the number of the last report that compute has.
const Latest = "Berth-Latest"

// Late is the cause of the fault when compute has a newer report of the server than the one sent.
type Late struct {
	Number int64 // of the newest report that compute has
}

// Error returns the sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("compute has a newer report of this server (number %d)", l.Number)
}

// Picked is a device given to a guest.
type Picked struct {
	RequestID string `json:"request_id"`
	Address   string `json:"address"`
	Provider  string `json:"provider,omitempty"`
}

// PlacedCell is the placement of one NUMA cell of a guest.
type PlacedCell struct {
	Node     int         `json:"node"`               // of the host
	CPUs     map[int]int `json:"cpus,omitempty"`     // dedicated virtual CPU → host thread
	Emulator []int       `json:"emulator,omitempty"` // host threads for the emulator alone
	PageKB   int         `json:"page_kb,omitempty"`  // size of its huge pages; absent: small pages
}
