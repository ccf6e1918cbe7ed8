package journal

import (
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// version is the version of the journal, recorded in its first line. It is increased when an entry gets a new kind,
// field or value: an older agent then refuses the whole journal instead of losing what it does not support. The first
// line and the checksums keep their form in every version. Earlier ones
// are refused.
const version = 2

// The kinds of entries.
const (
	kindFormat   = "format"
	kindIdentity = "identity"
	kindServer   = "server"
	kindGone     = "left"
	kindRemoved  = "removed"
	kindOwned    = "mark"

	kindBuilt     = "built"
	kindUnbuilt   = "unbuilt"
	kindRenamed   = "renamed"
	kindUnrenamed = "unrenamed"
	kindSpent     = "spent"
	kindCleaned   = "cleaned"
	kindPosition  = "position"
	kindStarts    = "starts"
	kindDisabled  = "disabled"
	kindEnabled   = "enabled"
	kindReserved  = "reserved"
	kindErrors    = "errors"
	kindVFs       = "vfs"
)

// Entry is the content of one line; the functions below make the entries of each kind. The names in its tags, and in
// those of wireClaim and GuestCell, are the format of the file.
type Entry struct {
	newer bool // it has fields that this program does not support

	Kind     string           `json:"kind"`
	Version  int              `json:"version,omitempty"`
	Host     string           `json:"host,omitempty"`
	Provider provider.ID      `json:"provider,omitempty"`
	Instance string           `json:"instance,omitempty"`
	Starts   int64            `json:"starts,omitempty"`
	Server   string           `json:"server,omitempty"`
	Claims   []wireClaim      `json:"claims,omitempty"`
	Classes  []resource.Class `json:"classes,omitempty"`
	Traits   []resource.Trait `json:"traits,omitempty"`
	Cloud    string           `json:"cloud,omitempty"`
	Cells    []GuestCell      `json:"parts,omitempty"`

	Was       string     `json:"was,omitempty"`
	Done      bool       `json:"done,omitempty"`
	Device    *device.ID `json:"address,omitempty"`
	Returning bool       `json:"returning,omitempty"`

	Build int   `json:"build,omitempty"`
	At    int64 `json:"at,omitempty"` // Unix time, seconds

	Machine  string   `json:"machine_id,omitempty"`
	Epoch    int64    `json:"epoch,omitempty"`
	EpochID  string   `json:"epoch_id,omitempty"`
	Revision int64    `json:"revision,omitempty"`
	StartIDs []string `json:"start_ids,omitempty"`

	ID       string `json:"id,omitempty"` // of a disablement
	Reason   string `json:"reason,omitempty"`
	Until    int64  `json:"until,omitempty"` // Unix time, seconds
	Check    bool   `json:"check,omitempty"`
	Count    int    `json:"count,omitempty"`
	Fatal    int64  `json:"fatal,omitempty"`
	Nonfatal int64  `json:"nonfatal,omitempty"`
}

// Starts records the ids of the agent's processes since the last one that compute acknowledged, oldest first.
func Starts(ids []string) Entry { return Entry{Kind: kindStarts, StartIDs: ids} }

// Put records a server of this host with all its claimed devices (perhaps none) and its NUMA cells (perhaps none). It
// replaces what was recorded of the server. The claims' Holder is ignored.
func Put(server string, claims []device.Claim, cells ...GuestCell) Entry {
	return Entry{Kind: kindServer, Server: server, Claims: toWire(claims), Cells: cells}
}

// Renamed records that claims, NUMA cells and guest move from one id to another. A repetition moves nothing until
// RenameForgotten. done: the hypervisor has renamed the guest too.
func Renamed(was, server string, done bool) Entry {
	return Entry{Kind: kindRenamed, Server: server, Was: was, Done: done}
}

// RenameForgotten deletes the record of the rename to server.
func RenameForgotten(server string) Entry { return Entry{Kind: kindUnrenamed, Server: server} }

// Used records that a device for one-time use has been used, and its state in Placement. The record survives guest and
// provider.
func Used(id device.ID, s Spent) Entry {
	return Entry{Kind: kindSpent, Device: &id, Provider: s.Provider, Returning: s.Returning}
}

// Cleaned deletes the record that a device has been used.
func Cleaned(id device.ID) Entry { return Entry{Kind: kindCleaned, Device: &id} }

// Gone records that the server has no guest and no devices here, and that compute has not yet confirmed that.
func Gone(server string) Entry { return Entry{Kind: kindGone, Server: server} }

// Removed deletes the record of a server whose guest and devices are gone, and keeps for a day that it has ended here:
// a guest that appears later is the work of a request whose answer was lost.
func Removed(server string, at time.Time) Entry {
	return Entry{Kind: kindRemoved, Server: server, At: at.Unix()}
}

// Built records that the guest of a server was built on this host, with its number of rebuilds. From then on it has a
// disk, and is never built as a new one.
func Built(server string, build int) Entry {
	return Entry{Kind: kindBuilt, Server: server, Build: build}
}

// Unbuilt deletes that record, because the guest has departed to another host.
func Unbuilt(server string) Entry { return Entry{Kind: kindUnbuilt, Server: server} }

// OwnedBy records what this agent has written to a provider; an empty value deletes the record.
func OwnedBy(id provider.ID, m Owned) Entry {
	return Entry{Kind: kindOwned, Provider: id, Classes: m.Classes, Traits: m.Traits}
}

// Identity identifies the host in Placement, and the agent.
type Identity struct {
	Host     string      // the hypervisor hostname, and the name of the root provider
	Provider provider.ID // of the root provider
	Instance string      // of the agent, unchanged as long as the journal exists; empty in an old journal
	Starts   int64       // number of starts with this journal; 0 in an old journal
	Cloud    string      // the cloud whose assignments the agent follows; empty before the first ones
	Machine  string      // machine-id(5) of the machine that wrote the journal; empty when it has none
}

// Position identifies the newest assignments that the agent has followed. The zero value precedes all assignments.
type Position struct {
	Epoch    int64
	EpochID  string
	Revision int64
}

// Entry records the host's identity, so that a restart keeps its provider.
func (id Identity) Entry() Entry {
	return Entry{Kind: kindIdentity, Host: id.Host, Provider: id.Provider, Instance: id.Instance, Starts: id.Starts,
		Cloud:   id.Cloud,
		Machine: id.Machine}
}

// Entry records the position of the newest assignments that the agent follows.
func (p Position) Entry() Entry {
	return Entry{Kind: kindPosition, Epoch: p.Epoch, EpochID: p.EpochID, Revision: p.Revision}
}

// GuestCell is one NUMA cell of a guest and its place on the host. The cell's requirements are kept too, so that the
// guest's usage is known without its assignment.
type GuestCell struct {
	VCPUs     []int  `json:"vcpus"`
	Dedicated []int  `json:"dedicated,omitempty"`
	Threads   string `json:"threads,omitempty"`
	MemoryMB  int    `json:"memory_mb"`
	PageKB    int    `json:"page_kb,omitempty"`  // as requested
	Emulator  int    `json:"emulator,omitempty"` // threads requested

	Node            int         `json:"node"`
	CPUs            map[int]int `json:"cpus,omitempty"`             // dedicated virtual CPU → host thread
	EmulatorThreads []int       `json:"emulator_threads,omitempty"` // of the host
	Pages           int         `json:"pages_kb,omitempty"`         // size of the pages that are used; 0: small pages
}

// Rename records that a server's entry was moved from another id.
type Rename struct {
	Was  string
	Done bool // the hypervisor has renamed the guest
}

// Spent is the state of a device for one-time use that has been used.
type Spent struct {
	Provider  provider.ID // the provider in Placement that has it reserved; empty: none yet
	Returning bool        // it has been cleaned, and its reserved amount is to be released
}

// Owned is what this agent has written to a provider and may therefore delete again; what others added stays.
type Owned struct {
	Classes []resource.Class
	Traits  []resource.Trait
}

func (o Owned) empty() bool { return len(o.Classes) == 0 && len(o.Traits) == 0 }
