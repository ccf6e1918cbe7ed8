package lifecycle

import (
	"fmt"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
)

// moveEvent is something that happened to a move. The server machine derives it from an Event and its own record.
type moveEvent interface{ moveEvent() }

// The events of the search for a destination.
type (
	askPrepared  struct{ text string } // the request to Placement is built
	choicesFound struct{}              // there is a choice to claim
	choicesLost  struct{ text string } // all are lost; another round of candidates is permitted
	searchEnded  struct{ text string } // the move must be given up

	destinationClaimed struct {
		host string
		off  bool // the desired power state of the guest
	}
	destinationReleased struct{}
	portsBound          struct{ host string } // to the destination
)

// The events at the destination.
type (
	destinationPrepared struct{ host string } // its agent has picked the devices for the live migration
	destinationArrived  struct{}              // the guest exists there in the desired power state
	destinationFailed   struct {
		host, message string
		lastReason    string // why the move must be given up if the guest must be built elsewhere; empty: try another host
	}
	destinationGone struct{ host, why string }
	destinationDead struct{ host, lastReason string } // declared by an operator
)

// The events at the source.
type (
	sourceReported struct { // the guest exists there
		devices []schedule.Picked
		cells   []numa.Placed
		built   bool   // its power state is reported too
		stopped bool   // it does not run
		refused bool   // the hypervisor refuses to stop it
		message string // why it refuses
		to      string // the destination
	}
	sourceMigrated struct{ to string }
	sourceFailed   struct {
		message  string
		prepared bool // the agent of the destination has reported the guest
	}
	sourceGone struct{}
	sourceDead struct { // declared by an operator
		to       string // the destination
		prepared bool   // the agent of the destination has reported the guest
	}
)

// The results of the steps that only a move has, and the requests of users and operators.
type (
	allocationsMoved    struct{ deleted bool } // the deletion of the server is requested
	allocationsRestored struct {
		deleted bool
		off     bool // the desired power state of the guest
	}
	restoreRefused struct {
		text, reason string
		deleted      bool
	}
	moveConfirmed  struct{}
	moveReverted   struct{ host string } // the destination
	restoreRetried struct{}
	moveCancelled  struct{} // the deletion of the server is requested
	moveAborted    struct { // a live migration
		prepared bool // the agent of the destination has reported the guest
	}
	moveForced struct{} // a live migration
)

func (askPrepared) moveEvent()         {}
func (portsBound) moveEvent()          {}
func (choicesFound) moveEvent()        {}
func (choicesLost) moveEvent()         {}
func (searchEnded) moveEvent()         {}
func (destinationClaimed) moveEvent()  {}
func (destinationReleased) moveEvent() {}
func (destinationPrepared) moveEvent() {}
func (destinationArrived) moveEvent()  {}
func (destinationFailed) moveEvent()   {}
func (destinationGone) moveEvent()     {}
func (destinationDead) moveEvent()     {}
func (sourceReported) moveEvent()      {}
func (sourceMigrated) moveEvent()      {}
func (sourceFailed) moveEvent()        {}
func (sourceGone) moveEvent()          {}
func (sourceDead) moveEvent()          {}
func (allocationsMoved) moveEvent()    {}
func (allocationsRestored) moveEvent() {}
func (restoreRefused) moveEvent()      {}
func (moveConfirmed) moveEvent()       {}
func (moveReverted) moveEvent()        {}
func (restoreRetried) moveEvent()      {}
func (moveCancelled) moveEvent()       {}
func (moveAborted) moveEvent()         {}
func (moveForced) moveEvent()          {}

// moveEffect is a change of the server that follows from a transition of its move.
type moveEffect interface{ moveEffect() }

type (
	addEntry       string                         // adds an entry to the history
	setStatus      string                         // sets the status of the migration as operators see it
	setTask        Task                           // sets the task in progress
	setFault       string                         // sets the fault, and adds it to the history; empty: removes it
	claimChoice    struct{}                       // begins the claim of the first choice
	dropChoices    struct{}                       // removes the choices
	hostFailed     struct{ host, message string } // excludes a host from the next rounds
	leaveSource    struct{}                       // ends the move: the server is at the destination, the source a leftover
	returnToSource struct{}                       // ends the move: the server is at the source
)

func (addEntry) moveEffect()       {}
func (setStatus) moveEffect()      {}
func (setTask) moveEffect()        {}
func (setFault) moveEffect()       {}
func (claimChoice) moveEffect()    {}
func (dropChoices) moveEffect()    {}
func (hostFailed) moveEffect()     {}
func (leaveSource) moveEffect()    {}
func (returnToSource) moveEffect() {}

// entry returns the effect that adds a formatted entry to the history.
func entry(format string, args ...any) moveEffect { return addEntry(fmt.Sprintf(format, args...)) }
