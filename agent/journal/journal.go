// Package journal keeps what an agent must not forget on disk: who the host is in Placement, which device is
// claimed for which server, and what compute has not yet been told.
//
// It survives kill -9 at any moment: a write that has returned is on the disk, and one that has not is either
// whole or absent. The file `journal` in the agent's directory holds one JSON object a line, each with
// the CRC-32C of its entry; entries are appended and synced, a last line that was torn by a crash is
// dropped, and from time to time the file is replaced whole by a shorter one that says the same. The
// file `lock` beside it keeps a second agent out. The journal records; it decides nothing.
package journal

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The files of a journal inside its directory.
const (
	fileName = "journal"
	lockName = "lock"
)

// defaultSlack is how many superseded lines a file may carry before it is written anew.
const defaultSlack = 1000

// Journal is an open journal. Its methods may be called by many goroutines.
type Journal struct {
	dir   string
	lock  *os.File
	slack int           // how many superseded lines the file may carry
	lost  chan struct{} // closed when a file was lost

	mu     sync.Mutex // guards all below
	state  State
	file   *os.File // nil when the last write failed: the next one replaces the whole file
	lines  int      // in the file
	closed bool

	journalFile, lockFile datafile.File
	loss                  error // why nothing is written any more; nil: the files are there
}

// Open reads the journal in dir, creating both when they are not there, and keeps every other agent out until
// Close. Faults: Conflict when another agent has it; Internal when a line is damaged that was once
// whole; Unavailable when the disk refuses.
func Open(dir string) (*Journal, error) {
	const op = "journal.Open"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot create the agent's directory: %w", err)
	}
	lock, err := acquireLock(filepath.Join(dir, lockName), "give this one a directory of its own")
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, lock: lock, slack: defaultSlack, lost: make(chan struct{})}
	if err := j.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

// load reads the file and leaves it open for appending, without a torn line and without what is superseded.
func (j *Journal) load() error {
	if err := removeUnfinished(j.path()); err != nil {
		return err
	}
	if err := checkSaved(j.path()); err != nil {
		return err
	}
	var err error
	if j.lockFile, err = datafile.At(j.lock.Name()); err != nil {
		return err
	}
	content, err := readFile(j.path())
	if err != nil {
		return err
	}
	j.state = content.state
	if !content.exists || content.torn || content.lines > j.state.size() {
		return j.replace()
	}
	j.lines = content.lines
	j.file, err = os.OpenFile(j.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fault.New(fault.Unavailable, "journal.Open", "cannot write to the journal: %w", err)
	}
	j.journalFile, err = datafile.At(j.path())
	return err
}

// Read gives what the journal in dir says without keeping anybody out or changing anything: for dry runs beside
// a running agent. A directory without a journal gives the empty state.
func Read(dir string) (State, error) {
	content, err := readFile(filepath.Join(dir, fileName))
	return content.state, err
}

// Close lets the next agent in. What was written stays; writing after it is a fault. Closing twice is allowed.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
		j.file = nil
	}
	// Closing gives the flock back.
	if lockErr := j.lock.Close(); err == nil {
		err = lockErr
	}
	if err != nil {
		return fault.New(fault.Unavailable, "journal.Close", "%w", err)
	}
	return nil
}

// State is a copy of what the journal says now.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.clone()
}

// Identity is who the host is in Placement; ok is false before SetIdentity.
func (j *Journal) Identity() (id Identity, ok bool) { return j.State().Identity() }

// Claims lists all claims, by server and address.
func (j *Journal) Claims() []device.Claim { return j.State().Claims() }

// SetIdentity writes down who the host is, so that a restart keeps its provider.
func (j *Journal) SetIdentity(id Identity) error {
	return j.write(id.entry())
}

// SetPosition records the newest line of assignments that the agent follows. It is called before anything of the line
// is done.
func (j *Journal) SetPosition(p Position) error { return j.write(p.entry()) }

