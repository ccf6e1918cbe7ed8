package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/guests"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// reportInterval is the maximum interval between two reports. Signs of life are sent between them.
const reportInterval = time.Minute

// reporter sends a host report at each change, and at least every reportInterval. Reports do not wait for the journal:
// a slow disk must not make the host silent.
type reporter struct {
	*state.Core
	works    *guests.Works
	clean    *cleaner
	disabled *disabler
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
	from := r.Sender()
	out := host.Report{Host: r.Config.Host, Instance: from.Instance, Start: from.Start, Previous: from.Previous,
		LockID: from.LockID, Provider: string(r.Root), Devices: []host.Device{}, Conditions: []condition.Condition{},
		Hypervisor: r.Hypervisor, Down: r.Down, Booted: r.Config.Machine.Booted, HostIP: r.Config.Machine.Address,
		InPlace: r.Config.ReportInPlacement, Position: host.Position(r.Durable.Position()), NotFollowed: r.NotFollowed,
		Guests: r.works.PresentGuests(), Cells: host.WriteCells(r.Cells),
		Nodes: host.WriteNodes(r.Nodes), NodesInPlacement: treeplan.OnNodes(r.Tree), Counted: state.CountedGuests(r.State),
		CPURatio: r.Config.CPUs.CPURatio, MemRatio: r.Config.CPUs.MemoryRatio, Cleaned: r.clean.results(),
		NoDiskMoves: r.NoDisks, MoveAddress: r.MoveAddress, DiskImages: r.DiskImages, NoDiskImages: r.NoDiskImages}
	r.disabled.report(&out)
	for _, key := range slices.Sorted(maps.Keys(r.Conditions)) {
		out.Conditions = append(out.Conditions, r.Conditions[key]...)
	}
	for _, e := range r.Set.Entries() {
		if e.Type == "" {
			out.Conditions = append(out.Conditions, condition.New(condition.UnknownDevice, e.ID().String(),
				e.ID().String()+": server "+string(e.Holder)+" holds it, but nothing else is known of it"))
			continue
		}
		e.Spent = r.IsSpent(e)
		out.Devices = append(out.Devices, host.WriteDevice(r.Config.Host, e.Offered))
	}
	return out
}

// advance sends a report if one is due, or if an attempt waits for one.
func (r *reporter) advance() {
	if r.sending {
		return
	}
	if !r.Now.Before(r.dueAt()) {
		r.Version++ // report without a change
	}
	if r.Delivered >= r.Version || r.Now.Before(r.retryAt) && !r.works.AwaitingReport() {
		return
	}
	r.send()
}

// begin returns the report to send, and records that it is in progress.
func (r *reporter) begin() host.Report {
	report := r.snapshot()
	r.sending, r.sent, r.position = true, r.Version, report.Position
	return report
}

// send emits a report.
func (r *reporter) send() {
	report := r.begin()
	r.Do(state.ReportHost{Report: report})
}

// dueAt returns the time of the next report without a change.
func (r *reporter) dueAt() time.Time { return r.lastAt.Add(min(r.Config.Rescan, reportInterval)) }

// deadline returns the time at which advance has something to do; zero when a report is in progress.
func (r *reporter) deadline() time.Time {
	switch {
	case r.sending:
		return time.Time{}
	case r.Delivered < r.Version:
		return r.retryAt
	}
	return r.dueAt()
}

// ended records the answer of compute to a report. A Conflict means that another agent serves the host; an accepted
// report, that this one does.
func (r *reporter) ended(err error) {
	r.sending, r.lastAt = false, r.Now
	if err == nil {
		r.failures, r.retryAt = 0, time.Time{}
		r.Delivered, r.Acknowledged = r.sent, r.position
		r.Unfence()
		r.AcknowledgeStart()
	} else {
		r.failures++
		r.retryAt = r.Now.Add(r.Backoff(r.failures))
		r.Warn("host report failed, will retry", "error", err)
		r.Fence(err)
	}
	r.works.HostReported(r.sent, err)
}
