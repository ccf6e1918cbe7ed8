package lifecycle

// Task is OpenStack's OS-EXT-STS:task_state: the action in progress, or empty.
type Task string

// The tasks that end with a report of an agent.
const (
	PoweringOff       Task = "powering-off"
	PoweringOn        Task = "powering-on"
	Rebooting         Task = "rebooting" // the guest must stop first
	RebootingHard     Task = "rebooting_hard"
	RebootStarted     Task = "reboot_started" // the guest has stopped and must start
	RebootStartedHard Task = "reboot_started_hard"
	Rebuilding        Task = "rebuilding"
	ResizeReverting   Task = "resize_reverting"
	MigratingLive     Task = "migrating"
)
