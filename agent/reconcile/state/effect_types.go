package state

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Effect is an operation that the agent's process performs outside the state machine. Effects may be performed
// concurrently; the order in which Next returns them does not matter, because Next returns an effect only after the
// events of those that must precede it. Only Cancel must follow the effect that it ends. Each type documents the event
// that ends it; without one, the effect ends at once.
type Effect interface{ effect() }

// WriteJournal makes entries durable, in this order. It ends with Written. There is at most one at a time.
type WriteJournal struct{ Entries []journal.Entry }

// Admit requests permission of compute for this start of the agent to serve the host. It ends with Admitted.
type Admit struct{ Sender host.Sender }

// Watch opens a stream of assignments. Each of its messages is a Received, and it ends with StreamEnded. There is at
// most one at a time.
type Watch struct{ Request host.WatchRequest }

// ReportHost sends the host report to compute. It ends with HostReported. There is at most one at a time.
type ReportHost struct{ Report host.Report }

// SendAlive sends a sign of life to compute. It ends with AliveSent. There is at most one at a time.
type SendAlive struct{ Alive host.Alive }

// Observe reads the host, its guests, and its tree in Placement. It ends with Observed. Root is the root provider, or
// empty. If there is no such provider, the one with the host's name is read, and if there is none either, the one that
// the journal has.
type Observe struct {
	Root       provider.ID
	Journalled provider.ID
	// Hypervisors are the names of other root providers whose trees are read, and Owned are providers whose trees are read
	// wherever they are.
	Hypervisors []string
	Owned       []provider.ID
}

// ReadUses reads the allocations of providers. It ends with UsesRead.
type ReadUses struct {
	Providers []provider.ID
	Tree      provider.Tree // of the host, as it was observed: some of the providers are in it
}

// ReadAllocations reads the allocations of consumers. It ends with AllocationsRead.
type ReadAllocations struct{ Consumers []resource.ConsumerID }

// WriteProvider performs one step of a plan in Placement. It ends with ProviderWritten.
type WriteProvider struct {
	Step    treeplan.Step // with the provider's present generation
	Reshape placement.Reshape
}

// CleanDevice cleans a device for one-time use. It ends with CleanEnded. There is at most one at a time.
type CleanDevice struct{ Device device.ID }

// CheckDevice checks the health of a device. It ends with DeviceChecked. There is at most one at a time.
type CheckDevice struct{ Device device.ID }

// RestoreVFs gives a PF that is free its VFs again. It ends with VFsRestored. There is at most one for a PF at a time,
// and no RemoveVFs of the PF meanwhile.
type RestoreVFs struct {
	PF    device.ID
	Count int
}

// ReadAllocation reads the allocation of the server of a work. Like the effects below, it belongs to the work on one
// server, ends with a WorkDone, and is the only one of that work at a time. Cancel ends it early.
type ReadAllocation struct{ Work string }

// ConfigureVFs configures the VFs that a guest gets for the ports of its server.
type ConfigureVFs struct {
	Work string
	VFs  []vfconfig.Assigned
}

// ResetVFs removes the configuration for ports from the VFs of a guest that does not exist any more, or is stopped,
// or from those whose ports it has lost.
type ResetVFs struct {
	Work, ID string
	Devices  []device.ID
	Detached bool // the guest exists, and has lost the ports of these VFs
}

// RemoveVFs removes the VFs of PFs that a guest gets as a whole.
type RemoveVFs struct {
	Work string
	PFs  []device.ID
}

// Build makes the hypervisor build or change a guest, after the operator's program has prepared its sets of devices.
type Build struct {
	Work  string
	Guest hypervisor.Guest
	Sets  []device.MatchedSet
}

// Receive makes the hypervisor prepare for a guest that will arrive by live migration.
type Receive struct {
	Work  string
	Guest hypervisor.Guest
	Sets  []device.MatchedSet // as for Build
}

// Forget makes the hypervisor remove what it has prepared for a guest that has not arrived.
type Forget struct{ Work, ID string }

// Rename makes the hypervisor rename a guest.
type Rename struct{ Work, Was, ID, Server string }

// Migrate makes the hypervisor live-migrate a guest.
type Migrate struct {
	Work  string
	To    hypervisor.Destination
	Force bool // from the beginning, as after Force
}

// Force makes the hypervisor complete the live migration of a work, even if it pauses the guest for that.
type Force struct{ Work string }

// SettleMigration makes the hypervisor end an interrupted live migration of a guest, so that it is known whether it has
// departed.
type SettleMigration struct{ Work, ID string }

// Destroy makes the hypervisor destroy a guest.
type Destroy struct{ Work, ID string }

// Upload makes the hypervisor upload the disk of a guest as the data of an image.
type Upload struct {
	Work, ID string
	To       hypervisor.Upload
}

// EndUpload makes the hypervisor remove what uploads of copies of a guest's disk have left on the host.
type EndUpload struct{ Work, ID string }

// ListGuests lists the guests of the hypervisor.
type ListGuests struct{ Work string }

// ReportGuest sends the state of one server to compute.
type ReportGuest struct {
	Work, ID string
	Guest    host.Guest
	Epoch    string // of the assignments when it was made
}

// Cancel ends the effect of a work early. The effect still ends with its WorkDone.
type Cancel struct{ Work string }

// Stop ends the agent with a fault.
type Stop struct{ Err error }

// Log writes a message to the log.
type Log struct {
	Warn    bool // as a warning
	Message string
	Attrs   []any // names and values in turn
}

// AwaitReport is the effect of an attempt that waits until compute has a host report. Next does not return it.
type AwaitReport struct{}

func (AwaitReport) effect()     {}
func (WriteJournal) effect()    {}
func (Admit) effect()           {}
func (Watch) effect()           {}
func (ReportHost) effect()      {}
func (SendAlive) effect()       {}
func (Observe) effect()         {}
func (ReadUses) effect()        {}
func (ReadAllocations) effect() {}
func (WriteProvider) effect()   {}
func (CleanDevice) effect()     {}
func (CheckDevice) effect()     {}
func (RestoreVFs) effect()      {}
func (RemoveVFs) effect()       {}
func (ReadAllocation) effect()  {}
func (ConfigureVFs) effect()    {}
func (ResetVFs) effect()        {}
func (Build) effect()           {}
func (Receive) effect()         {}
func (Forget) effect()          {}
func (Rename) effect()          {}
func (Migrate) effect()         {}
func (Force) effect()           {}
func (SettleMigration) effect() {}
func (Destroy) effect()         {}
func (Upload) effect()          {}
func (EndUpload) effect()       {}
func (ListGuests) effect()      {}
func (ReportGuest) effect()     {}
func (Cancel) effect()          {}
func (Stop) effect()            {}
func (Log) effect()             {}

// WorkOf returns the work that an effect belongs to; empty for the effects of no work, and for Cancel and Force.
func WorkOf(e Effect) string {
	switch e := e.(type) {
	case ReadAllocation:
		return e.Work
	case RemoveVFs:
		return e.Work
	case ConfigureVFs:
		return e.Work
	case ResetVFs:
		return e.Work
	case Build:
		return e.Work
	case Receive:
		return e.Work
	case Forget:
		return e.Work
	case Rename:
		return e.Work
	case Migrate:
		return e.Work
	case SettleMigration:
		return e.Work
	case Destroy:
		return e.Work
	case Upload:
		return e.Work
	case EndUpload:
		return e.Work
	case ListGuests:
		return e.Work
	case ReportGuest:
		return e.Work
	}
	return ""
}
