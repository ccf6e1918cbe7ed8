package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The kinds of operations that take away or bring back files, processes and time.
const (
	Reborn  = "reborn"  // compute is restarted
	Backup  = "backup"  // compute's database is copied, or Placement's, or both
	Restore = "restore" // one of these copies replaces what is there
	Copy    = "copy"    // an agent's directory is copied to another machine, which tries to serve the host
	Replace = "replace" // a machine is lost, and another one with a copy of its agent's directory takes its place
	Jump    = "jump"    // the wall clock of compute is set
	Lose    = "lose"    // an agent's journal is lost, or compute's database, or all of them
	Forget  = "forget"  // an operator has compute forget a host
)

// seldom says yes one time in n.
func (w *World) seldom(n int) bool { return w.rng.IntN(n) == 0 }

// fleet is by how much more seldom something happens that concerns all hosts: the more there are, the longer they take
// to come through it.
func (w *World) fleet() int { return max(1, len(w.hosts)/40) }

// rebornSome restarts compute.
func (w *World) rebornSome() {
	if !w.seldom(3 * w.fleet()) {
		return
	}
	w.note(Reborn, "", "", "")
	w.stopCompute()
	w.office.begin()
}

// stopCompute ends the process of compute: all streams end. Some agents have yet to read what was sent to them.
func (w *World) stopCompute() {
	w.office.touchReports()
	for _, m := range slices.Concat(w.hosts, w.copies) {
		a := m.agent
		if a == nil || !a.connected {
			continue
		}
		if !m.cut && a.read != m.host.row.revision && w.halfTheTime() && m.inbox == nil {
			d := w.office.deliver(m.host, a.past)
			m.inbox = &d
		}
		a.connected = false
		w.mark(m)
	}
}

// keptBackups is how many backups there are at most; of more the oldest is thrown away.
const keptBackups = 4

// backupSome copies a database, or both of one moment.
func (w *World) backupSome() {
	b := backup{taken: w.n}
	which := w.rng.IntN(3)
	if w.office.touchReports(); which != 1 {
		b.db, b.seq = w.office.database.clone(), w.seq
	}
	if which != 0 {
		b.ledger = w.ledger.clone()
	}
	w.note(Backup, "", "", b.String())
	w.backups = append(w.backups, b)
	w.backups = w.backups[max(0, len(w.backups)-keptBackups):]
}

// restoreSome brings a backup back.
func (w *World) restoreSome() {
	if len(w.backups) == 0 || often[w.broken] != Restore && !w.seldom(8*w.fleet()) {
		return
	}
	b := w.backups[w.rng.IntN(len(w.backups))]
	w.note(Restore, "", "", b.String())
	if b.ledger != nil {
		w.report.Happened["Placement restored"]++
		w.restoreLedger(b.ledger)
	}
	if b.db != nil {
		w.report.Happened["compute restored"]++
		w.replaceDatabase(b.db.clone(), stamp{b.db.branch, b.seq})
	}
}

// replaceDatabase starts compute on another database. Servers whose records are not what they were are noted.
func (w *World) replaceDatabase(db *database, parent stamp) {
	w.stopCompute()
	before := w.office.versions
	for _, versions := range []map[string]int{before, db.versions} {
		for id := range versions {
			if before[id] != db.versions[id] {
				w.rolled[id] = true
			}
		}
	}
	for _, rows := range []map[string]*hostRow{w.office.rows, db.rows} {
		for name, row := range rows {
			for consumer, server := range row.removals {
				if w.office.rows[name].removals[consumer] != db.rows[name].removals[consumer] {
					w.rolled[server] = true
				}
			}
		}
	}
	db.branch = w.branchOff(parent)
	w.office.use(db)
	w.office.begin()
	for _, m := range w.hosts {
		m.host.unheard = true
		if m.host.row.dead { // an operator has said so, once
			w.sayDead(m)
		}
	}
}