// SetStarts records the ids of the agent's processes, from the last one that compute acknowledged on, oldest first.
func (j *Journal) SetStarts(ids []string) error {
	return j.write(entry{Kind: kindStarts, StartIDs: ids})
}

// Put writes down that this host has taken a server on, with all the devices claimed for it (perhaps none); what
// was written of the server before is replaced. The claims' own holder is not looked at. Parts are its NUMA cells, if it has any.
func (j *Journal) Put(server string, claims []device.Claim, parts ...GuestCell) error {
	return j.write(entry{Kind: kindServer, Server: server, Claims: toWire(claims), Cells: parts})
}

// Rename writes down that what stood under one name stands under another from now on: claims, NUMA cells and guest, in one step. It counts
// once, until ForgetRename. done says that the hypervisor has been told too.
func (j *Journal) Rename(was, server string, done bool) error {
	return j.write(entry{Kind: kindRenamed, Server: server, Was: was, Done: done})
}

// ForgetRename forgets where the server's entry came from.
func (j *Journal) ForgetRename(server string) error {
	if _, known := j.State().renames[server]; !known {
		return nil
	}
	return j.write(entry{Kind: kindUnrenamed, Server: server})
}

// Spend writes down that a device for one-time use has been used, and where that stands in Placement. It outlives guest and provider.
func (j *Journal) Spend(at pci.Address, s Spent) error {
	return j.write(entry{Kind: kindSpent, Address: (*address)(&at), Provider: s.Provider, Returning: s.Returning})
}

// Cleaned forgets that a device has been used.
func (j *Journal) Cleaned(at pci.Address) error {
	if _, known := j.State().spent[at]; !known {
		return nil
	}
	return j.write(entry{Kind: kindCleaned, Address: (*address)(&at)})
}

// Leave writes down that nothing of the server is left on this host and its devices are free, but that compute
// has not confirmed to have heard of it.
func (j *Journal) PutGone(server string) error {
	return j.write(entry{Kind: kindGone, Server: server})
}

// Remove forgets the server. One that is not there is already forgotten.
func (j *Journal) Remove(server string) error {
	if !j.State().has(server) {
		return nil
	}
	return j.write(entry{Kind: kindRemoved, Server: server})
}

// SetMark writes down what this agent has put on a provider; an empty mark forgets the provider.
func (j *Journal) SetOwned(id provider.ID, m Owned) error {
	return j.write(entry{Kind: kindOwned, Provider: id, Classes: m.Classes, Traits: m.Traits})
}

func (j *Journal) path() string { return filepath.Join(j.dir, fileName) }

// write makes one entry durable and then true. After a fault the journal says what it said before, and the next
// write replaces the file, because nobody knows how much of the failed one is on the disk.
func (j *Journal) write(e entry) error {
	line, err := e.encode()
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fault.New(fault.Internal, "journal.write", "%s is closed", j.path())
	}
	if err := j.check(); err != nil {
		return err
	}
	before := j.state
	j.state = before.with(e)
	if j.file == nil || j.lines > j.state.size()+j.slack {
		err = j.replace()
	} else if err = appendSynced(j.file, line); err == nil {
		j.lines++
	} else {
		j.file.Close()
		j.file = nil
	}
	if err != nil {
		j.state = before
		return err
	}
	return j.check() // nobody relies on an entry in a file that was lost meanwhile
}

// replace writes the state to a new file and renames it over the old one. j.mu is held, or nobody else has j.
func (j *Journal) replace() error {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
	data, lines, err := j.state.encode()
	if err != nil {
		return err
	}
	file, err := replaceFile(j.path(), data)
	at, lookErr := datafile.At(j.path()) // also when it failed after the rename
	if lookErr == nil {
		j.journalFile = at
	}
	if err != nil {
		return err
	}
	j.file, j.lines = file, lines
	return lookErr
}
