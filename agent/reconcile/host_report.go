package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
)

// reportInterval is the maximum interval between two reports. Signs of life are sent between them.
const reportInterval = time.Minute

// reporter sends a host report at each change, and at least every reportInterval. Reports do not wait for the journal:
// a slow disk must not make the host silent.
type reporter struct {
	*core
	works    *works
	clean    *cleaner
	sending  bool
	sent     int           // version of the report in progress
	position host.Position // of the report in progress
	failures int
	retryAt  time.Time // after a failure; changes do not shorten the wait
	lastAt   time.Time // when the last report ended
}

// snapshot returns the host report as it would be sent now. Its position is the durable one: compute concludes from it
// what the agent has followed.
func (r *reporter) snapshot() host.Report {
	from := r.sender()
	out := host.Report{Host: r.config.Host, Instance: from.Instance, Start: from.Start, Previous: from.Previous,
		LockID: from.LockID, Provider: string(r.root), Devices: []host.Device{}, Conditions: []string{},
		Hypervisor: r.hypervisor, Down: r.down,
		InPlace: r.config.ReportInPlacement, Position: host.Position(r.durable.Position()), NotFollowed: r.notFollowed,
		Guests: r.works.presentGuests(), Cells: host.WriteCells(r.cells), Counted: countedGuests(r.state),
		CPURatio: r.config.CPUs.CPURatio, MemRatio: r.config.CPUs.MemoryRatio, Cleaned: r.clean.results(),
		NoDiskMoves: r.noDisks, DiskImages: r.diskImages, NoDiskImages: r.noDiskImages}
	for _, source := range slices.Sorted(maps.Keys(r.conditions)) {
		out.Conditions = append(out.Conditions, r.conditions[source]...)
	}
	for _, e := range r.set.Entries() {
		if e.Type == "" {
			out.Conditions = append(out.Conditions,
				e.ID().String()+": server "+string(e.Holder)+" holds it, but nothing else is known of it")
			continue
		}
		e.Spent = r.isSpent(e)
		out.Devices = append(out.Devices, host.WriteDevice(r.config.Host, e.Offered))
	}
	return out
}

// advance sends a report if one is due, or if an attempt waits for one.
func (r *reporter) advance() {
	if r.sending {
		return
	}
	if !r.now.Before(r.dueAt()) {
		r.version++ // report without a change
	}
	if r.delivered >= r.version || r.now.Before(r.retryAt) && !r.works.awaitingReport() {
		return
	}
	r.send()
}

// begin returns the report to send, and records that it is in progress.
func (r *reporter) begin() host.Report {
	report := r.snapshot()
	r.sending, r.sent, r.position = true, r.version, report.Position
	return report
}

// send emits a report.
func (r *reporter) send() {
	report := r.begin()
	r.do(ReportHost{Report: report})
}

// dueAt returns the time of the next report without a change.
func (r *reporter) dueAt() time.Time { return r.lastAt.Add(min(r.config.Rescan, reportInterval)) }

// deadline returns the time at which advance has something to do; zero when a report is in progress.
func (r *reporter) deadline() time.Time {
	switch {
	case r.sending:
		return time.Time{}
	case r.delivered < r.version:
		return r.retryAt
	}
	return r.dueAt()
}

// ended records the answer of compute to a report. A Conflict means that another agent serves the host; an accepted
// report, that this one does.
func (r *reporter) ended(err error) {
	r.sending, r.lastAt = false, r.now
	if err == nil {
		r.failures, r.retryAt = 0, time.Time{}
		r.delivered, r.acknowledged = r.sent, r.position
		r.unfence()
		r.acknowledgeStart()
	} else {
		r.failures++
		r.retryAt = r.now.Add(r.backoff(r.failures))
		r.warn("host report failed, will retry", "error", err)
		r.fence(err)
	}
	r.works.hostReported(r.sent, err)
}