// restoreLedger makes Placement's database an earlier one. What servers hold according to it is not what they held.
func (w *World) restoreLedger(l *fakePlacement) {
	before := w.ledger.consumers
	w.ledger.restore(l)
	for _, all := range []map[resource.ConsumerID]consumer{before, w.ledger.consumers} {
		for c := range all {
			if !before[c].holds.Equal(w.ledger.consumers[c].holds) {
				w.robbed[w.owners[string(c)]] = true
			}
		}
	}
	delete(w.robbed, "")
	w.others = nil
	for _, c := range slices.Sorted(maps.Keys(w.ledger.consumers)) {
		if strings.HasPrefix(string(c), foreign) {
			w.others = append(w.others, string(c))
		}
	}
	for _, m := range slices.Concat(w.hosts, w.copies) {
		w.changed(m)
	}
}

// foreign is how the names of others than Berth's consumers begin.
const foreign = "x"

// clone returns a copy of what Placement has.
func (l *fakePlacement) clone() *fakePlacement {
	out := newLedger(nil)
	for id, p := range l.providers {
		next := *p
		out.providers[id] = &next
	}
	for root, list := range l.trees {
		out.trees[root] = slices.Clone(list)
	}
	out.consumers = maps.Clone(l.consumers)
	return out
}

// restore makes the ledger say what another one says.
func (l *fakePlacement) restore(from *fakePlacement) {
	from = from.clone()
	roots := map[provider.ID]bool{}
	for _, trees := range []map[provider.ID][]provider.ID{l.trees, from.trees} {
		for root := range trees {
			roots[root] = true
		}
	}
	l.providers, l.trees, l.consumers = from.providers, from.trees, map[resource.ConsumerID]consumer{}
	l.uses, l.sums = map[provider.ID]map[resource.ConsumerID]resource.Amounts{}, map[provider.ID]resource.Amounts{}
	generations := map[provider.ID]int{}
	for id, p := range l.providers {
		generations[id] = p.Generation
	}
	for _, c := range slices.Sorted(maps.Keys(from.consumers)) {
		l.write(c, from.consumers[c])
	}
	for id, p := range l.providers {
		p.Generation = generations[id]
	}
	for root := range roots {
		l.stale[root] = true
	}
}

// jumpSome sets the wall clock of compute forward or back by minutes to hours, or right.
func (w *World) jumpSome() {
	before := w.skew
	if w.skew = 0; !w.seldom(4) {
		w.skew = time.Duration(w.rng.IntN(361)-180) * time.Minute
	}
	w.jumped, w.jump = w.clock, w.skew-before
	w.note(Jump, "", "", w.jump.String())
	w.report.Happened["clock set"]++
	w.pass(0)
}

// loseSome loses the journal of an agent, or all journals, or compute's database, or all of that.
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
	w.halt(m)
	m.book = newBook()
}

// loseDatabase starts compute on a new database.
func (w *World) loseDatabase() {
	w.report.Happened["database lost"]++
	w.replaceDatabase(newDatabase(w.name("cloud"), w.hosts, 0), stamp{})
}

// forgetSome has compute forget a host, as operators do with one that will never return.
func (w *World) forgetSome() {
	for _, m := range w.hosts {
		row := m.host.row
		if !row.known || !w.office.silent(m.name) || len(m.host.seen.streams) > 0 ||
			w.office.admitted(m.host) != nil || len(m.host.servers) > 0 {
			continue
		}
		tree := slices.Clone(w.ledger.trees[m.root])
		if slices.ContainsFunc(tree, func(id provider.ID) bool { return len(w.ledger.uses[id]) > 0 }) {
			continue
		}
		w.note(Forget, "", m.tag, fmt.Sprint(len(m.guests), " guests"))
		w.report.Happened["host forgotten"]++
		for _, id := range slices.Backward(tree) {
			_ = w.ledger.deleteProvider(id)
		}
		for _, c := range slices.Sorted(maps.Keys(row.removals)) {
			w.office.removalDone(row, c)
		}
		row.report, row.known, row.dead = schedule.Host{}, false, false
		w.seq++
		w.office.raise(m.host)
		m.orphaned = true
		return
	}
}
