package host

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Heartbeat is the longest silence on an assignment stream. An agent that receives nothing for three of them
// reconnects.
const Heartbeat = 10 * time.Second

// Position is a point in the history of a host's assignments. Compute counts an epoch at each of its starts, and a
// revision at each change of the host's assignments. The zero Position precedes every other.
type Position struct {
	Epoch    int64  `json:"epoch"`    // number of compute's start on its database, from 1
	EpochID  string `json:"epoch_id"` // random, so that two copies of a database that count the same number differ
	Revision int64  `json:"revision"`
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
	Past *Position `json:"past,omitempty"`
	// Base is the revision of the line before on the same stream, if this line is a difference to it: then Servers are
	// only those that are new or have changed, and Left are the ids of those that it does not have any more. All other
	// fields are complete. 0: the line is complete. A client gets differences only if it asks for them, and Client.Watch
	// completes them.
	Base int64    `json:"base,omitempty"`
	Left []string `json:"left,omitempty"`

	Servers []Server       `json:"servers"`          // by id
	Remove  []Removal      `json:"remove,omitempty"` // by id; each is repeated until the agent has reported phase gone
	Clean   []CleanRequest `json:"clean,omitempty"`  // devices for one-time use that must be cleaned

	DisabledDevices []DisabledDevice `json:"disabled_devices,omitempty"` // by operators
	// EnableDevices are the requests to enable devices. Each is repeated until the agent has answered.
	EnableDevices []EnableDevice `json:"enable_devices,omitempty"`

	Consoles []ConsoleRequest `json:"consoles,omitempty"` // open requests for consoles
}

