package state

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Event is something that happened outside the state machine: the end of an effect, a message, or a moment.
type Event interface{ event() }

// Start is the first event.
type Start struct{}

// Tick is a moment: Deadline has passed.
type Tick struct{}

// DevicesChanged is a change of the host's devices, or of guests that the agent has not made: the host is observed
// again.
type DevicesChanged struct{}

// Written ends WriteJournal. With a fault, nothing of it or any beginning may be on the disk.
type Written struct{ Err error }

// Admitted ends Admit. The fault is Conflict when another agent serves the host.
type Admitted struct{ Err error }

// Received is a message of the stream of assignments.
type Received struct{ Assignments host.Assignments }

// StreamEnded ends Watch.
type StreamEnded struct{ Err error }

// HostReported ends ReportHost. The fault is Conflict when another agent serves the host, and Unavailable when compute
// does not answer.
type HostReported struct{ Err error }

// AliveSent ends SendAlive. The fault is NotFound when compute needs the host report, and Conflict when another
// agent serves the host.
type AliveSent struct{ Err error }

// Observed ends Observe.
type Observed struct {
	Observation Observation
	Err         error
}

// Observation is what was read of the host and of its tree in Placement.
type Observation struct {
	Machine  facts.Facts
	Guests   []hypervisor.Guest
	Capacity hypervisor.Capacity
	// ByName is true when there is no provider Observe.Root, so that the provider with the host's name was read.
	ByName bool
	Named  *provider.Provider // with ByName: the provider with the host's name, or nil
	Tree   provider.Tree      // of Observe.Root, or of Named, or of Observe.Journalled; empty when there is none
	// Elsewhere are the trees of Observe.Hypervisors, and those other ones that contain providers of Observe.Owned.
	Elsewhere []OtherTree
}

// OtherTree is a tree of Placement that is not the host's.
type OtherTree struct {
	Name string        // of Observe.Hypervisors; empty for a tree with providers of Observe.Owned
	Tree provider.Tree // empty when there is no provider with the name
	Err  error         // why the tree could not be read
}

// HypervisorChecked is the result of a check of the hypervisor: a fault when it does not answer or can build no guests.
type HypervisorChecked struct{ Err error }

// UsesRead ends ReadUses.
type UsesRead struct {
	Uses treeplan.Uses
	Err  error
}

// AllocationsRead ends ReadAllocations.
type AllocationsRead struct {
	Allocations map[resource.ConsumerID]placement.ConsumerAllocation
	Err         error
}

// ProviderWritten ends WriteProvider. Conflict: another client has written meanwhile.
type ProviderWritten struct {
	Generation int // of the provider, where the step returns one
	Err        error
}

// CleanEnded ends CleanDevice.
type CleanEnded struct{ Err error }

// DeviceChecked ends CheckDevice. The fault means that the device could not be checked.
type DeviceChecked struct {
	Health Health
	Err    error
}

// Health is what a check has found about a device.
type Health struct {
	Missing bool           // it is not on the host
	Failed  string         // why the device has failed the check, as a clause; empty: it has not
	Errors  journal.Errors // its error counters
	Counted bool           // it has error counters
}

// VFsRestored ends RestoreVFs.
type VFsRestored struct {
	PF  device.ID
	Err error
}

// VFsCompared are the conditions of all VFs that guests have for ports, after they were compared with their ports.
type VFsCompared struct{ Conditions []condition.Condition }

// WorkDone ends an effect of a work. The fault of an effect that was cancelled is ignored.
type WorkDone struct {
	Work       string
	Err        error
	Allocation placement.ConsumerAllocation // of ReadAllocation
	Guests     []hypervisor.Guest           // of ListGuests
	Image      hypervisor.ImageData         // of Upload
	Departed   bool                         // of SettleMigration: the guest has departed
}

func (Start) event()             {}
func (Tick) event()              {}
func (DevicesChanged) event()    {}
func (AliveSent) event()         {}
func (Written) event()           {}
func (Admitted) event()          {}
func (Received) event()          {}
func (StreamEnded) event()       {}
func (HostReported) event()      {}
func (HypervisorChecked) event() {}
func (Observed) event()          {}
func (UsesRead) event()          {}
func (AllocationsRead) event()   {}
func (ProviderWritten) event()   {}
func (CleanEnded) event()        {}
func (DeviceChecked) event()     {}
func (VFsRestored) event()       {}
func (VFsCompared) event()       {}
func (WorkDone) event()          {}
