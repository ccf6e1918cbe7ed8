package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// fakeCompute is compute: its database, the state of its process, and what can be computed from both.
type fakeCompute struct {
	w *World
	*database
	hosts map[string]*hostState

	epoch  epoch           // of this process
	began  time.Duration   // when it began
	born   map[string]bool // servers that it has created
	waits  []string        // hosts whose first report it waits for before it goes on with what it was doing
	opened bool            // it waits no more
	odd    randomSet       // hosts that do not follow the assignments or have unassigned guests

	ids randomSet // of servers that are not deleted
	due randomSet // of those with steps
}

// hostState is what compute has of one host, by name.
type hostState struct {
	name    string
	row     *hostRow        // in the database
	servers map[string]bool // that stay there
	line    *line           // as it was made last
	seen    presence

	behindSince time.Duration
	unheard     bool            // oracle: it has not reported to the database that was restored last
	served      *simHost        // oracle: whose agent was admitted last
	admitted    string          // oracle: its start
	named       map[string]bool // oracle: guests that a line has named for removal for a reason
}

// line is what compute wants on a host.
type line struct {
	revision int64
	wants    []want
	remove   []removal
	changed  stamp // oracle: when it became so
}

// want is a guest that shall be on a host: an entry of its assignments.
type want struct {
	id, was  string
	server   string // id that users know
	requests []pci.Request
	parts    []numa.GuestCell
	off      bool
	build    int
	incoming bool
	outgoing string
	key      string // another one when anything of it is another
}

// store writes a record, and what follows from it.
func (o *fakeCompute) store(before, now lifecycle.Server) {
	if len(now.History) > 8 {
		now.History = now.History[len(now.History)-4:]
	}
	o.w.seq++
	o.servers[now.ID], o.versions[now.ID] = now, o.w.seq
	o.owners[now.ID], o.w.owners[now.ID] = now.ID, now.ID
	if now.Migration != nil {
		o.owners[now.Migration.ID], o.w.owners[now.Migration.ID] = now.ID, now.ID
	}
	o.keepRemovals(before, now)
	for _, s := range before.Residences() {
		if h := o.hosts[s.Host]; h != nil {
			delete(h.servers, now.ID)
		}
	}
	if now.State == lifecycle.Deleted {
		delete(o.servers, now.ID)
	}
	o.index(now)
	for _, host := range touched(before, now) {
		o.raise(o.hosts[host])
	}
	o.settleReasons(now)
	o.w.mind(now)
}

// keepRemovals records which guests a change leaves on hosts that an operator has declared dead.
func (o *fakeCompute) keepRemovals(before, now lifecycle.Server) {
	if o.w.broken == Unrecorded {
		return
	}
	for _, r := range lifecycle.EndedResidences(before, now) {
		if row := o.hosts[r.Host].row; row.dead {
			o.record(row, r.Consumer, now.ID)
		}
	}
}

// index notes where a record is to be found.
func (o *fakeCompute) index(s lifecycle.Server) {
	if o.due.drop(s.ID); len(s.Steps()) > 0 {
		o.due.add(s.ID)
	}
	if o.ids.add(s.ID); s.State == lifecycle.Deleted {
		o.ids.drop(s.ID)
		return
	}
	for _, stay := range s.Residences() {
		if h := o.hosts[stay.Host]; h != nil {
			h.servers[s.ID] = true
		}
	}
}

// raise counts a change of a host's assignments.
func (o *fakeCompute) raise(h *hostState) {
	h.row.revision++
	h.row.changed = stamp{o.branch, o.w.seq}
	o.w.markHost(h.name)
}

// touched lists the hosts whose assignments are not the same after a change, in order.
func touched(before, now lifecycle.Server) []string {
	was, is := keys(before), keys(now)
	hosts := map[string]bool{}
	for _, all := range []map[string]string{was, is} {
		for host := range all {
			hosts[host] = was[host] != is[host]
		}
	}
	maps.DeleteFunc(hosts, func(host string, other bool) bool { return !other || host == "" })
	return slices.Sorted(maps.Keys(hosts))
}

// keys says all that the assignments of each host say of a server.
func keys(s lifecycle.Server) map[string]string {
	out := map[string]string{}
	for _, e := range s.Entries() {
		out[e.Host] += "+" + key(s, e)
	}
	for _, r := range s.Removals() {
		out[r.Host] += "-" + r.Consumer + " " + r.PreviousConsumer
	}
	return out
}

