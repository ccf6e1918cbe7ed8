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
func (ls *losses) restartCompute() {
	if !ls.oneIn(3 * ls.fleetFactor()) {
		return
	}
	ls.note(RestartCompute, "", "", "")
	ls.compute.stopProcess()
	ls.compute.startProcess()
}

// keptBackups is the maximum number of backups; the oldest is deleted first.
const keptBackups = 4

// backupSome copies a database, or both at the same moment.
func (ls *losses) backupSome() {
	b := backup{taken: ls.n}
	which := ls.rng.IntN(3)
	if ls.compute.touchReports(); which != 1 {
		b.db, b.seq = ls.compute.database.clone(), ls.compute.seq
	}
	if which != 0 {
		b.placement = ls.placement.Clone()
	}
	ls.note(Backup, "", "", b.String())
	ls.backups = append(ls.backups, b)
	ls.backups = ls.backups[max(0, len(ls.backups)-keptBackups):]
}

// restoreSome replaces one or both databases by a backup.
func (ls *losses) restoreSome() {
	if len(ls.backups) == 0 || ls.oftenDone() != Restore && !ls.oneIn(8*ls.fleetFactor()) {
		return
	}
	b := ls.backups[ls.rng.IntN(len(ls.backups))]
	ls.note(Restore, "", "", b.String())
	if b.placement != nil {
		ls.report.Happened["Placement restored"]++
		ls.placement.restore(b.placement)
		for _, m := range slices.Concat(ls.hosts, ls.copies) {
			ls.agents.changed(m)
		}
	}
	if b.db != nil {
		ls.report.Happened["compute restored"]++
		ls.compute.replaceDatabase(b.db.clone(), stamp{b.db.branch, b.seq})
	}
}

// replaceDatabase starts compute on another database, and notes the servers whose records differ.
func (cm *computeModel) replaceDatabase(db *database, parent stamp) {
	cm.stopProcess()
	before := cm.versions
	for _, versions := range []map[string]int{before, db.versions} {
		for id := range versions {
			if before[id] != db.versions[id] {
				cm.rolledBack[id], cm.images.lost[id] = true, true
			}
		}
	}
	for _, rows := range []map[string]*hostRow{cm.rows, db.rows} {
		for name, row := range rows {
			for consumer, server := range row.removals {
				if cm.rows[name].removals[consumer] != db.rows[name].removals[consumer] {
					cm.rolledBack[server] = true
				}
			}
		}
	}
	db.branch = cm.branchOff(parent)
	cm.setDatabase(db)
	cm.startProcess()
	for _, m := range cm.hosts {
		m.host.unheard = true
		if m.host.row.dead { // an operator declared it dead before the backup
			cm.mayHaveGuests(m)
		}
	}
}

// restore replaces Placement's database by an earlier one.
func (pm *placementModel) restore(from *placementtest.Placement) {
	before := pm.allocations()
	pm.Restore(from)
	pm.restores++
	now := pm.allocations()
	for _, all := range []map[resource.ConsumerID]resource.Allocation{before, now} {
		for c := range all {
			if !before[c].Equal(now[c]) {
				pm.altered[pm.ownerOf[string(c)]], pm.putBack[pm.ownerOf[string(c)]] = true, true
			}
		}
	}
	delete(pm.altered, "")
	pm.foreignConsumers = nil
	for _, c := range pm.Consumers() {
		if strings.HasPrefix(string(c), foreign) {
			pm.foreignConsumers = append(pm.foreignConsumers, string(c))
		}
	}
}

// allocations returns the allocations of all consumers.
func (pm *placementModel) allocations() map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, c := range pm.Consumers() {
		out[c] = pm.Held(c)
	}
	return out
}

// drop removes the allocation of a consumer.
func (pm *placementModel) drop(c resource.ConsumerID) {
	if err := pm.DeleteAllocation(background, c); err != nil {
		pm.violation(nil, "placement: %v", err)
	}
}

// foreign is the prefix of consumers that are not compute's.
const foreign = "x"

// jumpSome sets the wall clock of compute forward or back by up to three hours, or sets it right.
func (ls *losses) jumpSome() {
	before := ls.skew
	if ls.skew = 0; !ls.oneIn(4) {
		ls.skew = time.Duration(ls.rng.IntN(361)-180) * time.Minute
	}
	ls.jumped, ls.jump = ls.clock, ls.skew-before
	ls.note(Jump, "", "", ls.jump.String())
	ls.report.Happened["clock set"]++
	ls.advance(0)
}

// loseSome loses the journal of an agent, compute's database, or the database and all journals.
func (ls *losses) loseSome() {
	n := ls.rng.IntN(300)
	switch {
	case n < 60:
		m := ls.some()
		if m.cut || m.host.row.dead || ls.replacedBy(m) {
			return
		}
		ls.note(Lose, "", m.tag, "journal")
		ls.loseJournal(m)
		ls.agents.start(m)
	case n > 294 && n < 299:
		ls.note(Lose, "", "", "compute's database")
		ls.compute.loseDatabase()
	case n == 299:
		ls.note(Lose, "", "", "compute's database and all journals")
		ls.compute.loseDatabase()
		for _, m := range ls.hosts {
			cut := m.cut
			ls.loseJournal(m)
			if !cut && !m.host.row.dead {
				ls.agents.start(m)
			}
		}
	}
}

// loseJournal ends an agent and loses its journal.
func (ls *losses) loseJournal(m *simHost) {
	ls.report.Happened["journal lost"]++
	ls.agents.crash(m)
	m.disk, m.fresh = disk{}, true
	m.forgetConfigured()
}

// loseDatabase starts compute on a new database.
func (cm *computeModel) loseDatabase() {
	cm.report.Happened["database lost"]++
	cm.replaceDatabase(newDatabase(cm.name("cloud"), cm.hosts, 0), stamp{})
}

// forgetSome is `berth host forget` of a host without servers.
func (ls *losses) forgetSome() {
	for _, m := range ls.hosts {
		if !m.host.row.known || ls.servedBy(m.host) != nil || len(m.host.servers) > 0 {
			continue
		}
		guests := len(m.guests)
		if _, _, err := ls.compute.conductor.HostForget(background, m.name); err == nil {
			ls.note(Forget, "", m.tag, fmt.Sprint(guests, " guests"))
			return
		}
	}
}

// noteForgotten notes that compute has forgotten a host, which may have guests.
func (cm *computeModel) noteForgotten(h *hostState) {
	cm.report.Happened["host forgotten"]++
	cm.byName[h.name].orphaned = true
}

// mayHaveGuests notes that guests may exist on a dead host.
func (hm *hostModel) mayHaveGuests(m *simHost) {
	for _, o := range hm.machines(m.name) {
		o.zombie = true
	}
}
