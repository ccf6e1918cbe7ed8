package host

import "fmt"

// Phase is the state of a guest.
type Phase string

// The phases that an agent reports. Claimed is intermediate; the others are the results of a transition.
const (
	Claimed  Phase = "claimed"  // the devices are journalled; the guest is about to be built
	Running  Phase = "running"  // the guest runs with its devices
	Stopped  Phase = "stopped"  // the guest has its devices and does not run, as requested
	Refused  Phase = "refused"  // the hypervisor did not start, stop or rebuild the guest, which is as before
	Departed Phase = "departed" // the guest runs on the destination; its devices on this host are still claimed
	Failed   Phase = "failed"   // the guest cannot be built here; nothing of it is left and its devices are free
	Gone     Phase = "gone"     // the guest and its claims do not exist
)

// Guest is a report of one server on the host. An agent repeats it until compute has answered 204; it may be received
// twice. A claim of a server that is not, or no longer, assigned to the host is answered with 409, and then the agent
// must not build the guest: compute releases everything of a server without reports of an agent as soon as it is
// deleted. A claim is also answered with 409, and may be repeated, while another host has a guest of the server that
// compute has not placed there.
//
// Reports may overtake each other in the network. Compute records those of one agent about one server in the order of
// their numbers: a report that is older than the last one changes nothing, and is answered with 409 and the header
// Berth-Latest, the number of the last one. A report with the number of the last one is a repetition: starts of an
// agent that can follow each other, also those of copied directories, use different numbers. An agent that receives
// this answer (its journal was restored from a backup) continues counting from that number and repeats the report. A
// guest report of any other start than the admitted one is answered with 409 and changes nothing; one without instance,
// start and number with 400.
//
// {server} in the path is the ID in the line. When the ID of an entry has changed (PreviousID), the agent reports its
// phase again, under the new ID; a move continues only after that. It reports a built guest again after each later line
// that still has the PreviousID, because compute removes the PreviousID when it records the report.
//
// After phase refused, compute cancels the requested change: the actual state of the guest becomes the desired state,
// and the next line has it. A change that has not been requested, such as the start of a guest that has ended, is tried
// again.
type Guest struct {
	Phase Phase `json:"phase"`
	// Devices are those of the guest, with phases claimed, running, stopped and refused. Those of a request in sets are in
	// the order of the sets.
	Devices []Picked     `json:"devices,omitempty"`
	Cells   []PlacedCell `json:"parts,omitempty"` // placement of the guest's NUMA cells, with the same phases
	Build   int          `json:"build,omitempty"` // Server.Build of the existing guest, with the same phases
	// Ports are those whose interfaces the existing guest has, with the same phases. Devices also has what is claimed for
	// a port that the guest does not have yet.
	Ports []string `json:"ports,omitempty"`
	// Power is the actual power of the guest with phase refused. With phase running it may be Paused, with phase stopped
	// Suspended. Absent: that of the phase, or On.
	Power Power `json:"power,omitempty"`
	// Rescue is the image that the existing guest boots instead of its disk, with phases running, stopped and refused.
	Rescue string `json:"rescue_image,omitempty"`
	// ShutDown is set with phase stopped if the guest should run and its operating system has shut down, or if it should
	// be paused or suspended and has ended. Compute then stops the server, unless another action on it is in progress. If
	// the server is still to run, the agent starts it.
	ShutDown bool `json:"shut_down,omitempty"`
	// Upload is set with phases running and stopped if Server.UploadTo is set: what became of the upload of the guest's
	// disk.
	Upload *DiskUpload `json:"upload,omitempty"`
	// Removed are the ids under which nothing of the guest is left, with phase gone, and with phase failed unless the
	// guest runs here as before. Compute ignores a report that lacks an id of the guest: it is about an earlier guest.
	// Agents of earlier versions do not report it; compute then assumes that no id is missing.
	Removed []string `json:"removed,omitempty"`
	Message string   `json:"message,omitempty"` // the reason of a failure or a refusal, as a sentence
	// RetryIn is the number of seconds until the agent tries again, with phase refused. If no action on the server is in
	// progress, its desired state stays.
	RetryIn int `json:"retry_in,omitempty"`
	// Happened is what the agent has done to the guest without a request, with the reason and the time, with phases
	// running and stopped: it has started a guest that had ended, or restored one that the hypervisor had lost. The same
	// text is the same event.
	Happened string `json:"happened,omitempty"`

	Instance string `json:"instance"` // of the agent, as in its report
	Start    string `json:"start"`    // of the agent's process, as in its report
	Number   int64  `json:"number"`   // larger than in all earlier reports of this instance, also of earlier processes
}

// DiskUpload is what became of the upload of a guest's disk: the data that the image has, or an error.
type DiskUpload struct {
	Image  string `json:"image"` // UUID
	Bytes  int64  `json:"bytes,omitempty"`
	SHA512 string `json:"sha512,omitempty"`
	Error  string `json:"error,omitempty"` // why it is not uploaded, as a sentence; absent: it is
	Final  bool   `json:"final,omitempty"` // with Error: the agent does not try again
}

// Picked is a device given to a guest.
type Picked struct {
	RequestID string `json:"request_id"`
	Address   string `json:"address"`
	Provider  string `json:"provider,omitempty"`
}

// PlacedCell is the placement of one NUMA cell of a guest.
type PlacedCell struct {
	Node     int         `json:"node"`               // of the host
	CPUs     map[int]int `json:"cpus,omitempty"`     // dedicated virtual CPU → host thread
	Emulator []int       `json:"emulator,omitempty"` // host threads for the emulator alone
	PageKB   int         `json:"page_kb,omitempty"`  // size of its huge pages; absent: small pages
}

// Latest is the header of the answer to a report that came too late: the number of the last report that compute has.
const Latest = "Berth-Latest"

// Late is the cause of the fault when compute has a newer report of the server than the one sent.
type Late struct {
	Number int64 // of the newest report that compute has
}

// Error returns the sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("compute has a newer report of this server (number %d)", l.Number)
}