// After returns the complete line of a difference to the line before. ok is false if it is a difference to another
// line.
func (a Assignments) After(before Assignments) (complete Assignments, ok bool) {
	if a.Base == 0 {
		return a, true
	}
	if before.Revision != a.Base || before.Epoch != a.Epoch || before.EpochID != a.EpochID {
		return a, false
	}
	changed := make(map[string]bool, len(a.Servers)+len(a.Left))
	for _, s := range a.Servers {
		changed[s.ID] = true
	}
	for _, id := range a.Left {
		changed[id] = true
	}
	all := make([]Server, 0, len(before.Servers)+len(a.Servers))
	for _, s := range before.Servers {
		if !changed[s.ID] {
			all = append(all, s)
		}
	}
	all = append(all, a.Servers...)
	slices.SortFunc(all, func(x, y Server) int { return strings.Compare(x.ID, y.ID) })
	a.Servers, a.Base, a.Left = all, 0, nil
	return a, true
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

// Present is a guest that exists on the host.
type Present struct {
	ID       string `json:"id"`                 // its name in the hypervisor: the id of the server or of a migration
	Server   string `json:"server,omitempty"`   // UUID for users; absent: ID
	Assigned bool   `json:"assigned,omitempty"` // named in the followed line; false before the first line
}

// Removal is a guest that must be destroyed, because according to compute's record its server was deleted, moved
// or shelved. The agent reports phase gone under ID, also when nothing of the guest exists.
type Removal struct {
	ID         string `json:"id"`            // as in Server
	PreviousID string `json:"was,omitempty"` // the previous ID, under which the agent may still have the guest
}

// CleanRequest is an operator's request to clean a device for one-time use. The agent cleans it once for each request,
// if no guest has it. The request is repeated in the lines until the agent has answered.
type CleanRequest struct {
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"` // identifies the request: another time is another request
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
	Project    string      `json:"project,omitempty"` // agents build the servers of projects in turn
	VCPUs      int         `json:"vcpus"`
	MemoryMB   int         `json:"memory_mb"`
	DiskGB     int         `json:"disk_gb"`
	Image      string      `json:"image,omitempty"`
	Hardware   Hardware    `json:"hardware,omitzero"`
	Requests   []Request   `json:"pci_requests"`
	Topology   []GuestCell `json:"topology,omitempty"`   // the guest's NUMA cells, by number; absent: none
	Interfaces []Interface `json:"interfaces,omitempty"` // in the guest's order; absent: none

	ShelvedDisk

	Power    Power `json:"power,omitempty"`    // absent: On
	Build    int   `json:"build,omitempty"`    // count of rebuilds: if it changes, rebuild with the same devices
	Incoming bool  `json:"incoming,omitempty"` // arrives by live migration: claim its devices, start nothing
	// ClaimOnly: claim its devices and build nothing, because its ports are bound after compute has the claim. Interfaces
	// has no meaning then.
	ClaimOnly bool      `json:"claim_only,omitempty"`
	Outgoing  *Outgoing `json:"outgoing,omitempty"` // live-migrate it: report departed, or failed if it still runs here
	// DiskFrom is the source of the server's move. A guest that does not exist here gets its disk, and no other.
	DiskFrom *DiskFrom `json:"disk_from,omitempty"`
}

// DiskFrom is the guest from which a server that moves gets its disk.
type DiskFrom struct {
	Host string `json:"host"` // maybe the same host
	ID   string `json:"id"`   // of the guest there
}

// Hardware is what the image of a guest chooses of its machine, in the words of Nova's image properties.
type Hardware struct {
	Machine    string `json:"machine_type,omitempty"` // absent: that of the driver
	DiskBus    string `json:"disk_bus,omitempty"`     // absent: virtio
	NICModel   string `json:"vif_model,omitempty"`    // absent: virtio
	Video      string `json:"video_model,omitempty"`  // absent: that of the driver; or none
	GuestAgent bool   `json:"qemu_guest_agent,omitempty"`
	Firmware   string `json:"firmware_type,omitempty"` // absent: BIOS
	SecureBoot string `json:"secure_boot,omitempty"`   // required or optional; absent: disabled
}

// ShelvedDisk is where the disk of a server, or a copy of it, goes as an image, and where it comes from when the server
// is unshelved.
type ShelvedDisk struct {
	// DiskImage: the image whose data the disk of a guest that does not exist yet becomes, in full, in place of Image.
	DiskImage string `json:"disk_image,omitempty"`
	// Rescue: the image that the guest boots instead of its disk, which is its second one.
	Rescue string `json:"rescue_image,omitempty"`
	// UploadTo: the image without data that gets the disk of the guest, which is stopped, or with Copy may run. It is
	// reported with phases running and stopped, in Guest.Upload.
	UploadTo string `json:"upload_to,omitempty"`
	Copy     bool   `json:"upload_copy,omitempty"`    // UploadTo gets a copy, and nothing of it stays on the host
	Quiesce  bool   `json:"upload_quiesce,omitempty"` // os_require_quiesce: no copy unless file systems are frozen
}

// Equal reports whether two assignments of a server are the same. An agent compares all servers of its host at each
// change. Those that have not changed mostly share their lists, so reflect.DeepEqual, which follows everything, is
// needed for the others only.
func (s Server) Equal(o Server) bool {
	return s.ID == o.ID && s.Server == o.Server && s.PreviousID == o.PreviousID && s.Name == o.Name &&
		s.Project == o.Project &&
		s.VCPUs == o.VCPUs && s.MemoryMB == o.MemoryMB && s.DiskGB == o.DiskGB && s.Image == o.Image &&
		s.Hardware == o.Hardware && s.ShelvedDisk == o.ShelvedDisk &&
		s.Power == o.Power && s.Build == o.Build && s.Incoming == o.Incoming && s.ClaimOnly == o.ClaimOnly &&
		equal(s.Requests, o.Requests) && equal(s.Topology, o.Topology) && equal(s.Interfaces, o.Interfaces) &&
		(s.Outgoing == o.Outgoing || reflect.DeepEqual(s.Outgoing, o.Outgoing)) &&
		(s.DiskFrom == o.DiskFrom || reflect.DeepEqual(s.DiskFrom, o.DiskFrom))
}

// equal reports whether two lists have the same elements.
func equal[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || reflect.DeepEqual(a, b))
}

