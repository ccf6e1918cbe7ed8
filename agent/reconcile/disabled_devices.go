package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// disabler takes devices out of service and puts them back, as operators request it. The journal has the disablements,
// so that they hold while compute does not answer.
type disabler struct {
	*state.Core
	checks *checker

	enabling map[string]bool // ids that compute names in EnableDevices
	answers  []enableAnswer  // by id
}

// enableAnswer is an answer that may be reported when a number of entries of the journal are written, and when
// Placement no longer reserves the device: after a sync that has begun after those before.
type enableAnswer struct {
	id            string
	after, before int
	released      bool
}

// receive follows the disablements of a line. What it does not name stays.
func (d *disabler) receive(l host.Assignments) {
	before := d.enabling
	d.enabling = map[string]bool{}
	for _, e := range l.EnableDevices {
		d.enabling[e.ID] = true
		if at, err := device.ParseID(e.Address); err == nil && !before[e.ID] {
			d.ReleaseReserved(at)
		}
	}
	d.answers = slices.DeleteFunc(d.answers, func(a enableAnswer) bool { return !d.enabling[a.id] })
	changed := false
	for _, wire := range l.DisabledDevices {
		want, err := wire.Read()
		if err != nil {
			d.Condition(condition.Disable, wire.Address, fmt.Sprintf("device %q is not disabled: it is not a PCI address; "+
				"disable it with an address of `berth device list`", wire.Address))
			continue
		}
		if _, known := d.State.Disablement(want.ID); known || want.Expired(d.Now) {
			continue
		}
		d.end(func(x pci.Disablement) bool { return !x.Check && x.Address == want.Address })
		want.Check = false
		d.Record(journal.Disabled(want))
		d.Log("device disabled", "address", want.Address.String(), "reason", want.Reason)
		changed = true
	}
	if changed {
		d.DisabledChanged()
	}
}

// advance ends the disablements that have expired or that compute names, and releases the answers. The finding of a
// health check ends when the device passes the next one.
func (d *disabler) advance() {
	ended := d.end(func(x pci.Disablement) bool {
		return x.Expired(d.Now) || d.enabling[x.ID] && !d.checks.recheck(x)
	})
	if ended {
		d.DisabledChanged()
	}
	for _, id := range slices.Sorted(maps.Keys(d.enabling)) {
		_, known := d.State.Disablement(id)
		answered := slices.ContainsFunc(d.answers, func(a enableAnswer) bool { return a.id == id })
		if !known && !answered {
			d.answers = append(d.answers, enableAnswer{id: id, after: d.Recorded, before: d.Syncs.Begun})
			d.WantSync = true
		}
	}
	for i := range d.answers {
		if a := &d.answers[i]; !a.released && a.after <= d.Written && a.before < d.Syncs.Whole {
			a.released = true
			d.ReportChanged()
		}
	}
}

// end ends the disablements that match, and reports whether there were any.
func (d *disabler) end(match func(pci.Disablement) bool) (ended bool) {
	for _, x := range d.State.Disabled() {
		if match(x) {
			d.Record(journal.Enabled(x.ID))
			d.Log("device enabled", "address", x.Address.String(), "reason", x.Reason)
			ended = true
		}
	}
	return ended
}

// deadline returns the time at which the next disablement expires; zero when none does.
func (d *disabler) deadline() (at time.Time) {
	for _, x := range d.State.Disabled() {
		at = state.Earlier(at, x.Until)
	}
	return at
}

// report adds the disablements to the host report. An answer must be durable, because compute does not repeat an
// answered request.
func (d *disabler) report(r *host.Report) {
	for _, x := range d.DisabledNow() {
		r.DisabledDevices = append(r.DisabledDevices, host.WriteDisabled(x))
	}
	for _, a := range d.answers {
		if a.released {
			r.EnabledDevices = append(r.EnabledDevices, a.id)
		}
	}
}
