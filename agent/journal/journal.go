// Package journal keeps the agent's durable state on disk: the host's identity in Placement, the devices claimed for
// each server, and the removals that compute has not yet confirmed.
//
// It survives kill -9 at any moment: a write that has returned is on the disk. A write that was interrupted leaves its
// first entries, perhaps none or all. The file `journal` in the agent's directory holds one JSON object a
// line, each with the CRC-32C of its entry. Entries are appended and synced; a last line that a crash cut short is
// dropped. From time to time the whole file is replaced by a shorter one with the same state. The file `lock` beside it
// excludes a second agent.
package journal

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/openberth/berth/datafile"
)

// The files of a journal inside its directory.
const (
	fileName = "journal"
	lockName = "lock"
)

// Journal is an open journal. Its methods may be called by many goroutines.
type Journal struct {
	dir   string
	lock  *os.File
	slack int           // maximum number of superseded lines in the file
	lost  chan struct{} // closed when a file was lost

	state atomic.Pointer[State] // what is durable; stored while mu is held, loaded by readers without it

	mu     sync.Mutex // held over a whole write, disk included; guards all fields below
	file   *os.File   // nil when the last write failed: the next one replaces the whole file
	lines  int        // in the file
	closed bool

	journalFile, lockFile datafile.File
	loss                  error // why writes fail; nil: the files exist
}

// State returns the state after the last write that is on the disk. It does not wait for a write in progress.
func (j *Journal) State() State { return *j.state.Load() }

func (j *Journal) path() string { return filepath.Join(j.dir, fileName) }
