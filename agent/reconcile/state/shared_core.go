// Package state is what the parts of the agent's state machine share: the configuration, the events and effects, the
// journal that waits to be written, and what is known of the host, its guests and its assignments. Packages sync and
// guests decide on it and do not see each other; package reconcile connects them.
package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Core is the state that all components of the state machine share.
type Core struct {
	Config Config
	Now    time.Time
	Out    []Effect
	journalQueue
	Start start
	observed
	followed

	Down       string                           // why the hypervisor can build no guests; empty: it can
	Conditions map[string][]condition.Condition // by kind and subject
	Hypervisor string                           // Nova's hypervisor_type; empty: not yet known
	Version    int                              // of the host report; counts its changes
	Delivered  int                              // version of the host report that compute has; -1: none
	WantSync   bool                             // a sync must begin
	Syncs      Syncs                            // how many have begun since the start
	Postponed  map[resource.ConsumerID]bool     // their devices delay the creation of a provider; of the last plan
	Wake       bool                             // work may be due
	Freed      bool                             // devices were freed: servers that wait for devices can try again
	ReleasedAt time.Time                        // when devices were last freed whose release the next plans need
}

// observed is the last observation, and what has changed since.
type observed struct {
	Root       provider.ID   // empty until known
	Tree       provider.Tree // as last read from or written to Placement
	Set        device.Set
	Restored   bool
	Scanned    []pci.Device                // of the last sync, for devices that cannot be read now
	Cells      []numa.Cell                 // of the last sync, without the usage of guests
	Nodes      numa.Topology               // of the last sync
	Guests     map[string]hypervisor.Guest // existing guests, by id
	NoDisks    string                      // why disks cannot be moved between this host and others; empty: they can
	GuestEpoch int                         // counts builds and removals of guests
	Conflicts  []ClaimConflict             // journal against guests
	VFEpoch    int                         // counts changes of the VFs of PFs
	Restoring  map[device.ID]bool          // PFs of a RestoreVFs in progress

	// of the capacity of the hypervisor; empty before the first observation
	DiskImages, NoDiskImages string
	MoveAddress              string

	LateAtStart map[string]bool // guests that existed at the start and whose servers were removed here before
}

// Syncs numbers the syncs with Placement from 1 on.
type Syncs struct {
	Begun int // the last one that has begun
	Whole int // the last one whose whole plan for devices is in Placement
}

// NewCore returns the state before the first event, with the content of the journal.
func NewCore(config Config, found journal.State) *Core {
	return &Core{Config: config, journalQueue: journalQueue{State: found, Durable: found}, Delivered: -1,
		Conditions: map[string][]condition.Condition{},
		observed: observed{Guests: map[string]hypervisor.Guest{}, LateAtStart: map[string]bool{},
			Restoring: map[device.ID]bool{}},
		followed: followed{ReportedRemovals: map[string]RemovalVersion{}, Confirmed: map[string]host.Server{},
			NewlyClaimed: map[string]bool{}, Acked: map[string]Outcome{}, UnreportedFailures: map[string]Outcome{}}}
}

// Do returns an effect from Next, at once.
func (c *Core) Do(e Effect) { c.Out = append(c.Out, e) }

// DoAfterWrite returns an effect from Next when everything decided so far is in the journal.
func (c *Core) DoAfterWrite(e Effect) {
	if !c.hold(e) {
		c.Do(e)
	}
}

// Log adds the effect that writes a message to the log.
func (c *Core) Log(message string, attrs ...any) { c.Do(Log{Message: message, Attrs: attrs}) }

// Warn is Log for a warning.
func (c *Core) Warn(message string, attrs ...any) {
	c.Do(Log{Warn: true, Message: message, Attrs: attrs})
}

// ReportChanged records that the host report has changed.
func (c *Core) ReportChanged() { c.Version++ }

// Condition replaces the conditions of one kind and subject, which are one sentence each; see SetConditions.
func (c *Core) Condition(kind condition.Kind, subject string, sentences ...string) {
	var list []condition.Condition
	for _, text := range sentences {
		list = append(list, condition.New(kind, subject, text))
	}
	SetConditions(c, strings.TrimSpace(string(kind)+" "+subject), list)
}

// SetConditions replaces the conditions with one key, and logs new ones. The key is their kind, if they are all of it.
func SetConditions(c *Core, key string, list []condition.Condition) {
	if slices.Equal(c.Conditions[key], list) {
		return
	}
	for _, one := range list {
		if !slices.Contains(c.Conditions[key], one) {
			c.Warn(one.Text, "about", key)
		}
	}
	c.Conditions[key] = list
	if len(list) == 0 {
		delete(c.Conditions, key)
	}
	c.ReportChanged()
}

// Backoff returns the wait after a number of failures: 200 ms, doubled for each further one up to Times.Retry, of which
// the second half is random.
func (c *Core) Backoff(failures int) time.Duration {
	return backoff.Exponential{First: 200 * time.Millisecond, Max: cmp.Or(c.Config.Times.Retry, 15*time.Second),
		Jitter: backoff.UpperHalf(c.Config.Jitter)}.Wait(failures)
}

// Earlier returns the earlier of two times, of which a zero one does not count.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// start identifies this start of the agent to compute.
type start struct {
	Instance string   // id of this agent; journalled with the identity
	id       string   // of this process
	Ids      []string // of this process and of earlier ones that compute has not acknowledged
	Number   int64    // number of starts with this journal; journalled with the identity
	sequence int64    // firstSequence plus the number of guest reports since this start
}

// ClaimConflict is a claim of the journal on a device that another guest has, as after the journal was restored from a
// backup.
type ClaimConflict struct {
	Server   string // that has the device according to the journal
	Device   device.ID
	Sentence string
}

// Assigned reports whether the assignments name a guest, as a server or for removal.
func (c *Core) Assigned(id string) bool {
	_, wanted := c.Assignments.Servers[id]
	_, named := c.Assignments.Remove[id]
	return wanted || named || c.formerName(id)
}

// ForgetEntries deletes the journal's entries of servers.
func (c *Core) ForgetEntries(ids ...string) {
	for _, id := range ids {
		if c.State.Has(id) {
			c.Record(journal.Removed(id, c.Now))
		}
	}
}

// IsLate reports whether a guest appears after its server was removed here: a request to build it whose answer was lost
// was executed afterwards.
func IsLate(c *Core, id string) bool {
	g, there := c.Guests[id]
	return there && !g.Departed && (c.State.Ended(id) || c.LateAtStart[id]) && !c.Assigned(id)
}

// formerName reports whether a removal names this id as the guest's former one.
func (c *Core) formerName(id string) bool {
	for _, r := range c.Assignments.Remove {
		if r.PreviousID == id {
			return true
		}
	}
	return false
}

// WriteIdentity records the identity if it differs from the journal's.
func (c *Core) WriteIdentity(id journal.Identity) {
	if known, _ := c.State.Identity(); known != id {
		c.Record(id.Entry())
	}
}
