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
	"github.com/openberth/berth/resource"
)

// core is the state that all components of the state machine share.
type core struct {
	config Config
	now    time.Time
	out    []Effect
	journalQueue
	start start
	observed
	followed

	down       string                       // why the hypervisor can build no guests; empty: it can
	conditions map[string][]string          // by source
	hypervisor string                       // Nova's hypervisor_type; empty: not yet known
	version    int                          // of the host report; counts its changes
	delivered  int                          // version of the host report that compute has; -1: none
	wantSync   bool                         // a sync must begin
	postponed  map[resource.ConsumerID]bool // their devices delay the creation of a provider; of the last plan
	wake       bool                         // work may be due
	freed      bool                         // devices were freed: servers that wait for devices can try again
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
	noDisks    string                      // why disks cannot be moved between this host and others; empty: they can
	guestEpoch int                         // counts builds and removals of guests
	conflicts  []claimConflict             // journal against guests

	// of the capacity of the hypervisor; empty before the first observation
	diskImages, noDiskImages string

	lateAtStart map[string]bool // guests that existed at the start and whose servers were removed here before
}

// newCore returns the state before the first event, with the content of the journal.
func newCore(config Config, found journal.State) *core {
	return &core{config: config, journalQueue: journalQueue{state: found, durable: found}, delivered: -1,
		conditions: map[string][]string{},
		observed:   observed{guests: map[string]hypervisor.Guest{}, lateAtStart: map[string]bool{}},
		followed: followed{reportedRemovals: map[string]removalVersion{}, confirmed: map[string]host.Server{},
			newlyClaimed: map[string]bool{}, acked: map[string]outcome{}, unreportedFailures: map[string]outcome{}}}
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
		if !slices.Contains(c.conditions[source], s) {
			c.warn(s, "about", source)
		}
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

// earlier returns the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// start identifies this start of the agent to compute.
type start struct {
	instance string   // id of this agent; journalled with the identity
	id       string   // of this process
	ids      []string // of this process and of earlier ones that compute has not acknowledged
	number   int64    // number of starts with this journal; journalled with the identity
	sequence int64    // firstSequence plus the number of guest reports since this start
}

// claimConflict is a claim of the journal on a device that another guest has, as after the journal was restored from a
// backup.
type claimConflict struct {
	server   string // that has the device according to the journal
	device   device.ID
	sentence string
}

// assigned reports whether the assignments name a guest, as a server or for removal.
func (c *core) assigned(id string) bool {
	_, wanted := c.assignments.servers[id]
	_, named := c.assignments.remove[id]
	return wanted || named || c.formerName(id)
}

// forgetEntries deletes the journal's entries of servers.
func (c *core) forgetEntries(ids ...string) {
	for _, id := range ids {
		if c.state.Has(id) {
			c.record(journal.Removed(id, c.now))
		}
	}
}

// isLate reports whether a guest appears after its server was removed here: a request to build it whose answer was lost
// was executed afterwards.
func isLate(c *core, id string) bool {
	g, there := c.guests[id]
	return there && !g.Departed && (c.state.Ended(id) || c.lateAtStart[id]) && !c.assigned(id)
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

// writeIdentity records the identity if it differs from the journal's.
func (c *core) writeIdentity(id journal.Identity) {
	if known, _ := c.state.Identity(); known != id {
		c.record(id.Entry())
	}
}
