package reconcile

import (
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// Config is the configuration of an agent.
type Config struct {
	Host              string // hypervisor hostname, and the name of the root provider
	Dir               string // of the journal, for messages
	Rules             pci.Rules
	ReportInPlacement bool
	CPUs              CPUs
	Machine           Machine

	Rescan   time.Duration  // interval between two syncs
	Parallel int            // maximum number of concurrent builds
	NewID    func() string  // returns UUIDs
	Jitter   func() float64 // returns 0 to 1
}

// Machine identifies where an agent runs. Empty fields are unknown.
type Machine struct {
	ID string // machine-id(5): of the installed system, also in a copy of it
	// boot, process namespace and lock directory: two processes of one place exclude each other by the lock of the
	// host's name
	Place string
}

// core is the state that all parts of the machine use.
type core struct {
	config Config
	now    time.Time
	out    []Effect
	ledger
	start start
	observed
	followed

	conditions map[string][]string // by source
	version    int                 // of the host report; counts its changes
	delivered  int                 // version of the host report that compute has; -1: none
	wantSync   bool                // a sync must begin
	wake       bool                // work may be due
	freed      bool                // devices were freed: servers that wait for devices can try again
}

// start identifies this start of the agent to compute.
type start struct {
	instance string   // id of this agent; journalled with the identity
	id       string   // of this process
	ids      []string // of this process and of earlier ones that compute has not acknowledged
	number   int64    // number of starts with this journal; journalled with the identity
	sequence int64    // number of guest reports since this start
}

// observed is the last observation, and what has changed since.
type observed struct {
	root       provider.ID   // empty until known
	tree       provider.Tree // as last read from or written to Placement
	set        device.Set
	restored   bool
	scanned    []pci.Device                // of the last sync, for devices that cannot be read now
	cells      []numa.Cell                 // of the last sync, without the usage of guests
	guests     map[string]hypervisor.Guest // existing guests, by id
	guestEpoch int                         // counts builds and removals of guests
	conflicts  []claimConflict             // journal against guests
}

// followed is what compute requires, and what it has confirmed.
type followed struct {
	assignments        assignments
	epochRead          string                    // epoch of the last assignments received, accepted or not
	notFollowed        string                    // why compute's assignments are not followed; empty: they are followed
	fenced             bool                      // another agent serves the host, until compute accepts a report
	reportedRemovals   map[string]removalVersion // removals that compute has confirmed
	confirmed          map[string]host.Server    // servers whose assignment compute has confirmed, as assigned then
	newlyClaimed       map[string]bool           // their allocations may be missing in Placement
	acked              map[string]outcome
	unreportedFailures map[string]outcome
}

// outcome is the phase that a server reached for one assignment.
type outcome struct {
	want    host.Server
	phase   host.Phase
	message string
}

// do returns an effect from Next, at once.
func (c *core) do(e Effect) { c.out = append(c.out, e) }

// doAfterWrite returns an effect from Next when everything decided so far is in the journal.
func (c *core) doAfterWrite(e Effect) {
	if !c.hold(e) {
		c.do(e)
	}
}

func (c *core) log(message string, attrs ...any) { c.do(Log{Message: message, Attrs: attrs}) }
func (c *core) warn(message string, attrs ...any) {
	c.do(Log{Warn: true, Message: message, Attrs: attrs})
}

// reportChanged records that the host report has changed.
func (c *core) reportChanged() { c.version++ }

// condition replaces the conditions of one source, and logs new ones.
func (c *core) condition(source string, sentences ...string) {
	if slices.Equal(c.conditions[source], sentences) {
		return
	}
	for _, s := range sentences {
		c.warn(s, "about", source)
	}
	c.conditions[source] = sentences
	if len(sentences) == 0 {
		delete(c.conditions, source)
	}
	c.reportChanged()
}

// backoff returns the wait after a number of failures: 200 ms, doubled for each further one up to 15 s, of which the
// second half is random.
func (c *core) backoff(failures int) time.Duration {
	return backoff.Exponential{First: 200 * time.Millisecond, Max: 15 * time.Second,
		Jitter: backoff.UpperHalf(c.config.Jitter)}.Wait(failures)
}

// writeIdentity records the identity if it differs from the journal's.
func (c *core) writeIdentity(id journal.Identity) {
	if known, _ := c.state.Identity(); known != id {
		c.record(id.Entry())
	}
}

// sender returns how this start of the agent identifies itself to compute.
func (c *core) sender() host.Sender {
	from := host.Sender{Instance: c.start.instance, Start: c.start.id, ProcessSpace: c.config.Machine.Place}
	for _, id := range c.start.ids {
		if id != c.start.id {
			from.Previous = append(from.Previous, id)
		}
	}
	return from
}

// claimConflict is a claim of the journal that contradicts what a guest runs with, as after a journal was restored
// from a backup.
type claimConflict struct {
	server   string // that has the device according to the journal
	device   device.ID
	sentence string
}

// assignments are the last assignments of compute that were accepted.
type assignments struct {
	received   bool
	heartbeats int // number of messages received, repetitions included
	receivedAt time.Time
	position   host.Position
	servers    map[string]host.Server
	remove     map[string]host.Removal
}

// removalVersion identifies one request for a removal: compute repeats it at each revision until it receives the
// result.
type removalVersion struct {
	position host.Position
	removal  host.Removal
}

func (a assignments) version(r host.Removal) removalVersion { return removalVersion{a.position, r} }

// usedCells returns the host's cells with the usage of all guests in the journal except one, and the ids of those
// guests.
func (c *core) usedCells(but string) (cells []numa.Cell, counted []string) {
	cells = c.cells
	state := c.state
	for _, id := range state.Servers() {
		parts, placed := readCells(state.Cells(id))
		if id == but || len(parts) == 0 {
			continue
		}
		cells, counted = numa.Use(cells, parts, placed), append(counted, id)
	}
	return cells, counted
}

// earlier returns the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// assigned reports whether the assignments name a guest, as a server or for removal.
func (c *core) assigned(id string) bool {
	_, wanted := c.assignments.servers[id]
	_, named := c.assignments.remove[id]
	return wanted || named || c.formerName(id)
}

// formerName reports whether a removal names this id as the guest's former one.
func (c *core) formerName(id string) bool {
	for _, r := range c.assignments.remove {
		if r.PreviousID == id {
			return true
		}
	}
	return false
}
