package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
)

// Kinds of operations that lose, copy or restore files, processes and time.
const (
	RestartCompute = "restart compute" // compute is restarted
	Backup         = "backup"          // compute's database is copied, or Placement's, or both
	Restore        = "restore"         // one of these copies replaces what is there
	Copy           = "copy"            // an agent's directory is copied to another machine, which tries to serve the host
	// a machine is lost, and another one with a copy of its agent's directory takes its place
	Replace = "replace"
	Jump    = "jump"   // the wall clock of compute is set
	Lose    = "lose"   // an agent's journal is lost, or compute's database, or all of them
	Forget  = "forget" // an operator has compute forget a host
)

// restartCompute restarts compute.
func (w *World) restartCompute() {
	if !w.oneIn(3 * w.fleetFactor()) {
		return
	}
	w.note(RestartCompute, "", "", "")
	w.stopCompute()
	w.compute.startProcess()
}

// keptBackups is the maximum number of backups; the oldest is deleted first.
const keptBackups = 4

// backupSome copies a database, or both at the same moment.
func (w *World) backupSome() {
	b := backup{taken: w.n}
	which := w.rng.IntN(3)
	if w.compute.touchReports(); which != 1 {
		b.db, b.seq = w.compute.database.clone(), w.seq
	}
	if which != 0 {
		b.placement = w.placement.Clone()
	}
	w.note(Backup, "", "", b.String())
	w.backups = append(w.backups, b)
	w.backups = w.backups[max(0, len(w.backups)-keptBackups):]
}

// restoreSome replaces one or both databases by a backup.
func (w *World) restoreSome() {
	if len(w.backups) == 0 || w.oftenDone() != Restore && !w.oneIn(8*w.fleetFactor()) {
		return
	}
	b := w.backups[w.rng.IntN(len(w.backups))]
	w.note(Restore, "", "", b.String())
	if b.placement != nil {
		w.report.Happened["Placement restored"]++
		w.restorePlacement(b.placement)
		for _, m := range slices.Concat(w.hosts, w.copies) {
			w.changed(m)
		}
	}
	if b.db != nil {
		w.report.Happened["compute restored"]++
		w.replaceDatabase(b.db.clone(), stamp{b.db.branch, b.seq})
	}
}

// replaceDatabase starts compute on another database, and notes the servers whose records differ.
func (w *World) replaceDatabase(db *database, parent stamp) {
	w.stopCompute()
	before := w.compute.versions
	for _, versions := range []map[string]int{before, db.versions} {
		for id := range versions {
			if before[id] != db.versions[id] {
				w.rolledBack[id], w.lostImages[id] = true, true
			}
		}
	}
	for _, rows := range []map[string]*hostRow{w.compute.rows, db.rows} {
		for name, row := range rows {
			for consumer, server := range row.removals {
				if w.compute.rows[name].removals[consumer] != db.rows[name].removals[consumer] {
					w.rolledBack[server] = true
				}
			}
		}
	}
	db.branch = w.branchOff(parent)
	w.compute.setDatabase(db)
	w.compute.startProcess()
	for _, m := range w.hosts {
		m.host.unheard = true
		if m.host.row.dead { // an operator declared it dead before the backup
			w.mayHaveGuests(m)
		}
	}
}

// restorePlacement replaces Placement's database by an earlier one.
func (w *World) restorePlacement(from *placementtest.Placement) {
	before := w.allocations()
	w.placement.Restore(from)
	w.restores++
	now := w.allocations()
	for _, all := range []map[resource.ConsumerID]resource.Allocation{before, now} {
		for c := range all {
			if !before[c].Equal(now[c]) {
				w.altered[w.owners[string(c)]], w.putBack[w.owners[string(c)]] = true, true
			}
		}
	}
	delete(w.altered, "")
	w.foreignConsumers = nil
	for _, c := range w.placement.Consumers() {
		if strings.HasPrefix(string(c), foreign) {
			w.foreignConsumers = append(w.foreignConsumers, string(c))
		}
	}
}

// allocations returns the allocations of all consumers.
func (w *World) allocations() map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, c := range w.placement.Consumers() {
		out[c] = w.placement.Held(c)
	}
	return out
}

// drop removes the allocation of a consumer.
func (w *World) drop(c resource.ConsumerID) {
	if err := w.placement.DeleteAllocation(background, c); err != nil {
		w.violation(nil, "placement: %v", err)
	}
}

// foreign is the prefix of consumers that are not compute's.
const foreign = "x"

// jumpSome sets the wall clock of compute forward or back by up to three hours, or sets it right.
func (w *World) jumpSome() {
	before := w.skew
	if w.skew = 0; !w.oneIn(4) {
		w.skew = time.Duration(w.rng.IntN(361)-180) * time.Minute
	}
	w.jumped, w.jump = w.clock, w.skew-before
	w.note(Jump, "", "", w.jump.String())
	w.report.Happened["clock set"]++
	w.advance(0)
}

// loseSome loses the journal of an agent, compute's database, or the database and all journals.
func (w *World) loseSome() {
	n := w.rng.IntN(300)
	switch {
	case n < 60:
		m := w.some()
		if m.cut || m.host.row.dead || w.replacedBy(m) {
			return
		}
		w.note(Lose, "", m.tag, "journal")
		w.loseJournal(m)
		w.start(m)
	case n > 294 && n < 299:
		w.note(Lose, "", "", "compute's database")
		w.loseDatabase()
	case n == 299:
		w.note(Lose, "", "", "compute's database and all journals")
		w.loseDatabase()
		for _, m := range w.hosts {
			cut := m.cut
			w.loseJournal(m)
			if !cut && !m.host.row.dead {
				w.start(m)
			}
		}
	}
}

// loseJournal ends an agent and loses its journal.
func (w *World) loseJournal(m *simHost) {
	w.report.Happened["journal lost"]++
	w.crash(m)
	m.disk, m.fresh = disk{}, true
	m.forgetConfigured()
}

// loseDatabase starts compute on a new database.
func (w *World) loseDatabase() {
	w.report.Happened["database lost"]++
	w.replaceDatabase(newDatabase(w.name("cloud"), w.hosts, 0), stamp{})
}

// forgetSome is `berth host forget` of a host without servers.
func (w *World) forgetSome() {
	for _, m := range w.hosts {
		if !m.host.row.known || w.compute.servedBy(m.host) != nil || len(m.host.servers) > 0 {
			continue
		}
		guests := len(m.guests)
		if _, _, err := w.compute.conductor.HostForget(background, m.name); err == nil {
			w.note(Forget, "", m.tag, fmt.Sprint(guests, " guests"))
			return
		}
	}
}

// forgotten notes that compute has forgotten a host, which may have guests.
func (w *World) forgotten(h *hostState) {
	w.report.Happened["host forgotten"]++
	w.byName[h.name].orphaned = true
}

// mayHaveGuests notes that guests may exist on a dead host.
func (w *World) mayHaveGuests(m *simHost) {
	for _, o := range w.machines(m.name) {
		o.zombie = true
	}
}
