// Package hypervisor says what the agent asks of whatever runs guests on a host.
//
// The one implementation so far is package fake, which keeps guests as files; a driver for libvirt or PowerVM
// implements the same interface and passes the same tests, those of package hypervisortest.
package hypervisor

import (
	"context"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// Hypervisor runs the guests of one host. Its methods may be called by many goroutines at once, for one guest
// by one goroutine at a time. A driver remembers across its own restarts, and the agent's, which guests
// it has; it need not know who else may have what: the agent's journal does.
//
// All methods answer with faults. Unavailable means that nothing was decided and the same call may
// help later (the daemon restarts, the context ended); every other kind is final for this call.
type Hypervisor interface {
	// Capacity says what the host has in all, guests included.
	Capacity(ctx context.Context) (Capacity, error)
	// Guests lists the guests that this driver has built and not destroyed, by id, each with the devices it holds.
	// A guest whose Build has not returned is listed whole or not at all.
	Guests(ctx context.Context) ([]Guest, error)
	// Build makes the guest be there with its devices, running or stopped as it says, and returns when it is so. Building a guest that is
	// as asked changes nothing; one that only runs, or is stopped, where it should not is started or stopped; one of another Build
	// number is made anew with the devices it has. What else is kept with a device is written anew. Conflict: the guest has devices of
	// other addresses, or another guest holds one of these, or it has departed. After a fault nothing of the guest may be left that
	// Destroy does not remove, but what was there before stays.
	Build(ctx context.Context, g Guest) error
	// Rename makes the guest known as id instead of was, with what else the new name says; the guest itself is not touched. When there is no guest
	// was, it is renamed already. Conflict: there are both.
	Rename(ctx context.Context, was, id, server string) error
	// Migrate sends a running guest to another host, device by device, and returns when it runs there. Then it is listed as departed until it is
	// destroyed, which touches nothing of the guest at its new place. A departed guest is migrated already. After a fault the
	// guest runs here as before.
	Migrate(ctx context.Context, id string, to Destination) error
	// Destroy ends the guest and gives its devices back to the host, and returns when they can be given to
	// another. A guest that is not there is destroyed already.
	Destroy(ctx context.Context, id string) error
}

// Starter is implemented by drivers that have something to do when an agent starts. The agent calls Start once, after
// it has excluded every other agent and before it asks for guests. A dry run does not call it.
type Starter interface {
	Start(ctx context.Context) error
}

// Destination is where a guest goes by live migration.
type Destination struct {
	Host    string
	Devices map[pci.Address]pci.Address // address here → address there
}

// Capacity is what a host has for guests, and what it cannot do.
type Capacity struct {
	VCPUs    int    // host threads
	MemoryMB int    // MiB
	DiskGB   int    // GiB
	NoLive   string // why no guest with devices can be migrated live, such as "QEMU is older than 8.2.2"; empty: it can
}

// Guest is one virtual machine. Its id is that of its entry in compute's line: the UUID of the server, or of the migration by which
// the server is about to leave.
type Guest struct {
	ID       string
	Server   string // UUID that users know; empty: ID
	Name     string
	VCPUs    int
	MemoryMB int
	DiskGB   int
	Devices  []Device    // by address
	Cells    []GuestCell // its NUMA cells by number; empty: it has none
	Stopped  bool        // it is there with its devices and does not run
	Build    int         // how often it has been rebuilt
	Departed bool        // it runs on another host now; nothing of it runs here, and its devices are not yet given back
}

// Part is one NUMA cell of a guest and where it lies.
type GuestCell struct {
	VCPUs    []int       // numbers of the guest's CPUs
	MemoryMB int         // MiB
	PageKB   int         // size of its huge pages; 0: small pages
	Node     int         // NUMA node of the host
	CPUs     map[int]int // dedicated virtual CPU → host thread; the others float over the node's shared threads
	Emulator []int       // host threads for the emulator alone
}

// Device is a PCI device given to a guest. The driver uses the address and keeps the rest with the guest, so
// that an agent that lost its journal can learn again what it claimed.
type Device struct {
	Address   pci.Address
	Request   string      // request_id of the PCI request that it serves
	Provider  provider.ID // that counts it; empty when Placement was not asked
	Unmanaged bool        // its rule has managed false: the hypervisor neither takes it from the kernel's driver nor gives it back
}
