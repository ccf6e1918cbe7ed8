package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
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
	case n > 289 && n < 299:
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
	m.disk, m.fresh, m.service = disk{}, true, service{lost: true}
	m.forgetConfigured()
	m.forgetRemoved()
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

// backup is a copy of compute's database, of Placement's, or of both at the same moment.
type backup struct {
	taken     int // operation
	db        *database
	seq       int
	placement *placementtest.Placement
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

// losses are the operations that lose, copy or restore files, processes and time.
type losses struct {
	*cloud
	backups []backup
}

// copySome copies the directory of an agent to another machine, whose agent then tries to serve the same host, or
// switches such a machine off.
func (ls *losses) copySome() {
	if len(ls.copies) > 0 && (len(ls.copies) > 3 || ls.halfTheTime()) {
		c := ls.copies[ls.rng.IntN(len(ls.copies))]
		ls.note(Copy, "", c.tag, "is switched off")
		ls.switchOff(c)
		return
	}
	m := ls.some()
	if ls.halfTheTime() { // prefer a host whose agent does not report
		for _, o := range ls.hosts {
			if o.agent == nil || o.cut {
				m = o
				break
			}
		}
	}
	if m.fresh || len(ls.machines(m.name)) > 1 {
		return
	}
	c := ls.twin(m)
	if ls.oneIn(4) {
		c.install = c.tag
	}
	ls.note(Copy, "", c.tag, "begins")
	ls.report.Happened["directory copied"]++
	ls.copies, ls.byTag[c.tag] = append(ls.copies, c), c
	ls.agents.start(c)
}

// twin is another machine like m with a copy of its agent's directory. It has no guests.
func (ls *losses) twin(m *simHost) *simHost {
	ls.next++
	c := *m
	c.tag = fmt.Sprintf("%s'%d", m.name, ls.next)
	c.away, c.hypervised = maps.Clone(m.away), newHypervised()
	c.agent, c.cut, c.zombie = nil, false, false
	c.service = m.service.lose()
	c.configured, c.unplugged = map[pci.Address]string{}, maps.Clone(m.unplugged)
	if m.bare != nil {
		c.bare = map[pci.Address]bool{} // its PFs have VFs since it was started
	}
	return &c
}

// switchOff ends a machine with a copied directory, and all that runs on it.
func (ls *losses) switchOff(c *simHost) {
	ls.agents.crash(c)
	c.guests, c.configured = map[string]*hypervisor.Guest{}, map[pci.Address]string{}
	ls.copies = slices.DeleteFunc(ls.copies, func(o *simHost) bool { return o == c })
	delete(ls.byTag, c.tag)
	ls.active.drop(c.tag)
	ls.marked = slices.DeleteFunc(ls.marked, func(o *simHost) bool { return o == c })
	ls.markHost(c.name)
}

// replaceSome takes a machine away for good, with all that ran there, and puts another one in its place that has a copy
// of the agent's directory.
func (ls *losses) replaceSome() {
	if !ls.oneIn(3) {
		return
	}
	for i, m := range ls.hosts {
		if m.agent != nil || m.host.row.dead || len(ls.machines(m.name)) > 1 || ls.oneIn(2) {
			continue
		}
		ls.note(Replace, "", m.tag, fmt.Sprint(len(m.guests), " guests are lost"))
		ls.report.Happened["machine replaced"]++
		c := ls.twin(m)
		c.install = m.install
		delete(ls.byTag, m.tag)
		ls.active.drop(m.tag)
		m.guests = map[string]*hypervisor.Guest{}
		ls.hosts[i], ls.byName[c.name], ls.byRoot[c.root], ls.byTag[c.tag] = c, c, c, c
		ls.agents.start(c)
		return
	}
}
