package reconcile

import (
	"time"

	"github.com/openberth/berth/api/host"
)

// followed is the desired state from compute, and what compute has confirmed.
type followed struct {
	assignments        assignments
	epochRead          string                    // epoch of the last assignments received, accepted or not
	notFollowed        string                    // why compute's assignments are not followed; empty: they are followed
	acknowledged       host.Position             // the newest assignments that compute knows to be followed
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

// assignments are the last assignments of compute that were accepted.
type assignments struct {
	received   bool
	heartbeats int // number of messages received, repetitions included
	receivedAt time.Time
	position   host.Position
	servers    map[string]host.Server
	remove     map[string]host.Removal
}

func (a assignments) version(r host.Removal) removalVersion { return removalVersion{a.position, r} }

// removalVersion identifies one request for a removal: compute repeats it at each revision until it receives the
// result.
type removalVersion struct {
	position host.Position
	removal  host.Removal
}
