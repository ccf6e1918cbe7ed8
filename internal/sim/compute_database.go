package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

func newDatabase(cloud string, hosts []*simHost, branch int) *database {
	db := &database{cloud: cloud, servers: map[string]lifecycle.Server{}, owners: map[string]string{},
		groups: map[string][]string{}, rows: map[string]*hostRow{}, leaving: map[string]int{}, versions: map[string]int{},
		reasons: map[string]string{}, branch: branch}
	for _, m := range hosts {
		db.rows[m.name] = &hostRow{removals: map[string]string{}}
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
		next.cleans = maps.Clone(row.cleans)
		out.rows[name] = &next
	}
	return &out
}

// setDatabase makes a database the present one, without starting compute on it.
func (cm *computeModel) setDatabase(db *database) {
	cm.database = db
	cm.ids, cm.due = randomSet{}, randomSet{}
	for name, h := range cm.states {
		h.row, h.servers, h.line = db.rows[name], map[string]bool{}, nil
		h.admitted = h.row.report.Start // the only one that this database has
	}
	for _, id := range slices.Sorted(maps.Keys(db.servers)) {
		cm.index(db.servers[id])
	}
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

func (b backup) String() string {
	switch {
	case b.db == nil:
		return fmt.Sprintf("Placement's of %d", b.taken)
	case b.placement == nil:
		return fmt.Sprintf("compute's of %d", b.taken)
	}
	return fmt.Sprintf("both of %d", b.taken)
}

// index adds a record to the lists by which it is found.
func (cm *computeModel) index(s lifecycle.Server) {
	if cm.due.drop(s.ID); len(s.Steps()) > 0 {
		cm.due.add(s.ID)
	}
	if cm.ids.add(s.ID); s.State == lifecycle.Deleted {
		cm.ids.drop(s.ID)
		return
	}
	for _, residence := range s.Residences() {
		if h := cm.states[residence.Host]; h != nil {
			h.servers[s.ID] = true
		}
	}
}
