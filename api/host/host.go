// Package host is the contract between the agent of a host and compute: the report up, the assignments down,
// and what became of each guest.
//
// The agent opens every connection; a host listens on nothing. It reports with
//
//	PUT  /berth/v1/hosts/{host}                        Report
//	GET  /berth/v1/hosts/{host}/assignments?…          a stream of Assignments, one JSON object a line; the query is WatchRequest
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
// Nobody commands the agent. A line of assignments is always the whole truth about the host at a revision, so that lost
// lines lose nothing. An unchanged truth is repeated as a heartbeat at least every Heartbeat, so that a dead connection
// shows.
//
// A guest is destroyed only when a line names it in Remove. The absence of a guest from a line means nothing: compute's
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

// Heartbeat is the longest silence on an assignment stream; an agent that hears nothing for three of them connects anew.
const Heartbeat = 10 * time.Second

// Report is what a host has, told by its agent each time that it changes and at least once a minute.
type Report struct {
	Host       string        `json:"host"`                           // the hypervisor hostname, and the name of the root provider
	Instance   string        `json:"instance"`                       // UUID of the agent, made once and kept in its journal
	Start      string        `json:"start,omitempty"`                // of the agent's process, see Sender; compute never shows it to readers
	Previous   []string      `json:"previous,omitempty"`             // see Sender
	Place      string        `json:"place,omitempty"`                // see Sender
	Position   Position      `json:"position,omitzero"`              // the newest assignments that this agent has followed
	Behind     string        `json:"behind,omitempty"`               // why the agent does not follow the assignments; empty when it does
	Guests     []Present     `json:"guests,omitempty"`               // the guests that exist on the host, by id
	Provider   string        `json:"provider"`                       // UUID of the root provider
	Devices    []Device      `json:"devices"`                        // every device that device_spec offers, by address
	Cells      []Cell        `json:"cells,omitempty"`                // the NUMA nodes that have CPUs or memory for guests, by number
	Counted    []string      `json:"counted,omitempty"`              // ids of the guests with a topology whose use the cells show
	CPURatio   float64       `json:"cpu_allocation_ratio,omitempty"` // shared virtual CPUs for a thread of Cell.CPUs; absent: 1
	MemRatio   float64       `json:"ram_allocation_ratio,omitempty"` // of small pages; absent: 1
	Conditions []string      `json:"conditions"`                     // sentences about what is wrong on the host; empty when all is well
	InPlace    bool          `json:"in_placement"`                   // [pci] report_in_placement
	Cleaned    []CleanResult `json:"cleaned,omitempty"`              // what became of wishes, each as long as compute repeats the wish
	Seen       time.Time     `json:"seen,omitzero"`                  // set by compute: when the report came
	Dead       bool          `json:"dead,omitempty"`                 // set by compute: an operator says that it will not return
	Connected  bool          `json:"connected,omitempty"`            // set by compute: the agent has an open stream of assignments
	Quiet      float64       `json:"quiet_seconds,omitempty"`        // set by compute: since the last sign of life, by a clock that nobody sets
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

// Sender says which start of which agent sends a request. Compute admits one start for each host.
type Sender struct {
	Instance     string   // UUID of the agent, made once and kept in its journal
	Start        string   // random, drawn by each process of the agent and journalled before it is sent
	Previous     []string // the Starts before this one in the journal, from the last one that compute acknowledged on; at most MaxPrevious
	ProcessSpace string   // boot and process namespace in which the process runs; empty when unknown
}

// MaxPrevious is the largest number of Sender.Previous: starts that compute has not acknowledged, as when it does not
// answer.
const MaxPrevious = 32

// Sender returns who sends the report.
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
	ID       string `json:"id"`                 // as the hypervisor knows it: of the server or of a migration
	Server   string `json:"server,omitempty"`   // UUID that users know; absent: ID
	Assigned bool   `json:"assigned,omitempty"` // the assignments that the agent follows name it (Servers, Remove); false before it has read any
}