// key says all that an entry says.
func key(s lifecycle.Server, e lifecycle.Entry) string {
	var b strings.Builder
	b.WriteString(e.Consumer + " " + e.PreviousConsumer + " " + string(e.Power) + " " + e.Outgoing)
	for _, from := range slices.Sorted(maps.Keys(e.DeviceMap)) {
		b.WriteString(" " + from + ">" + e.DeviceMap[from])
	}
	b.WriteByte(byte('0' + s.Builds%10))
	if e.Incoming {
		b.WriteString(" in")
	}
	for _, r := range e.Requests {
		b.WriteString(" " + r.ID)
		for _, p := range r.Providers {
			b.WriteString(" " + string(p))
		}
	}
	return b.String()
}

// tell gives a server an event.
func (o *fakeCompute) tell(id string, e lifecycle.Event) lifecycle.Server {
	before, known := o.servers[id]
	if !known {
		return lifecycle.Server{}
	}
	now, _ := lifecycle.Next(before, e, o.w.now)
	o.store(before, now)
	o.w.heard(before, e, now)
	return now
}

// guest takes in what a start of an agent tells of a guest that it knows by this id. errNo: another start serves the
// host, or the guest is not wanted there, build nothing. latest is not 0 when something newer is known: the number of
// that.
func (o *fakeCompute) guest(id, start string, e lifecycle.Report) (latest int64, err error) {
	row := o.hosts[e.Host].row
	if known := row.report; o.w.broken != Anyone && (!row.known || known.Instance != e.Instance || known.Start != start) {
		o.w.report.Happened["guest report of another start"]++
		return 0, errNo
	}
	o.w.reported(o.hosts[e.Host], id, start)
	if _, gone := e.Event.(lifecycle.GuestGone); gone && o.removalDone(row, id) {
		o.w.seq++
		o.raise(o.hosts[e.Host])
	}
	claimed, asks := e.Event.(lifecycle.GuestClaimed)
	if s, known := o.servers[o.owners[id]]; known && asks && !o.mayBuild(s, claimed) {
		return 0, errNo // it may run elsewhere
	}
	if failed, fails := e.Event.(lifecycle.GuestFailed); fails &&
		o.servers[o.owners[id]].Phase() == lifecycle.PreLiveMigration &&
		o.movedAhead(o.servers[o.owners[id]], failed.Consumer) {
		return 0, errNo
	}
	if row.dead {
		o.reason(o.owners[id], "dead")
	}
	heard := lifecycle.Event(e)
	if o.w.broken == Uncounted {
		heard = e.Event
	}
	s := o.tell(o.owners[id], heard)
	if latest = s.Latest(e.Host, e.Instance); e.Number < latest && o.w.broken != Uncounted {
		return latest, nil
	}
	if asks && (s.ID == "" || !s.Expects(id, claimed.Host)) {
		return 0, errNo
	}
	return 0, nil
}

// bury tells the servers on dead hosts.
func (o *fakeCompute) bury(h *hostState) {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		o.reason(id, "dead")
		o.tell(id, lifecycle.HostDead{Host: h.name})
	}
}

// host is what compute knows of a host, with the servers that it has placed there.
func (o *fakeCompute) host(m *simHost) schedule.Host {
	h := m.host.row.report
	h.Seen = o.w.now.Add(-o.sinceReport(m.host))
	for _, id := range slices.Sorted(maps.Keys(m.host.servers)) {
		s := o.servers[id]
		for _, stay := range s.Residences() {
			if stay.Host == m.name && len(stay.Requests)+len(stay.Topology) > 0 {
				h.Guests = append(h.Guests, schedule.Guest{ID: stay.Consumer, Requests: stay.Requests, Devices: stay.Devices,
					Cells: stay.Topology, Placed: stay.Cells})
			}
		}
	}
	o.correct(&h)
	return h
}

// correct makes devices available whose holders are known to be no longer on the host: the report is older than what
// its agent told of the guest. A holder whose guest the same report has is there all the same.
func (o *fakeCompute) correct(h *schedule.Host) {
	h.Devices = slices.Clone(h.Devices)
	for i, d := range h.Devices {
		owner, known := o.owners[d.Holder]
		if !known || d.State != schedule.Claimed && d.State != schedule.Allocated ||
			slices.ContainsFunc(h.Present, func(g schedule.Present) bool { return g.ID == d.Holder }) {
			continue
		}
		if !slices.ContainsFunc(o.servers[owner].Residences(), func(s lifecycle.Residence) bool {
			return s.Consumer == d.Holder && s.Host == h.Name
		}) {
			h.Devices[i].State, h.Devices[i].Holder = schedule.Available, ""
		}
	}
}
