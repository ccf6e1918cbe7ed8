package lifecycle

// State is the state of a server. While a move is in progress it is Moving, and Move.Phase has the details.
type State string

// The states. The server's own consumer may hold allocations in Placement in the states from Claiming to
// DeletingAllocation, except Shelved.
const (
	Preparing        State = "preparing"          // holds nothing; the request to Placement is built
	Scheduling       State = "scheduling"         // holds nothing; candidates are requested
	Claiming         State = "claiming"           // the first choice is being claimed; the result is not known yet
	AwaitingMinCount State = "awaiting_min_count" // claimed; waiting for the other servers of the request
	BindingPorts     State = "binding_ports"      // claimed; its ports are bound to Host
	Spawning         State = "spawning"           // claimed and in the assignments of Host; its agent builds the guest
	Active           State = "active"             // the guest exists, running or stopped
	Moving           State = "moving"             // a move is in progress; see MovePhase
	// the guest failed on Host: the claim is released, then another host is tried
	Rescheduling State = "rescheduling"
	Failing      State = "failing"    // failed permanently: the claim is released
	Error        State = "error"      // failed; holds nothing
	Shelving     State = "shelving"   // to be shelved; the agent of Host has not reported the guest gone yet
	Offloading   State = "offloading" // to be shelved: the claim is released
	Shelved      State = "shelved"    // shelved; holds nothing
	// to be deleted, not assigned; the agent has not reported the guest gone yet
	DeletingGuest          State = "deleting_guest"
	DeletingAllocation     State = "deleting_allocation"      // to be deleted, no guest left: the claim is released
	DeletedAwaitingCleanup State = "deleted_awaiting_cleanup" // deleted, except for its leftovers on hosts
	Deleted                State = "deleted"                  // holds nothing; kept for queries only
)

// States lists all states except the empty one before Created.
func States() []State {
	return []State{
		Preparing, Scheduling, Claiming, AwaitingMinCount, BindingPorts, Spawning, Active, Moving, Rescheduling,
		Failing, Error,
		Shelving, Offloading, Shelved, DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup, Deleted,
	}
}

// Task is OpenStack's OS-EXT-STS:task_state: the action in progress, or empty.
type Task string

// The tasks. All but those of images end with a report of an agent.
const (
	PoweringOff       Task = "powering-off"
	PoweringOn        Task = "powering-on"
	Rebooting         Task = "rebooting" // the guest must stop first
	RebootingHard     Task = "rebooting_hard"
	RebootStarted     Task = "reboot_started" // the guest has stopped and must start
	RebootStartedHard Task = "reboot_started_hard"
	Pausing           Task = "pausing"
	Unpausing         Task = "unpausing"
	Suspending        Task = "suspending"
	Resuming          Task = "resuming"
	Rescuing          Task = "rescuing"
	Unrescuing        Task = "unrescuing"
	Rebuilding        Task = "rebuilding"
	SoftDeleting      Task = "soft-deleting"
	Restoring         Task = "restoring"
	Unshelving        Task = "unshelving" // the guest is on its host still, and must start
	ResizeReverting   Task = "resize_reverting"
	MigratingLive     Task = "migrating"
	// the server is shelved: the image for its disk is created, then its agent uploads the disk
	ShelvingPendingUpload Task = "shelving_image_pending_upload"
	ShelvingUploading     Task = "shelving_image_uploading"
	// an image gets a copy of the disk: compute creates it, as a snapshot or a backup, then the agent uploads the copy
	ImageSnapshot  Task = "image_snapshot"
	ImageBackup    Task = "image_backup"
	ImageUploading Task = "image_uploading"
)

// copies reports whether an image is made from the disk of a server, whose guest stays as it is.
func (t Task) copies() bool { return t == ImageSnapshot || t == ImageBackup || t == ImageUploading }

// Tasks lists all tasks except the empty one.
func Tasks() []Task {
	return []Task{
		PoweringOff, PoweringOn, Rebooting, RebootingHard, RebootStarted, RebootStartedHard, Pausing, Unpausing, Suspending,
		Resuming, Rescuing, Unrescuing, Rebuilding, SoftDeleting, Restoring, Unshelving, ResizeReverting,
		MigratingLive, ShelvingPendingUpload, ShelvingUploading, ImageSnapshot, ImageBackup, ImageUploading,
	}
}

// Action is an action on a server, as the Compute API names it.
type Action string

// The actions.
const (
	Start    Action = "start"
	Stop     Action = "stop"
	Reboot   Action = "reboot"
	Pause    Action = "pause"
	Unpause  Action = "unpause"
	Suspend  Action = "suspend"
	Resume   Action = "resume"
	Rescue   Action = "rescue"
	Unrescue Action = "unrescue"
	Rebuild  Action = "rebuild"
	Resize   Action = "resize"
	Migrate  Action = "migrate"
	Live     Action = "os-migrateLive"
	Evacuate Action = "evacuate"
	Confirm  Action = "confirmResize"
	Revert   Action = "revertResize"
	Shelve   Action = "shelve"
	Offload  Action = "shelveOffload"
	Unshelve Action = "unshelve"
	Restore  Action = "restore"
	Reset    Action = "os-resetState"
	Snapshot Action = "createImage"
	Backup   Action = "createBackup"
	// of a live migration in progress; they have no keys
	AbortLive Action = "abort live migration"
	ForceLive Action = "force_complete"
)

// Step is an operation on another service that a server needs.
type Step string

// The steps. Each may be repeated, also when its outcome is unknown.
const (
	// build the request to Placement from the flavor and the image → Prepared or Refused
	Prepare  Step = "prepare"
	Schedule Step = "schedule" // request and filter candidates → Chosen, NoValidHost or Refused
	Claim    Step = "claim"    // claim Choices[0] in Placement → Claimed, ClaimLost or Refused
	// bind the ports to Host → PortsBound or PortsNotBound
	BindPorts Step = "bind ports"
	// attach or detach a port → PortClaimed, PortRefused, PortAttached, PortNotAttached or PortDetached
	ChangePort Step = "change port"
	// check the other servers of the request → MinCountReached or MinCountFailed
	CheckMinCount Step = "check min count"
	Release       Step = "release" // release all allocations of the server's own consumer → Released
	// move the server's allocations to its migration → AllocationsMoved or Refused
	MoveAllocations Step = "move allocations"
	// move the migration's allocations to the server → AllocationsRestored
	RestoreAllocations Step = "restore allocations"
	// release the allocations of the first leftover that is gone → LeftoverReleased
	ReleaseLeftover Step = "release leftover"
	CreateImage     Step = "create image" // create ShelvedImage without data → ImageCreated or Refused
	CheckImage      Step = "check image"  // compare ShelvedImage with what was uploaded → ImageChecked or Refused
	DeleteImage     Step = "delete image" // delete the first of UnusedImages → ImageDeleted
)

// DiskUpload is what an agent reports about the upload of a guest's disk: what it has uploaded, or an error.
type DiskUpload struct {
	Image  string
	Bytes  int64
	SHA512 string
	Error  string // why the disk is not uploaded; empty: it is
	Final  bool   // with Error: the agent does not try again
}
