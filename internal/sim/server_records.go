package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
)

// line is what compute assigns to a host.
type line struct {
	revision int64
	servers  []host.Server
	remove   []removal
	changed  stamp // oracle: when the revision was raised
}

// put stores a record, and what follows from it.
func (o *compute) put(before, now lifecycle.Server) {
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
		o.raiseRevision(o.hosts[host])
	}
	o.settleReasons(now)
	o.w.markResidences(now)
	if o.guest != nil {
		o.w.reported(o.guest.host, o.guest.id, o.guest.start)
	}
	o.w.logChange(before, o.event, now)
}

// keepRemovals records the guests that a change leaves on dead hosts.
func (o *compute) keepRemovals(before, now lifecycle.Server) {
	if o.w.broken == Unrecorded {
		return
	}
	for _, r := range lifecycle.EndedResidences(before, now) {
		if row := o.hosts[r.Host].row; row.dead {
			o.recordRemoval(row, r.Consumer, now.ID)
		}
	}
}

// index adds a record to the lists by which it is found.
func (o *compute) index(s lifecycle.Server) {
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

// raiseRevision counts a change of a host's assignments.
func (o *compute) raiseRevision(h *hostState) {
	h.row.revision++
	h.row.changed = stamp{o.branch, o.w.seq}
	o.w.markHost(h.name)
}

// touched lists the hosts whose assignments a change affects, sorted.
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

// keys returns a text for each host that contains everything its assignments say of a server.
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

// key returns a text that contains everything an entry says.
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
