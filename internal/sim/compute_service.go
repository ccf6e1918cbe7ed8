package sim

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// silence is how long compute waits for a sign of life of an agent. The simulation's heartbeats come within a minute.
const silence = 3 * time.Minute

// startProcess starts a process of compute on its database.
func (cm *computeModel) startProcess() {
	var last int64
	for _, e := range cm.epochs {
		last = max(last, e.number)
	}
	for _, h := range cm.states {
		h.row.endEpoch(last)
		h.reported, h.refused, h.sign, h.line = false, false, cm.clock, nil
	}
	p := &process{kernel: cm.kernel, epoch: epoch{last + 1, cm.name("e")}, began: cm.clock, safe: true}
	cm.epochs = append(slices.Clone(cm.epochs), p.epoch)
	cm.process = p
	client := cm.placement.Client(p.placementFault)
	c := conductor.New(&store{cm, p}, cm.placement.brokenPlacement(client), conductor.Config{
		Options: conductor.Options{Log: slog.New(slog.DiscardHandler), Aliases: cm.aliases, PCIInPlacement: true,
			Silence: silence, FollowWithin: slowness * time.Minute},
		Clock: conductor.Clock{Now: func() time.Time { return cm.now }, Since: p.since,
			Pause: func(context.Context, int) {}, Wait: cm.wait, NewID: func() string { return cm.name("r") }},
		Providers: client, Network: networkClient{cm.network, p}, Images: imageClient{cm.images, p}})
	p.conductor = c
	if cm.options.Held {
		c.ReclaimInterval, c.OffloadTime = heldFor, heldFor
	}
	for _, m := range cm.hosts {
		if row := m.host.row; row.known && !row.dead {
			p.awaited = append(p.awaited, m.name)
		}
	}
	err := c.Resume(background)
	if err == nil {
		p.reported, err = c.Agents.AwaitReports(background)
	}
	if err != nil {
		cm.violation(nil, "start: compute cannot start: %v", err)
	}
	if p.safe = false; cm.broken == Ungated {
		c.Agents.StopAwaiting()
		p.opened = true // so that no host is exempt from the checks
	}
}

// restartEnded starts compute again after its process has ended in a call.
func (cm *computeModel) restartEnded() {
	if cm.ended {
		cm.stopProcess()
		cm.startProcess()
	}
}

// stopProcess ends the process of compute: all streams end. Some agents have yet to read what was sent to them.
func (cm *computeModel) stopProcess() {
	cm.touchReports()
	cm.ended = true
	for _, m := range slices.Concat(cm.hosts, cm.copies) {
		a := m.agent
		if a == nil || a.stream == nil {
			continue
		}
		if a.hasNews(m) && cm.halfTheTime() && a.inbox == nil {
			d := cm.deliver(m.host, a.stream.past)
			a.inbox = &d
		}
		a.stream, a.ended = nil, true
		cm.mark(m)
	}
}

// perform performs the step that is due for a server.
func (cm *computeModel) perform(id string) {
	cm.watchGate()
	before := cm.servers[id]
	err := cm.conductor.Perform(background, id)
	if fault.KindOf(err) == fault.Unavailable && cm.contradicted(before) {
		cm.report.Happened["held back by a guest"]++
	}
	if now, exists := cm.servers[id]; !exists || len(now.Steps()) == 0 {
		cm.due.drop(id)
	} else if before.State == lifecycle.Claiming && now.Try > before.Try {
		cm.report.Happened["claim lost"]++
	}
}

// touchReports stores when the reports of the last minute came, before the process ends or the database is copied.
func (cm *computeModel) touchReports() {
	for _, m := range cm.hosts {
		if cm.servedBy(m.host) == nil {
			continue
		}
		age := time.Duration(cm.rng.IntN(60)) * time.Second
		m.host.row.report.Seen = beginning().Add(cm.clock - age + cm.skewAt(cm.clock-age))
	}
}

// remove requests the deletion of a server.
func (cm *computeModel) remove(id string) {
	s := cm.servers[id]
	cm.note("delete", id, s.Host, string(s.State))
	cm.reason(id, "delete")
	cm.event = lifecycle.DeleteRequested{}
	cm.retryLater(id, cm.conductor.ForceDelete(background, id, lifecycle.Caller{}))
	cm.event = nil
	if cm.broken == Early && cm.servers[id].State == lifecycle.DeletingGuest {
		cm.placement.drop(resource.ConsumerID(id))
	}
}

// requestClean is `berth device clean`: it refuses devices that need not be cleaned, or that a server has.
func (cm *computeModel) requestClean(m *simHost, d pci.Offered) bool {
	if !d.Spent || d.Holder != "" {
		return false
	}
	row := m.host.row
	if row.cleans == nil {
		row.cleans = map[pci.Address]time.Time{}
	}
	row.cleans[d.Address] = beginning().Add(cm.clock)
	cm.note("clean", "", m.tag, d.Address.String())
	cm.raiseRevision(m.host)
	return true
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
	for _, m := range slices.Concat(cm.hosts, cm.copies) {
		m.restoreService()
	}
	for _, m := range cm.hosts {
		m.host.unheard = true
		if m.host.row.dead { // an operator declared it dead before the backup
			cm.mayHaveGuests(m)
		}
	}
}

// loseDatabase starts compute on a new database.
func (cm *computeModel) loseDatabase() {
	cm.report.Happened["database lost"]++
	cm.replaceDatabase(newDatabase(cm.name("cloud"), cm.states), stamp{})
}

// outOfReach reports whether compute has had no sign of life of a host for so long that an operator may evacuate it.
func (cm *computeModel) outOfReach(name string) bool {
	h := cm.states[name]
	return h.row.dead || cm.servedBy(h) == nil && cm.clock-h.sign >= schedule.Silence
}

// enable is `berth device enable`.
func (cm *computeModel) enableDevice(m *simHost, at pci.Address) {
	r := m.host.row.devices.made()
	r.enable[cm.name("enable")] = at
	if d, is := r.disabled[at]; is {
		r.enable[d.ID] = at
		delete(r.disabled, at)
	}
	for _, d := range m.host.row.report.Disabled {
		if d.Address == at {
			r.enable[d.ID] = at
		}
	}
	for _, o := range cm.machines(m.name) {
		delete(o.service.out, at)
		o.service.enable(r.enable)
	}
	cm.note("enable", "", m.tag, at.String())
	cm.raiseRevision(m.host)
}
