package state

import (
	"cmp"
	"time"

	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
)

// Config is the configuration of an agent.
type Config struct {
	Host              string // hypervisor hostname, and the name of the root provider
	Dir               string // of the journal, for messages
	Rules             pci.Rules
	ReportInPlacement bool
	ReportNetwork     bool // [berth] report_network_devices
	VFIO              bool // guests get only devices of IOMMU groups that the host does not use
	CPUs              CPUs
	Kinds             []kind.Kind       // of devices, beside PCI
	ReportBandwidth   bool              // [berth] report_bandwidth; false: bandwidth providers belong to Neutron
	Bandwidth         []bandwidth.Agent // agent types of this host with devices for networks
	Conditions        []string          // of the configuration, which the host has from the start
	Machine           Machine
	Preparations

	HealthChecks time.Duration // interval between two health checks of all devices; 0: none

	Rescan   time.Duration // interval between two syncs
	Times    Times
	Parallel int            // maximum number of concurrent builds
	NewID    func() string  // returns UUIDs
	Jitter   func() float64 // returns 0 to 1
}

// Preparations are what is done before a guest starts.
type Preparations struct {
	ConfigureVFs   bool // the agent configures VFs for ports; false: devices with physical_network are used as they are
	ReceivesGuests bool // the hypervisor must prepare for guests that arrive by live migration
	PreparesSets   bool // the operator's program prepares sets of devices
}

// Times are the waits of an agent. Zero fields have the defaults.
type Times struct {
	Alive   time.Duration // between two signs of life, default host.AliveInterval
	Retry   time.Duration // the longest wait after failures, default 15 s
	Refusal time.Duration // the wait after the first refusal of the hypervisor, default 5 s; it doubles up to 5 min
	// the longest wait after a sync that found a missing allocation for the first time, default 5 s
	SecondSync time.Duration
	Followed   time.Duration // the shortest time between two signs of life that acknowledge assignments, default 1 s
}

// Refusals returns the waits after consecutive refusals of the hypervisor.
func (t Times) Refusals() backoff.Exponential {
	return backoff.Exponential{First: cmp.Or(t.Refusal, 5*time.Second), Max: 5 * time.Minute}
}

// Machine identifies where an agent runs. Empty fields are unknown.
type Machine struct {
	Booted time.Time // when it was started; zero: not known
	ID     string    // machine-id(5): of the installed system, also in a copy of it
	// the IP address that lists of hypervisors show; empty: none is known
	Address string
	// the machine and the journal's directory: two processes with one id exclude each other by the journal's lock, also
	// across boots and containers
	LockID string
}
