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
	// Build makes the guest run with its devices, and returns when it does. Building a guest that runs as asked
	// changes nothing. Conflict: the guest runs with other devices, or another guest holds one of
	// these. After a fault nothing of the guest may be left that Destroy does not remove.
	Build(ctx context.Context, g Guest) error
	// Destroy ends the guest and gives its devices back to the host, and returns when they can be given to
	// another. A guest that is not there is destroyed already.
	Destroy(ctx context.Context, id string) error
}

// Capacity is what a host has for guests.
type Capacity struct {
	VCPUs    int // host threads
	MemoryMB int // MiB
	DiskGB   int // GiB
}

// Guest is one virtual machine. Its id is the UUID of the server.
type Guest struct {
	ID       string
	Name     string
	VCPUs    int
	MemoryMB int
	DiskGB   int
	Devices  []Device // by address
}

// Device is a PCI device given to a guest. The driver uses the address and keeps the rest with the guest, so
// that an agent that lost its journal can learn again what it claimed.
type Device struct {
	Address  pci.Address
	Request  string      // request_id of the PCI request that it serves
	Provider provider.ID // that counts it; empty when Placement was not asked
}