// Power is whether and how a guest must run, or runs.
type Power string

// The powers.
const (
	On        Power = "on"
	Off       Power = "off"       // the guest keeps its devices
	Paused    Power = "paused"    // its CPUs do not run
	Suspended Power = "suspended" // it does not run, and continues with the memory that it had
)

// Outgoing is the destination of a live migration.
type Outgoing struct {
	Host    string            `json:"host"`
	Devices map[string]string `json:"devices,omitempty"` // address on the source → address on the destination
	// Abort: report failed instead, or departed if the guest has arrived already.
	Abort bool `json:"abort,omitempty"`
	Force bool `json:"force,omitempty"` // the guest may be paused, so that the migration completes
}

// GuestCell is one NUMA cell of a guest.
//
// PageKB is the size of its huge pages in KiB. -1: the largest that fit; -2: the largest that fit, or small pages; -3:
// small pages without overcommit; absent: small pages.
type GuestCell struct {
	VCPUs     []int       `json:"vcpus"`               // numbers of the guest's CPUs, ascending
	Dedicated []int       `json:"dedicated,omitempty"` // those of them that have a host thread of their own
	Threads   string      `json:"threads,omitempty"`   // hw:cpu_thread_policy: prefer (or absent), isolate, require
	MemoryMB  int         `json:"memory_mb"`           // MiB
	PageKB    int         `json:"page_kb,omitempty"`
	Emulator  int         `json:"emulator,omitempty"` // host threads for the emulator alone, beside those of the CPUs
	On        *CellChoice `json:"chosen,omitempty"`   // what is claimed for it in Placement; absent: the agent chooses
}

// CellChoice is what is chosen for a guest cell.
type CellChoice struct {
	Node   int `json:"node"`              // of the host
	PageKB int `json:"page_kb,omitempty"` // size of its huge pages in KiB; absent: small pages
}

// Interface is a network interface of a server: a port that is bound to the host. The VLAN is the tag that the device
// or the bridge adds; -1: none, and the bridge drops frames with a tag.
type Interface struct {
	Port   string `json:"port_id"`
	MAC    string `json:"mac"`
	VIF    string `json:"vif_type"`
	VNIC   string `json:"vnic_type"`
	Bridge string `json:"bridge,omitempty"` // of Open vSwitch or of the host; absent: the driver's
	Device string `json:"device,omitempty"` // address of the claimed device that serves the port; absent: none
	VLAN   int    `json:"vlan,omitempty"`   // absent: none
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

	Port  *RequestPort  `json:"port,omitempty"`  // absent: the request is of an alias
	Match *RequestMatch `json:"match,omitempty"` // absent: its devices need not belong together
}

// RequestMatch is what the devices of a request have in common with each other, and with those of other requests of the
// server that have the same set. With providers, the devices are in the order of the sets.
type RequestMatch struct {
	Set    int    `json:"set"`             // its number, from 1
	Family string `json:"family"`          // of which the devices of a set have a value in common
	Times  int    `json:"times"`           // how many sets, of equally many devices, each of which agrees by itself
	Whole  bool   `json:"whole,omitempty"` // a set takes all devices that the host offers with its value
}

// RequestPort is what a network port needs of its device.
type RequestPort struct {
	ID string `json:"id"`
	// PhysicalNetworks are those of the segments of its network; an empty text for one without a physical network.
	PhysicalNetworks []string `json:"physical_networks,omitempty"`
	RemoteManaged    bool     `json:"remote_managed,omitempty"`
	Trusted          bool     `json:"trusted,omitempty"`
}

// Or is another definition of an alias. Where Placement is used it has the same type, class and traits.
type Or struct {
	VendorID   string `json:"vendor_id,omitempty"`
	ProductID  string `json:"product_id,omitempty"`
	Class      string `json:"resource_class,omitempty"`
	Migratable string `json:"live_migratable,omitempty"`
}
