package sim

import (
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// presence is what compute has observed of the agents of a host since it began. It is measured by the clock that nobody
// sets.
type presence struct {
	sign     time.Duration // last report, or end of a stream
	at       time.Duration // last report
	reported bool
	streams  map[string]int // open ones, by start
	knocked  bool           // a start was turned away
	behind   bool
	guests   []schedule.Present
}

func newPresence(now time.Duration) presence { return presence{sign: now, streams: map[string]int{}} }

// closed records the end of a stream.
func (p *presence) closed(start string, now time.Duration) {
	if p.streams[start]--; p.streams[start] <= 0 {
		delete(p.streams, start)
	}
	p.sign = now
}

// freshen records the life signs of an agent that is about to fall silent: it has reported within the last minute.
// These reports are no operations of the simulation.
func (o *fakeCompute) freshen(m *simHost) {
	if p := &m.host.seen; o.admitted(m.host) == m && p.reported {
		p.sign, p.at = o.w.clock, o.w.clock
	}
}

// admitted is the machine whose agent serves the host and can be heard, nil when none is.
func (o *fakeCompute) admitted(h *hostState) *simHost {
	serving := func(m *simHost) bool {
		a := m.agent
		return a != nil && !m.cut && a.phase == serves && !a.displaced && h.row.known && a.start == h.row.report.Start
	}
	if m := o.w.byName[h.name]; serving(m) {
		return m
	}
	for _, c := range o.w.copies {
		if c.name == h.name && serving(c) {
			return c
		}
	}
	return nil
}

// sinceReport is the age of the last report of a host.
func (o *fakeCompute) sinceReport(h *hostState) time.Duration {
	const soon = 30 * time.Second
	p := &h.seen
	switch {
	case p.reported && o.admitted(h) != nil:
		return 0
	case p.reported:
		return o.w.clock - p.at
	case o.w.clock-o.began < soon:
		return 0
	}
	return o.w.clock - o.began + schedule.Silence
}

// touchReports records the reports of the last minute, which are no operations of the simulation.
func (o *fakeCompute) touchReports() {
	w := o.w
	for _, m := range w.hosts {
		if o.admitted(m.host) == nil {
			continue
		}
		age := time.Duration(w.rng.IntN(60)) * time.Second
		seen := w.now.Add(-age)
		if w.jumped > 0 && w.clock-w.jumped < age {
			seen = seen.Add(-w.jump)
		}
		m.host.row.report.Seen = seen
	}
}

// signs are what admission is judged by.
func (o *fakeCompute) signs(h *hostState) schedule.Liveness {
	s := schedule.Liveness{Streams: h.seen.streams[h.row.report.Start], Quiet: o.w.clock - h.seen.sign}
	if o.admitted(h) != nil {
		s.Quiet = 0
	}
	return s
}

// refuses says why a start of an agent may not serve a host now, and after how long it may ask again.
func (o *fakeCompute) refuses(h *hostState, from schedule.Sender) (refusal string, wait time.Duration) {
	if !h.row.known || o.w.broken == Doubles {
		return "", 0
	}
	refusal, wait = h.row.report.Admit(from, o.signs(h))
	h.seen.knocked = h.seen.knocked || refusal != ""
	return refusal, wait
}

// takeReport stores the report of a host and admits the start that sends it.
func (o *fakeCompute) takeReport(m *simHost, r schedule.Host) (wait time.Duration, admitted bool) {
	h, from := m.host, m.sender()
	refusal, wait := o.refuses(h, from)
	if refusal != "" {
		return wait, false
	}
	o.w.admits(m)
	if p := m.book.position; r.Behind == "" && p.Epoch != 0 {
		r.Behind = p.Accept(o.head(h, o.past(h, p)))
	}
	r.Instance, r.Start, r.ProcessSpace, r.Seen = from.Instance, from.Start, from.ProcessSpace, o.w.now
	h.row.report, h.row.known, h.unheard = r, true, false
	h.seen.sign, h.seen.at, h.seen.reported = o.w.clock, o.w.clock, true
	o.observe(h)
	return 0, true
}

// observe takes from the last report of a host what contradicts records: it is also what a process of compute begins
// with.
func (o *fakeCompute) observe(h *hostState) {
	h.seen.behind, h.seen.guests = h.row.report.Behind != "", h.row.report.Present
	o.odd.drop(h.name)
	if h.seen.behind || slices.ContainsFunc(h.seen.guests, func(g schedule.Present) bool { return !g.Assigned }) {
		o.odd.add(h.name)
	}
}

// silent says whether nobody on a host would answer.
func (o *fakeCompute) silent(host string) bool {
	h := o.hosts[host]
	if h == nil || h.row.dead || !h.row.known {
		return true
	}
	quiet := o.w.clock - h.seen.sign
	if o.admitted(h) != nil {
		quiet = 0
	}
	if o.w.broken == WallClock {
		return quiet+o.w.skewed() >= schedule.Silence
	}
	return len(h.seen.streams) == 0 && quiet >= schedule.Silence
}

// gate says whether compute may go on with what it was doing when it began: the hosts whose agents were alive before
// have reported. It waits for those that have been turned away, too: a database that was restored knows an earlier
// start of them. An agent that can report does so in time: the simulation's operations take longer than those of a
// cloud.
func (o *fakeCompute) gate() bool {
	const firstReports, mostReports = schedule.Reconnect, time.Hour
	if o.opened || o.w.broken == Ungated {
		return true
	}
	since := o.w.clock - o.began
	for _, name := range o.waits {
		h := o.hosts[name]
		if !h.seen.reported && (since < firstReports || o.willReport(h) || h.seen.knocked && since < mostReports) {
			return false
		}
	}
	o.opened = true
	for _, m := range slices.Concat(o.w.hosts, o.w.copies) {
		if m.host.unheard && len(m.guests) > 0 { // nobody can know of its guests, see oracle.go
			o.w.report.Happened["restored without a host"]++
			m.zombie = true
		}
	}
	return true
}

// willReport says whether an agent of a host is about to report.
func (o *fakeCompute) willReport(h *hostState) bool {
	return slices.ContainsFunc(o.w.machines(h.name), func(m *simHost) bool { return m.agent != nil && !m.cut })
}

// mayWrite says whether a step that writes to Placement may be done for a server now.
func (o *fakeCompute) mayWrite(s lifecycle.Server) bool {
	if !o.born[s.ID] && !o.gate() {
		o.w.report.Happened["held back by the gate"]++
		return false
	}
	return !o.contradicted(s, "")
}

// contradicted reports whether the guests of a host contradict the record of a server, except on one host.
func (o *fakeCompute) contradicted(s lifecycle.Server, except string) bool {
	for _, name := range o.odd.list {
		h := o.hosts[name]
		if name != except && !h.row.dead && s.Contradicts(name, h.seen.behind, h.seen.guests) && o.w.broken != Careless {
			o.w.report.Happened["held back by a guest"]++
			return true
		}
	}
	return false
}

// mayBuild says whether a host may build a guest of a server now.
func (o *fakeCompute) mayBuild(s lifecycle.Server, claim lifecycle.GuestClaimed) bool {
	if !o.born[s.ID] && !o.gate() || o.contradicted(s, claim.Host) {
		return false
	}
	here := slices.DeleteFunc(slices.Clone(o.hosts[claim.Host].seen.guests), func(g schedule.Present) bool {
		return g.ID == claim.Consumer
	})
	if s.Contradicts(claim.Host, false, here) && o.w.broken != Careless {
		o.w.report.Happened["another guest on the host"]++
		return false
	}
	return !o.movedAhead(s, claim.Consumer)
}

// movedAhead reports whether the guest of a consumer at the source of a move is no longer the server's.
func (o *fakeCompute) movedAhead(s lifecycle.Server, consumer string) bool {
	h := o.hosts[s.Host]
	if h == nil || h.row.dead || o.w.broken == Careless || !s.MovedAhead(consumer, h.seen.guests) {
		return false
	}
	o.w.report.Happened["move that has ended"]++
	return true
}

// begin starts a process of compute on its database.
func (o *fakeCompute) begin() {
	w := o.w
	var last int64
	for _, e := range o.epochs {
		last = max(last, e.number)
	}
	for _, h := range o.hosts {
		h.row.end(last)
		h.seen, h.line = newPresence(w.clock), nil
	}
	o.epoch = epoch{last + 1, w.name("e")}
	o.epochs = append(slices.Clone(o.epochs), o.epoch)
	o.began, o.born, o.opened, o.odd, o.waits = w.clock, map[string]bool{}, false, randomSet{}, nil
	for _, m := range w.hosts {
		o.observe(m.host)
		if row := m.host.row; row.known && !row.dead {
			o.waits = append(o.waits, m.name)
		}
	}
}
