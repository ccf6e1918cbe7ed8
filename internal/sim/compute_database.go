package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// newDatabase returns the database of a new cloud, without servers.
func newDatabase(cloud string, hosts map[string]*hostState) *database {
	db := &database{cloud: cloud, servers: map[string]lifecycle.Server{}, owners: map[string]string{},
		groups: map[string][]string{}, rows: map[string]*hostRow{}, leaving: map[string]int{}, versions: map[string]int{},
		reasons: map[string]string{}}
	for name := range hosts {
		db.rows[name] = &hostRow{removals: map[string]string{}}
	}
	return db
}

// clone returns a copy that shares no value that changes.
func (db *database) clone() *database {
	out := *db
	out.servers, out.owners, out.groups = maps.Clone(db.servers), maps.Clone(db.owners), maps.Clone(db.groups)
	out.dead = slices.Clone(db.dead)
	out.versions, out.reasons, out.epochs = maps.Clone(db.versions), maps.Clone(db.reasons), slices.Clone(db.epochs)
	out.rows, out.leaving = map[string]*hostRow{}, maps.Clone(db.leaving)
	for name, row := range db.rows {
		next := *row
		next.removals, next.epochEnds = maps.Clone(row.removals), slices.Clone(row.epochEnds)
		next.cleans, next.devices = maps.Clone(row.cleans), row.devices.clone()
		out.rows[name] = &next
	}
	return &out
}

// setDead records whether an operator has declared a host dead.
func (db *database) setDead(host string, dead bool) {
	db.rows[host].dead = dead
	db.dead = slices.DeleteFunc(slices.Clone(db.dead), func(name string) bool { return name == host })
	if dead {
		db.dead = append(db.dead, host)
		slices.Sort(db.dead)
	}
}

// recordRemoval notes that a guest is to be destroyed on a host although the record of its server does not mention it.
func (db *database) recordRemoval(row *hostRow, consumer, server string) {
	if row.removals[consumer] == "" {
		row.removals[consumer] = server
		db.leaving[server]++
	}
}

// removalDone deletes such a record, and reports whether there was one.
func (db *database) removalDone(row *hostRow, consumer string) bool {
	server := row.removals[consumer]
	if server == "" {
		return false
	}
	delete(row.removals, consumer)
	if db.leaving[server]--; db.leaving[server] == 0 {
		delete(db.leaving, server)
	}
	return true
}

// endEpoch records at which revision the assignments of the host ended in an epoch.
func (r *hostRow) endEpoch(epoch int64) {
	if n := len(r.epochEnds); n == 0 || r.revision > r.epochEnds[n-1].revision {
		r.epochEnds = append(r.epochEnds, epochEnd{epoch, r.revision})
	}
}

// resolveCleans deletes the requests that an agent has answered. A refused one stays until an operator repeats it, or
// the device need not be cleaned any more.
func (r *hostRow) resolveCleans(answers []host.CleanResult) {
	for _, d := range r.report.Devices {
		if !d.Spent {
			delete(r.cleans, d.Address)
		}
	}
	for _, answer := range answers {
		if at, err := pci.ParseAddress(answer.Address); err == nil && answer.Refused == "" &&
			r.cleans[at].Equal(answer.Asked) {
			delete(r.cleans, at)
		}
	}
}

// stamp is a moment in the histories of compute's database. A restore begins a new history.
type stamp struct{ branch, seq int }

// histories are the histories of compute's database.
type histories struct {
	branches []history
	seq      int // counts changes of the database
}

// history is a branch of the database's history. The first one, and that of a new database, has no parent.
type history struct{ parent stamp }

// hasParent reports whether the history branched off another one.
func (h history) hasParent() bool { return h.parent != stamp{} }

// branchOff begins a history and returns its number.
func (hs *histories) branchOff(parent stamp) int {
	hs.branches = append(hs.branches, history{parent})
	return len(hs.branches) - 1
}

// precedes reports whether a state of the database was made from an earlier one.
func (hs *histories) precedes(earlier, state stamp) bool {
	if earlier == (stamp{}) {
		return true
	}
	for state.branch != earlier.branch {
		h := hs.branches[state.branch]
		if !h.hasParent() {
			return false
		}
		state = h.parent
	}
	return earlier.seq <= state.seq
}

type epoch struct {
	number int64
	id     string
}

// epochEnd is the revision at the end of an epoch.
type epochEnd struct{ epoch, revision int64 }

// removal is a guest that must be destroyed.
type removal = host.Removal

// database is compute's database. A backup is a copy of it.
type database struct {
	cloud   string
	servers map[string]lifecycle.Server
	owners  map[string]string   // consumer → server
	groups  map[string][]string // request → its servers
	rows    map[string]*hostRow
	epochs  []epoch  // starts of compute on it
	dead    []string // hosts that an operator has declared dead, sorted

	leaving map[string]int // by server, how many removals of it are recorded

	versions map[string]int    // oracle: when each record was written last
	reasons  map[string]string // oracle: by server, why guests of it may be removed
	branch   int               // oracle: its history
}

// hostRow is what is stored of a host.
type hostRow struct {
	report    schedule.Host // the last one
	known     bool          // there is one
	dead      bool          // an operator says so
	revision  int64         // of its assignments
	removals  map[string]string
	epochEnds []epochEnd // in which epochs the revision rose
	changed   stamp      // oracle: when it rose last

	cleans  map[pci.Address]time.Time // requests to clean devices, by when an operator has made them
	devices deviceRequests
}

// hostState is what the simulation has of one host on compute's side.
type hostState struct {
	name    string
	row     *hostRow        // in the database
	servers map[string]bool // with residences there
	line    *line           // as it was made last

	reported bool          // to the present process
	refused  bool          // the present process has refused a start of an agent
	sign     time.Duration // last report, end of a stream or start of the process

	behindSince time.Duration
	unheard     bool   // oracle: it has not reported to the database that was restored last
	admitted    string // oracle: its start
}

// line is what compute assigns to a host.
type line struct {
	revision int64
	servers  []host.Server
	remove   []removal
	changed  stamp // oracle: when the revision was raised
}

// reason notes why guests of a server may have to be removed: a user or an operator has requested something.
func (db *database) reason(server, why string) { db.reasons[server] = why }

// settleReasons deletes the reason when the request is done and no guest has to be removed any more.
func (db *database) settleReasons(s lifecycle.Server) {
	gone := s.State == lifecycle.Deleted
	shelving := s.State == lifecycle.Active && s.ShelvedImage != nil
	rest := s.Requested.IsZero() && s.Move == nil && len(s.Leftovers) == 0 && !shelving &&
		slices.Contains([]lifecycle.State{lifecycle.Active, lifecycle.Shelved, lifecycle.Error}, s.State)
	if (gone || rest) && db.leaving[s.ID] == 0 {
		delete(db.reasons, s.ID)
	}
	if gone {
		delete(db.versions, s.ID)
	}
}

// contradicted reports whether the last reports of hosts contradict the record of a server.
func (db *database) contradicted(s lifecycle.Server) bool {
	for name, row := range db.rows {
		if row.known && !row.dead && s.Contradicts(name, row.report.NotFollowed != "", row.report.Present) {
			return true
		}
	}
	return false
}

// places reports whether compute places a consumer on a host.
func (db *database) places(host string, c resource.ConsumerID) bool {
	s := db.servers[db.owners[string(c)]]
	return slices.ContainsFunc(s.Residences(), func(r lifecycle.Residence) bool {
		return r.Consumer == string(c) && r.Host == host
	})
}
