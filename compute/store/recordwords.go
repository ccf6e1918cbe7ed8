package store

import (
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

// word is a value in Go and the text that is stored for it.
type word[T comparable] struct {
	value  T
	stored string
}

// words are the stored texts of all values of one type. They are the same in every database: if a value gets another
// name in Go, its stored text does not change.
type words[T comparable] []word[T]

// text returns the stored text of a value. The zero value has an empty one.
func (w words[T]) text(value T) ([]byte, error) {
	var none T
	if value == none {
		return nil, nil
	}
	for _, one := range w {
		if one.value == value {
			return []byte(one.stored), nil
		}
	}
	return nil, fmt.Errorf("there is no stored word for the %T %v", value, value)
}

// value returns the value for a stored text. An empty text is the zero value.
func (w words[T]) value(stored []byte) (T, error) {
	for _, one := range w {
		if one.stored == string(stored) {
			return one.value, nil
		}
	}
	var none T
	if len(stored) == 0 {
		return none, nil
	}
	return none, fmt.Errorf("%q is not a known %T", stored, none)
}

// states are the states of a server.
var states = words[lifecycle.State]{
	{lifecycle.Scheduling, "scheduling"},
	{lifecycle.Planning, "planning"},
	{lifecycle.MovingAllocations, "moving_allocations"},
	{lifecycle.AwaitingSourceAck, "awaiting_source_ack"},
	{lifecycle.Claiming, "claiming"},
	{lifecycle.AwaitingMinCount, "awaiting_min_count"},
	{lifecycle.StoppingSource, "stopping_source"},
	{lifecycle.PreLiveMigration, "pre_live_migration"},
	{lifecycle.LiveMigrating, "live_migrating"},
	{lifecycle.Spawning, "spawning"},
	{lifecycle.Active, "active"},
	{lifecycle.Resized, "resized"},
	{lifecycle.Rescheduling, "rescheduling"},
	{lifecycle.Failing, "failing"},
	{lifecycle.Error, "error"},
	{lifecycle.Reverting, "reverting"},
	{lifecycle.ReleasingDestination, "releasing_destination"},
	{lifecycle.RestoringAllocations, "restoring_allocations"},
	{lifecycle.RevertBlocked, "revert_blocked"},
	{lifecycle.Shelving, "shelving"},
	{lifecycle.Offloading, "offloading"},
	{lifecycle.Shelved, "shelved"},
	{lifecycle.DeletingGuest, "deleting_guest"},
	{lifecycle.DeletingAllocation, "deleting_allocation"},
	{lifecycle.DeletedAwaitingCleanup, "deleted_awaiting_cleanup"},
	{lifecycle.Deleted, stateDeleted},
}

// stateDeleted is the stored word for a server without resources. Statements contain it, and version 1 used it too.
const stateDeleted = "deleted"

// statesOfVersion1 are the words of version 1 that version 2 has replaced.
var statesOfVersion1 = map[string]string{
	"rekeying":    "moving_allocations",
	"handing":     "awaiting_source_ack",
	"mustering":   "awaiting_min_count",
	"halting":     "stopping_source",
	"receiving":   "pre_live_migration",
	"crossing":    "live_migrating",
	"assigned":    "spawning",
	"retreating":  "rescheduling",
	"undoing":     "releasing_destination",
	"restoring":   "restoring_allocations",
	"stranded":    "revert_blocked",
	"unassigning": "deleting_guest",
	"releasing":   "deleting_allocation",
	"lingering":   "deleted_awaiting_cleanup",
}

// upgradeState returns the word of version 2 for a state of version 1.
func upgradeState(old string) string {
	if renamed, there := statesOfVersion1[old]; there {
		return renamed
	}
	return old
}

// tasks are OpenStack's task states that a record may have.
var tasks = words[lifecycle.Task]{
	{lifecycle.PoweringOff, "powering-off"},
	{lifecycle.PoweringOn, "powering-on"},
	{lifecycle.Rebooting, "rebooting"},
	{lifecycle.RebootingHard, "rebooting_hard"},
	{lifecycle.RebootStarted, "reboot_started"},
	{lifecycle.RebootStartedHard, "reboot_started_hard"},
	{lifecycle.Rebuilding, "rebuilding"},
	{lifecycle.ResizeReverting, "resize_reverting"},
	{lifecycle.MigratingLive, "migrating"},
}

// kinds are the kinds of moves, as the Compute API names them.
var kinds = words[lifecycle.Kind]{
	{lifecycle.Resizing, "resize"},
	{lifecycle.Migrating, "migration"},
	{lifecycle.LiveMigration, "live-migration"},
	{lifecycle.Evacuating, "evacuation"},
}

// powers are the desired power states; On is stored as no field.
var powers = words[lifecycle.Power]{
	{lifecycle.Off, "off"},
}

// The types of fields with one of these words. The zero value of each is stored as no field.
type (
	storedState lifecycle.State
	storedTask  lifecycle.Task
	storedKind  lifecycle.Kind
	storedPower lifecycle.Power
)

// MarshalText returns the stored word of the state.
func (s storedState) MarshalText() ([]byte, error) { return states.text(lifecycle.State(s)) }

// UnmarshalText reads a stored word.
func (s *storedState) UnmarshalText(text []byte) error {
	value, err := states.value(text)
	*s = storedState(value)
	return err
}

// MarshalText returns the stored word of the task state.
func (s storedTask) MarshalText() ([]byte, error) { return tasks.text(lifecycle.Task(s)) }

// UnmarshalText reads a stored word.
func (s *storedTask) UnmarshalText(text []byte) error {
	value, err := tasks.value(text)
	*s = storedTask(value)
	return err
}

// MarshalText returns the stored word of the kind of move.
func (s storedKind) MarshalText() ([]byte, error) { return kinds.text(lifecycle.Kind(s)) }

// UnmarshalText reads a stored word.
func (s *storedKind) UnmarshalText(text []byte) error {
	value, err := kinds.value(text)
	*s = storedKind(value)
	return err
}

// MarshalText returns the stored word of the desired power.
func (s storedPower) MarshalText() ([]byte, error) { return powers.text(lifecycle.Power(s)) }

// UnmarshalText reads a stored word.
func (s *storedPower) UnmarshalText(text []byte) error {
	value, err := powers.value(text)
	*s = storedPower(value)
	return err
}

// address stores a PCI address as text, such as 0000:3b:00.1.
type address pci.Address

// MarshalText prints the address.
func (a address) MarshalText() ([]byte, error) { return []byte(pci.Address(a).String()), nil }

// UnmarshalText parses an address.
func (a *address) UnmarshalText(text []byte) error {
	parsed, err := pci.ParseAddress(string(text))
	*a = address(parsed)
	return err
}
