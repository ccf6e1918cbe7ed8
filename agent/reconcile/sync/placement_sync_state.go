// Package sync makes Placement's tree match the host: it observes, plans, checks and writes.
package sync

import (
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// stage is how far a sync is.
type stage int

// The stages.
const (
	idle               stage = iota
	observing                // Observe is in progress
	readingUses              // ReadUses is in progress
	readingAllocations       // ReadAllocations is in progress
	writing                  // WriteProvider is in progress
	writingBandwidth         // WriteProvider is in progress, for a bandwidth provider
	retrying                 // another client has written to the tree: wait, and observe again
)

// epochs are counts of Core.
type epochs struct{ guests, vfs int }

// Syncer makes Placement's tree match the host: observe, plan, check, write. When another client has written to the
// tree in between, the plan is discarded and the sync begins again. A fault becomes a condition.
type Syncer struct {
	*state.Core
	Bandwidth *bandwidthSync
	stage     stage
	Begun     bool          // the first sync of this start has ended well
	try       int           // plans discarded in this sync
	failures  int           // consecutive failed syncs
	retryAt   time.Time     // in stage retrying, and after a failed first sync
	endedAt   time.Time     // of the last sync
	longest   time.Duration // maximum wait after a failed sync; 0: none

	epoch       epochs // when the observation began
	View        view
	Planning    planning
	planErr     error           // of the plan for devices, while the one for bandwidth is executed
	fresh       map[string]bool // servers that had just claimed their devices when the plan was made
	generations map[provider.ID]int
	step        int // of the plan, in stage writing

	missing  map[resource.ConsumerID]missingAllocation // at the last sync, by holder
	warnings map[provider.ID]string                    // about changes of providers that guests use

	Dry     bool // only plan: write nothing
	Planned bool // with dry: planning is the result
}

// missingAllocation is a server whose devices were not in its allocation at a sync.
type missingAllocation struct {
	want       host.Server // its assignment then
	heartbeats int         // heartbeats of the assignments then
	seenTwice  bool        // also at an earlier sync with the same assignment
}

// view is what an observation means: the input of package survey, and the rest.
type view struct {
	facts    survey.Facts // without Held
	kinds    []kindOfHost // other kinds of devices
	offers   []device.Offer
	present  []pci.Device // the host's devices, of all kinds
	guests   []hypervisor.Guest
	Problems []condition.Condition // of the host
	noDisks  string                // why disks cannot be moved between this host and others; empty: they can
	identity journal.Identity
	cells    []numa.Cell
	nodes    numa.Topology
	adopted  string // a sentence, when Placement's root provider differs from the journal's
}

// planning is a plan with the input that it was made from.
type planning struct {
	Plan     treeplan.Plan
	aim      treeplan.Aim
	uses     treeplan.Uses
	owned    treeplan.OwnedSet
	Notes    []survey.Note
	kinds    []kindOfHost                     // other kinds of devices
	disabled map[provider.ID]resource.Amounts // devices to reserve, because they are disabled
	reserved map[provider.ID]int              // devices that were reserved for that reason
	// of package survey, without the providers of other kinds
	host      provider.Tree
	hostNotes []survey.Note
	// heartbeats of the assignments when it was begun
	heartbeats int
	held       map[resource.ConsumerID]placement.ConsumerAllocation // of the consumers with a missing allocation
}

// bandwidthSync is the part of a sync for bandwidth providers. They may be in the trees of several roots. Their plan is
// separate from that for devices: neither prevents the other. The syncer calls it and makes the observations.
type bandwidthSync struct {
	*state.Core
	// The plan, and what it was made from.
	aim        treeplan.Bandwidth
	trees      provider.Tree // of all roots that were read
	plan       treeplan.Plan
	notReached map[string]string // why a root is not available, by hypervisor name
	unread     bool              // a tree could not be read
	findings   []string          // about interfaces

	writes   bandwidthWrites
	failures int                          // consecutive syncs with a failure
	Synced   map[bandwidth.AgentType]bool // whether Placement has all; without an attempt: no entry
}

// bandwidthWrites is the progress of a plan for bandwidth.
type bandwidthWrites struct {
	step        int
	generations map[provider.ID]int
	failed      map[bandwidth.AgentType]bool // of providers with a failed step
	missing     map[provider.ID]bool         // not created, so that further steps of them are left out
	errors      []string
	conflict    bool // another client has written meanwhile
}

// bandwidthTries is how often the plan for bandwidth is discarded because another client wrote to a provider, before a
// longer wait.
const bandwidthTries = 10

// NewSyncer returns a syncer before the first sync.
func NewSyncer(c *state.Core) *Syncer {
	return &Syncer{Core: c, warnings: map[provider.ID]string{},
		Bandwidth: &bandwidthSync{Core: c, Synced: map[bandwidth.AgentType]bool{}}}
}
