package state

import (
	"time"

	"github.com/openberth/berth/api/host"
)

// followed is the desired state from compute, and what compute has confirmed.
type followed struct {
	Assignments        Assignments
	EpochRead          string                    // epoch of the last assignments received, accepted or not
	NotFollowed        string                    // why compute's assignments are not followed; empty: they are followed
	Acknowledged       host.Position             // the newest assignments that compute knows to be followed
	Fenced             bool                      // another agent serves the host, until compute accepts a report
	ReportedRemovals   map[string]RemovalVersion // removals that compute has confirmed
	Confirmed          map[string]host.Server    // servers whose assignment compute has confirmed, as assigned then
	NewlyClaimed       map[string]bool           // their allocations may be missing in Placement
	Acked              map[string]Outcome
	UnreportedFailures map[string]Outcome
}

// Outcome is the phase that a server reached for one assignment.
type Outcome struct {
	Want    host.Server
	Phase   host.Phase
	Message string
}

// Assignments are the last assignments of compute that were accepted.
type Assignments struct {
	Received   bool
	Heartbeats int // number of messages received, repetitions included
	ReceivedAt time.Time
	Position   host.Position
	Servers    map[string]host.Server
	Remove     map[string]host.Removal
}

// Version returns the version of a removal that the assignments name.
func (a Assignments) Version(r host.Removal) RemovalVersion { return RemovalVersion{a.Position, r} }

// RemovalVersion identifies one request for a removal: compute repeats it at each revision until it receives the
// result.
type RemovalVersion struct {
	position host.Position
	removal  host.Removal
}
