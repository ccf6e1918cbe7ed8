package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/resource"
)

// maxRounds is how long the way to a rest may be. In a round each server does its steps and each agent all that is due.
const maxRounds = 60

func offers(f survey.Facts) []device.Offer { return survey.Offers(f) }

// rest lets the failures stop, brings all hosts back, and sees whether the cloud comes to rest.
func (w *World) rest() {
	w.calm = true
	defer func() { w.calm = false }()
	for _, id := range w.others {
		w.ledger.drop(resource.ConsumerID(id))
	}
	w.others = nil
	for len(w.late) > 0 {
		w.arrive()
	}
	for _, m := range w.hosts {
		clear(m.away)
		if m.agent == nil || m.cut {
			w.bring(m)
		}
		m.dead = false
		w.settle(m)
		w.changed(m)
	}
	w.report.Rests++
	rescanned := false
	for round := 1; w.failure == ""; round++ {
		if round > maxRounds {
			w.checkAll()
			w.miss(nil, "rest: the cloud is still busy after %d rounds", maxRounds)
			return
		}
		if w.round() {
			continue
		}
		if w.report.Deepest = max(w.report.Deepest, round); rescanned {
			break
		}
		rescanned = true
		w.rescan()
	}
	for _, m := range w.hosts {
		m.zombie = false
	}
	clear(w.robbed)
	if w.failure == "" {
		w.checkAll()
	}
}

// rescan has agents look again at those from whom somebody took a share, as each agent does from time to time: while another had something
// of the same provider, it could not be written anew.
func (w *World) rescan() {
	for _, id := range slices.Sorted(mapsKeys(w.robbed)) {
		if m := w.byName[w.office.servers[id].Host]; m != nil {
			w.changed(m)
		}
	}
}

// settle takes a configuration back that the host's guests do not allow: one that was made while a device was away that is back now.
func (w *World) settle(m *machine) {
	for range m.rules {
		f := w.facts(m)
		f.Held = m.agent.set.Claims()
		if _, _, err := survey.Desired(f); err == nil {
			return
		}
		m.rule = (m.rule + 1) % len(m.rules)
	}
}

// round lets everybody do what is due, and says whether anybody did something.
func (w *World) round() (busy bool) {
	for _, id := range slices.Sorted(slices.Values(w.office.due.list)) {
		s := w.office.servers[id]
		for range 8 {
			if now := w.office.servers[id]; len(now.Steps()) == 0 {
				break
			}
			w.office.perform(id)
		}
		now := w.office.servers[id]
		busy = busy || s.State != now.State || s.Try != now.Try || s.Round != now.Round || len(s.Left) != len(now.Left)
	}
	for _, m := range w.hosts {
		for n := 0; n < 40 && w.act(m); n++ {
			busy = true
		}
		w.checkMarked()
	}
	return busy
}

// end deletes everything. Then nobody may hold anything.
func (w *World) finish() {
	if w.rest(); w.failure != "" {
		return
	}
	w.calm = true
	for _, id := range slices.Sorted(mapsKeys(w.office.servers)) {
		w.remove(id)
	}
	if w.rest(); w.failure != "" {
		return
	}
	if n := len(w.ledger.consumers); n > 0 {
		w.miss(nil, "orphan: all servers are deleted, and %d consumers hold something", n)
	}
	if n := len(w.office.servers); n > 0 {
		w.miss(nil, "rest: all servers are deleted, and %d are not gone", n)
	}
	for _, m := range w.hosts {
		begun := slices.ContainsFunc(slices.Collect(maps.Values(m.book.renames)), func(r rename) bool { return !r.done }) // the others are forgotten with the next line
		if len(m.standing()) > 0 || begun {
			w.miss(m, "left: all servers are deleted, and the host has %v", m.standing())
		}
	}
}
