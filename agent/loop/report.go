package loop

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
)

// Report returns the host report as the agent would send it now.
func (a *Agent) Report() host.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, _ := a.snapshot()
	return r
}

// snapshot returns the host report and its version. a.mu is held.
func (a *Agent) snapshot() (host.Report, int) {
	from := a.sender()
	r := host.Report{Host: a.o.Host, Instance: from.Instance, Start: from.Start, Previous: from.Previous,
		Place: from.ProcessSpace, Provider: string(a.root), Devices: []host.Device{}, Conditions: []string{},
		InPlace: a.o.ReportInPlacement}
	for _, source := range slices.Sorted(maps.Keys(a.conditions)) {
		r.Conditions = append(r.Conditions, a.conditions[source]...)
	}
	if a.journal != nil {
		r.Position, r.Behind, r.Guests = a.position(), a.notFollowed, a.presentGuests()
		cells, counted := a.usedCells("")
		r.Cells, r.Counted, r.CPURatio, r.MemRatio = host.WriteCells(cells), counted, a.o.CPUs.CPURatio, a.o.CPUs.MemoryRatio
	}
	for _, e := range a.set.Entries() {
		d := e.Device
		if d.Type == "" {
			r.Conditions = append(r.Conditions,
				d.Address.String()+": server "+string(e.Holder)+" holds it, but nothing else is known of it")
			continue
		}
		out := host.Device{
			Host: a.o.Host, Address: d.Address.String(), VendorID: d.Vendor, ProductID: d.Product, Type: string(d.Type),
			NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup, ResourceClass: string(e.Class),
			Traits:   toStrings(e.Traits),
			Provider: string(e.Provider), State: string(e.State), Holder: string(e.Holder), RequestID: e.Request,
			ForPorts: e.ForPorts, RemoteManaged: e.RemoteManaged, LiveMigratable: string(e.LiveMigratable),
			OneTimeUse: slices.Contains(e.Traits, survey.OneTimeUse), Spent: a.isSpent(e),
		}
		if d.Parent != nil {
			out.Parent = d.Parent.String()
		}
		r.Devices = append(r.Devices, out)
	}
	for _, at := range slices.Sorted(maps.Keys(a.cleanAnswers)) {
		r.Cleaned = append(r.Cleaned, a.cleanAnswers[at])
	}
	return r, a.version
}

// reportInterval is the maximum interval between two reports: compute considers a host silent after three minutes.
const reportInterval = time.Minute

// reportLoop sends a report at each change, and at least every reportInterval.
func (a *Agent) reportLoop(ctx context.Context) {
	failures := 0
	for a.nextReport(ctx, failures) {
		a.mu.Lock()
		version := a.version
		a.mu.Unlock()
		if err := a.deliver(ctx, version); err == nil {
			failures = 0
		} else if failures++; ctx.Err() == nil {
			a.log.Warn("host report failed, will retry", "error", err)
		}
	}
}

// nextReport waits until there is something to report, or for the backoff after a failure; changes do not shorten the
// backoff. It returns false when ctx has ended.
func (a *Agent) nextReport(ctx context.Context, failures int) bool {
	if failures > 0 {
		return sleep(ctx, a.backoff(failures))
	}
	timer := time.NewTimer(min(a.o.Rescan, reportInterval))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-a.changed:
	case <-timer.C:
		a.mu.Lock()
		a.version++ // report without a change
		a.mu.Unlock()
	}
	return true
}

// deliver returns when compute has a report of at least this version. A caller that waits for another report finds
// that the next one includes its change.
func (a *Agent) deliver(ctx context.Context, version int) error {
	a.reportLock.Lock()
	defer a.reportLock.Unlock()
	a.mu.Lock()
	done := a.delivered >= version
	r, now := a.snapshot()
	a.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := a.o.Compute.PutReport(ctx, r); err != nil {
		a.fence(err)
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delivered = now
	a.unfence()
	return a.acknowledged()
}

// toStrings converts to strings; the result is never nil.
func toStrings[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}