// Assignments is one line of the stream: all servers that must be on the host, and all that must be removed from it.
//
// Cloud is made once, with compute's database. An agent keeps it with its first line, and takes no line of another
// cloud until its operator says so (`berth agent adopt`): an empty database must not end the guests of the one before.
// The same holds for a line that precedes the agent's Position: it comes from a database that was restored from a
// backup.
type Assignments struct {
	Cloud    string `json:"cloud,omitempty"` // UUID
	Position        // of this line
	// Past is what compute's database records of the epoch that the agent named in its request: its last revision for
	// this host. It is absent when the agent named no epoch or the present one, and when the database does not know the
	// epoch.
	Past    *Position      `json:"past,omitempty"`
	Servers []Server       `json:"servers"`          // that must be on the host, by id
	Remove  []Removal      `json:"remove,omitempty"` // that must be removed, by id; each stays until the agent has reported it gone
	Clean   []CleanRequest `json:"clean,omitempty"`  // devices for one-time use that an operator wants back
}

// Removal is a guest that must be destroyed, because compute's record says that its server was deleted, moved or
// shelved. The agent reports phase gone under ID, also when nothing of the guest exists.
type Removal struct {
	ID         string `json:"id"`            // as in Server
	PreviousID string `json:"was,omitempty"` // the ID under which the agent may still know the guest
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
		return fmt.Sprintf("%s: start %d of compute ended there at revision %d, this host is at %d", older, p.Epoch, past.Revision, p.Revision)
	}
	return ""
}

// Wish is a device for one-time use that an operator wants back: the agent cleans it, once for each wish, if nobody holds it. It stands in the
// lines until the agent has answered.
type CleanRequest struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"` // another time is another wish
}

// Forgotten is what became of the providers of a host that is forgotten, by name.
type Forgotten struct {
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"` // others made them, or they stand above one of those
}

// Answer is what became of a Wish. That a device is clean shows in Device.Spent too.
type CleanResult struct {
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
	ID         string      `json:"id"`
	Server     string      `json:"server,omitempty"` // UUID that users know; absent: ID
	PreviousID string      `json:"was,omitempty"`    // the ID under which this guest stood here before: its devices and its guest go over to ID, first of all
	Name       string      `json:"name"`
	VCPUs      int         `json:"vcpus"`
	MemoryMB   int         `json:"memory_mb"`
	DiskGB     int         `json:"disk_gb"`
	Image      string      `json:"image,omitempty"`
	Requests   []Request   `json:"pci_requests"`
	Topology   []GuestCell `json:"topology,omitempty"` // the guest's NUMA cells, by number; absent: it has none

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
type GuestCell struct {
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
// no agent has spoken for, compute gives everything back as soon as it is deleted. A claim is
// answered with 409, and may be repeated, while another host has a guest of the server that compute has not placed there.
//
// Words may overtake each other on their way. Compute takes those of one agent about one server in the order of their
// numbers: one that is older than what it has heard changes nothing, and is answered with 409 and the header
// Berth-Latest, the number that it has heard. An agent that reads that (its journal is from a backup) counts on from
// there and repeats. A guest report of any other start than the one that compute has admitted for the host is answered
// with 409 and changes nothing; one without instance, start and number with 400.
//
// {server} in the path is the ID of the line. When an entry has come to stand under another ID (Was), the agent tells
// its phase anew, under the new ID: a move goes on only then.
//
// With phase refused the wish is given up: compute takes what the guest does for what it shall do, and the next line
// says so.
type Guest struct {
	Phase   Phase        `json:"phase"`
	Devices []Picked     `json:"devices,omitempty"` // what the guest holds, with phases claimed, running, stopped and refused
	Cells   []PlacedCell `json:"parts,omitempty"`   // where the guest's NUMA cells lie, with the same phases
	Build   int          `json:"build,omitempty"`   // Server.Build of the guest that stands there, with the same phases
	Power   Power        `json:"power,omitempty"`   // with phase refused: what the guest does; absent: On
	Message string       `json:"message,omitempty"` // the sentence of a failure or a refusal

	Instance string `json:"instance"` // of the agent, as in its report
	Start    string `json:"start"`    // of the agent's process, as in its report
	Number   int64  `json:"number"`   // larger than in all that this instance has said before, also before it was begun anew
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
type PlacedCell struct {
	Node     int         `json:"node"`               // of the host
	CPUs     map[int]int `json:"cpus,omitempty"`     // dedicated virtual CPU → host thread
	Emulator []int       `json:"emulator,omitempty"` // host threads for the emulator alone
	PageKB   int         `json:"page_kb,omitempty"`  // size of its huge pages; absent: small pages
}
