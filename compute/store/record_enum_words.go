package store

import (
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
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

// stages are the states of a server and the phases of its move. A server that moves is stored with the phase; a phase
// with the meaning of a state has the same word.
var stages = words[stage]{
	{stage(lifecycle.Preparing), "preparing"},
	{stage(lifecycle.Scheduling), "scheduling"},
	{stage(lifecycle.Planning), "planning"},
	{stage(lifecycle.MovingAllocations), "moving_allocations"},
	{stage(lifecycle.AwaitingSourceAck), "awaiting_source_ack"},
	{stage(lifecycle.Claiming), "claiming"},
	{stage(lifecycle.AwaitingMinCount), "awaiting_min_count"},
	{stage(lifecycle.StoppingSource), "stopping_source"},
	{stage(lifecycle.PreLiveMigration), "pre_live_migration"},
	{stage(lifecycle.LiveMigrating), "live_migrating"},
	{stage(lifecycle.Spawning), "spawning"},
	{stage(lifecycle.Active), "active"},
	{stage(lifecycle.Resized), "resized"},
	{stage(lifecycle.Rescheduling), "rescheduling"},
	{stage(lifecycle.Failing), "failing"},
	{stage(lifecycle.Error), "error"},
	{stage(lifecycle.Reverting), "reverting"},
	{stage(lifecycle.ReleasingDestination), "releasing_destination"},
	{stage(lifecycle.RestoringAllocations), "restoring_allocations"},
	{stage(lifecycle.RevertBlocked), "revert_blocked"},
	{stage(lifecycle.Shelving), "shelving"},
	{stage(lifecycle.Offloading), "offloading"},
	{stage(lifecycle.Shelved), "shelved"},
	{stage(lifecycle.DeletingGuest), "deleting_guest"},
	{stage(lifecycle.DeletingAllocation), "deleting_allocation"},
	{stage(lifecycle.DeletedAwaitingCleanup), "deleted_awaiting_cleanup"},
	{stage(lifecycle.Deleted), stateDeleted},
	{stage(lifecycle.BindingPorts), "binding_ports"},
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
	{lifecycle.ShelvingPendingUpload, "shelving_image_pending_upload"},
	{lifecycle.ShelvingUploading, "shelving_image_uploading"},
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

// stage is what lifecycle.Server.Stage returns.
type stage string

// The types of fields with one of these words. The zero value of each is stored as no field.
type (
	storedState stage
	storedTask  lifecycle.Task
	storedKind  lifecycle.Kind
	storedPower lifecycle.Power
)

// MarshalText returns the stored word of the state or phase.
func (s storedState) MarshalText() ([]byte, error) { return stages.text(stage(s)) }

// UnmarshalText reads a stored word.
func (s *storedState) UnmarshalText(text []byte) error {
	value, err := stages.value(text)
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
