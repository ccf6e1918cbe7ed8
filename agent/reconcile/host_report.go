package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
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
		d := e.Device
		if d.Type == "" {
			out.Conditions = append(out.Conditions,
				e.ID().String()+": server "+string(e.Holder)+" holds it, but nothing else is known of it")
			continue
		}
		one := host.Device{
			Host: r.config.Host, Address: e.ID().String(), VendorID: d.Vendor, ProductID: d.Product,
			Type: string(d.Type), NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup,
			ResourceClass: string(e.Class), Traits: host.Strings(e.Traits), Provider: string(e.Provider),
			State: string(e.State), Holder: string(e.Holder), RequestID: e.Request, ForPorts: e.ForPorts,
			RemoteManaged: e.RemoteManaged, LiveMigratable: string(e.LiveMigratable),
			DevicePort: devicePort(e),
			OneTimeUse: slices.Contains(e.Traits, survey.OneTimeUse), Spent: r.isSpent(e),
		}
		if d.Parent != nil {
			one.Parent = d.Parent.String()
		}
		out.Devices = append(out.Devices, one)
	}
	return out
}

// devicePort returns the properties of a device for network ports. How its card is found is reported for
// remote-managed devices only, and the MAC address of a NIC, which its port gets, for those of ports.
func devicePort(e device.Entry) host.DevicePort {
	out := host.DevicePort{PhysicalNetwork: e.Network.PhysicalNetwork, Trusted: e.Network.Trusted}
	switch {
	case e.RemoteManaged:
		out.CardSerial, out.PFMAC, out.VFNumber = e.Device.Serial, e.Device.PFMAC, e.Device.VFNumber
	case e.ForPorts && pci.PortClass(e.Device) == pci.PortNIC:
		out.PFMAC = e.Device.PFMAC
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
