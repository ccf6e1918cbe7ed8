package condition

import (
	"cmp"
	"maps"
	"slices"
)

// Level is how bad a condition is.
type Level string

// The levels.
const (
	Info    Level = "info"    // it ends by itself, or an operator wants it
	Warning Level = "warning" // a part of the host is not used, or not as it should be; the rest works
	Error   Level = "error"   // the host gets no server, or a part of it has failed
)

// Levels has all levels, the least bad first.
var Levels = []Level{Info, Warning, Error}

// Compare returns a negative number if the level is less bad than another one, and a positive one if it is worse. An
// empty level is the least bad one.
func (l Level) Compare(other Level) int { return slices.Index(Levels, l) - slices.Index(Levels, other) }

// Valid reports whether there is such a level.
func (l Level) Valid() bool { return slices.Contains(Levels, l) }

// Kind is what sort of problem a condition is. Users can match it; texts change.
type Kind string

// The kinds that agents report.
const (
	Assignments      Kind = "assignments"       // compute's assignments are not followed
	Bandwidth        Kind = "bandwidth"         // what Placement has of guaranteed bandwidth is not what is configured
	ChangedProvider  Kind = "changed_provider"  // a provider of which a guest holds something has changed
	Clean            Kind = "clean"             // a used device is not cleaned
	Configuration    Kind = "configuration"     // a file of the configuration is not in force
	Disable          Kind = "disable"           // a request to disable a device is not valid
	FailedDevice     Kind = "failed_device"     // a device has failed its health check and is disabled
	Hardware         Kind = "hardware"          // a device or a NUMA node cannot be read
	HealthCheck      Kind = "health_check"      // the health of a device cannot be checked
	Hypervisor       Kind = "hypervisor"        // the hypervisor can build no guests
	HypervisorRemark Kind = "hypervisor_remark" // what operators must know of the hypervisor and its guests
	Identity         Kind = "identity"          // the root provider is another one than before
	Instance         Kind = "instance"          // another agent serves the host
	Journal          Kind = "journal"           // the agent's journal cannot be written
	LostGuest        Kind = "lost_guest"        // the hypervisor has lost a guest or a part of it
	Network          Kind = "network"           // networks or VFs do not have the configuration of their ports
	Plan             Kind = "plan"              // what cannot be reported to Placement, or only in another way
	Restore          Kind = "restore"           // the journal and the guests differ
	ServerFailed     Kind = "server"            // the agent cannot do what is assigned for a server
	Sync             Kind = "sync"              // the host cannot be reported to Placement
	Transfer         Kind = "transfer"          // an image or a disk is being copied
	UnassignedGuest  Kind = "unassigned_guest"  // a guest that compute's assignments do not mention
	UnknownDevice    Kind = "unknown_device"    // a server holds a device of which nothing else is known
	VFs              Kind = "vfs"               // a free card does not have its VFs again
)

// The kinds that compute adds.
const (
	Dead               Kind = "dead"                // an operator has declared the host dead
	Differences        Kind = "differences"         // a periodic audit has found differences between services
	Disabled           Kind = "disabled"            // an operator has disabled the host
	ForeignAllocations Kind = "foreign_allocations" // consumers hold resources of the host and are not placed there
	MissingAllocations Kind = "missing_allocations" // Placement lacks allocations of servers on the host
	NotFollowing       Kind = "not_following"       // the agent has not followed assignments in time
	StartFailed        Kind = "start_failed"        // the agent cannot report the host since its start
)

// The kinds of hosts of Nova.
const (
	NoHypervisor  Kind = "no_hypervisor"  // compute has no hypervisor with the name of the root provider
	NoProvider    Kind = "no_provider"    // a hypervisor has no provider in Placement
	OtherProvider Kind = "other_provider" // the hypervisor has another id than the root provider
	OverCapacity  Kind = "over_capacity"  // more is allocated than there is
)

// levels are the levels of all kinds.
var levels = map[Kind]Level{
	Assignments:        Error,
	Bandwidth:          Warning,
	ChangedProvider:    Warning,
	Clean:              Warning,
	Configuration:      Warning,
	Disable:            Warning,
	FailedDevice:       Error,
	Hardware:           Warning,
	HealthCheck:        Warning,
	Hypervisor:         Error,
	HypervisorRemark:   Warning,
	Identity:           Warning,
	Instance:           Error,
	Journal:            Error,
	LostGuest:          Warning,
	Network:            Warning,
	Plan:               Warning,
	Restore:            Warning,
	ServerFailed:       Warning,
	Sync:               Error,
	Transfer:           Info,
	UnassignedGuest:    Warning,
	UnknownDevice:      Warning,
	VFs:                Warning,
	Dead:               Error,
	Differences:        Warning,
	Disabled:           Info,
	ForeignAllocations: Warning,
	MissingAllocations: Error,
	NotFollowing:       Error,
	StartFailed:        Error,
	NoHypervisor:       Warning,
	NoProvider:         Error,
	OtherProvider:      Error,
	OverCapacity:       Warning,
}

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Sorted(maps.Keys(levels)) }

// Level returns the level of a kind. That of an unknown one is Warning.
func (k Kind) Level() Level { return cmp.Or(levels[k], Warning) }
