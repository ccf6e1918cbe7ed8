package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// perform performs an effect of an agent and returns the event that ends it.
func (w *World) perform(m *simHost, f *effect) reconcile.Event {
	w.mark(m)
	switch e := f.Effect.(type) {
	case reconcile.WriteJournal:
		return reconcile.Written{Err: w.write(m, e.Entries)}
	case reconcile.Admit:
		return reconcile.Admitted{Err: w.request(m, f, 20, func() error { return w.compute.admit(m, e.Sender) })}
	case reconcile.ReportHost:
		return reconcile.HostReported{Err: w.request(m, f, 60, func() error { return w.compute.takeReport(m, e.Report) })}
	case reconcile.SendAlive:
		return reconcile.AliveSent{Err: w.request(m, f, 60, func() error { return w.compute.takeAlive(m, e.Alive) })}
	case reconcile.WriteProvider:
		generation, err := w.writeProvider(m, e)
		return reconcile.ProviderWritten{Generation: generation, Err: err}
	case reconcile.CleanDevice:
		return reconcile.CleanEnded{Err: w.cleanDevice(m, e.Device)}
	}
	if _, is := f.Effect.(reconcile.Observe); is {
		w.heartbeat(m)
		w.compareVFs(m)
		if m.agent != nil {
			m.agent.observed = w.restores
		}
	}
	if event := w.read(m, f.Effect, w.tree(m)); event != nil {
		return event
	}
	done := w.performWork(m, f)
	done.Work = reconcile.WorkOf(f.Effect)
	return done
}

// read performs an effect that only reads; nil for another effect.
func (w *World) read(m *simHost, e reconcile.Effect, tree loop.Tree) reconcile.Event {
	switch e := e.(type) {
	case reconcile.Observe:
		o := reconcile.Observation{Machine: m.machine(), Guests: w.answerGuests(m),
			Capacity: hypervisor.Capacity{VCPUs: 16, MemoryMB: 32768, DiskGB: 1000, DiskImages: "qcow2"}}
		if a := m.agent; w.broken == Unlooked && a != nil {
			if a.facts == nil {
				a.facts = &o
			}
			o.Machine = a.facts.Machine
		}
		err := tree.Observe(background, e, &o)
		return reconcile.Observed{Observation: o, Err: err}
	case reconcile.ReadUses:
		uses, err := tree.ReadUses(background, e.Providers)
		return reconcile.UsesRead{Uses: uses, Err: err}
	case reconcile.ReadAllocations:
		w.notePlaced(m, e.Consumers)
		allocations, err := tree.ReadAllocations(background, e.Consumers)
		return reconcile.AllocationsRead{Allocations: allocations, Err: err}
	}
	return nil
}

// performWork performs an effect of a work. One that is cancelled ends with a fault, performed or not, or is performed
// before the cancellation has an effect.
func (w *World) performWork(m *simHost, f *effect) (done reconcile.WorkDone) {
	cancelled := fault.Wrap(fault.Unavailable, context.Canceled)
	if f.cancelled && w.halfTheTime() {
		return reconcile.WorkDone{Err: cancelled}
	}
	switch e := f.Effect.(type) {
	case reconcile.ReadAllocation:
		done.Allocation, done.Err = w.tree(m).Placement.Allocation(background, resource.ConsumerID(e.Work))
	case reconcile.Build:
		done.Err = w.callBuild(m, e.Guest)
	case reconcile.ConfigureVFs:
		done.Err = w.call(func() error { return w.configureVFs(m, e) })
	case reconcile.ResetVFs:
		done.Err = w.call(func() error { return w.resetVFs(m, e.Devices) })
	case reconcile.Rename:
		done.Err = w.call(func() error { return w.renameGuest(m, e.Was, e.ID, e.Server) })
	case reconcile.Migrate:
		done.Err = w.call(func() error { return w.migrateGuest(m, e.Work, e.To) })
	case reconcile.Destroy:
		done.Err = w.call(func() error { w.destroyGuest(m, e.ID, f.named); return nil })
	case reconcile.Upload:
		done.Err = w.call(func() (err error) { done.Image, err = w.uploadDisk(m, e); return err })
	case reconcile.ListGuests:
		done.Err = w.call(func() error { done.Guests = w.answerGuests(m); return nil })
	case reconcile.ReportGuest:
		done.Err = w.reportGuest(m, f, e)
	}
	if f.cancelled && w.halfTheTime() {
		return reconcile.WorkDone{Err: cancelled}
	}
	return done
}

// reportGuest sends the report of a guest to compute. It may be lost, come late or twice, or its answer may be lost.
func (w *World) reportGuest(m *simHost, f *effect, e reconcile.ReportGuest) error {
	event, err := record.ToGuestEvent(m.name, e.ID, e.Guest)
	if err != nil {
		w.violation(m, "report: %v", err)
		return err
	}
	w.phaseReported(m, e)
	if w.broken == Silent && e.Guest.Phase == host.Gone {
		return nil
	}
	seldom := 120
	if w.broken == Uncounted || w.broken == Anyone {
		seldom = 3
	}
	report := lifecycle.Report{Host: m.name, Instance: e.Guest.Instance, Number: e.Guest.Number, Event: event}
	return w.request(m, f, 60, func() error {
		if w.chance(Messages, seldom) {
			w.delayed = append(w.delayed, delayedReport{m, e.ID, e.Guest.Start, report})
			return errDown
		}
		err := w.compute.reportGuest(e.ID, e.Guest.Start, report)
		if w.chance(Messages, 60) {
			err = w.compute.reportGuest(e.ID, e.Guest.Start, report)
		}
		if _, late := errors.AsType[*host.Late](err); late {
			w.report.Happened["counted on"]++
		}
		if m.agent != nil && err == nil {
			m.agent.confirmed[e.ID] = e.Guest.Phase != host.Gone && e.Guest.Phase != host.Failed
		}
		return err
	})
}

// phaseReported notes which guests are reported as built, and counts the phases that few guests reach.
func (w *World) phaseReported(m *simHost, e reconcile.ReportGuest) {
	switch e.Guest.Phase {
	case host.Running, host.Stopped:
		delete(m.built, e.ID)
	case host.Failed:
		w.report.Happened["given up"]++
	case host.Refused:
		w.report.Happened["refused"]++
	}
}

// tree is what performs the effects of the agent of a machine in Placement.
func (w *World) tree(m *simHost) loop.Tree {
	return loop.Tree{Host: m.name, Placement: w.placement.Client(func(placementtest.Call) (before, after error) {
		switch {
		case m.cut || w.chance(Messages, 400):
			return errDown, nil
		case w.chance(Messages, 400):
			return nil, errDown
		}
		return nil, nil
	})}
}

// writeProvider performs one step of a plan in Placement. Another client may write to the tree just before.
func (w *World) writeProvider(m *simHost, e reconcile.WriteProvider) (int, error) {
	if w.chance(Foreign, 100) {
		w.nudge(m)
	}
	before, existed := w.placement.Provider(e.Step.Provider)
	generation, err := w.tree(m).WriteProvider(background, e)
	for c := range e.Reshape.Allocations {
		if err == nil {
			w.shared(m, c)
			w.report.Happened["allocation written back"]++
		}
	}
	now, exists := w.placement.Provider(e.Step.Provider)
	switch {
	case e.Step.Op == treeplan.PutInventories && now.Generation != before.Generation:
		w.checkReserved(before, now.Inventories)
		w.noteLowered(now, m.agent.observed != w.restores)
	case exists && !existed && now.Parent == "":
		w.setZone(m, now)
	}
	return generation, err
}

// setZone is the operator of a zone, who marks each new root provider of it.
func (w *World) setZone(m *simHost, root provider.Provider) {
	root.Traits = append(slices.Clone(root.Traits), zoneTrait(m.zone))
	root.Generation++
	w.placement.SetProvider(root)
}

// checkReserved: the reserved amount of a device for one-time use becomes smaller only after the device was cleaned,
// and no guest has started with it since. While a server has the device, a plan of before its start does no harm.
func (w *World) checkReserved(p provider.Provider, next map[resource.Class]resource.Inventory) {
	if _, network := bandwidth.Recognise(p); network {
		return // bandwidth is reserved while its interface does not exist
	}
	for class, inv := range next {
		was := p.Inventories[class]
		if inv.Reserved < min(was.Reserved, inv.Total) && p.Parent != "" && !w.cleaned[p.ID] &&
			len(w.placement.Holders(p.ID)) == 0 {
			w.violation(nil, "reserved: %s of %s becomes %d after %d, and the device was not cleaned", class, p.Name,
				inv.Reserved, was.Reserved)
		}
	}
}

// noteLowered notes that an agent has reported less than is in use: bandwidth, as it is configured now, or, with
// restored, something that it has planned for the state before Placement was restored.
func (w *World) noteLowered(p provider.Provider, restored bool) {
	if _, network := bandwidth.Recognise(p); !network && !restored {
		return
	}
	for class, used := range w.placement.Used(p.ID) {
		if inv := p.Inventories[class]; used > int(float64(inv.Total)*inv.AllocationRatio) {
			w.lowered[inventory{p.ID, class}] = used
			w.report.Happened["lowered below use"]++
		}
	}
}

// nudge is another client that writes to the tree of a host.
func (w *World) nudge(m *simHost) {
	ids := w.placement.TreeIDs(m.root)
	if len(ids) == 0 {
		return
	}
	p, _ := w.placement.Provider(ids[w.rng.IntN(len(ids))])
	p.Generation++
	w.placement.SetProvider(p)
}

// cleanDevice runs the operator's program that cleans a device for one-time use.
func (w *World) cleanDevice(m *simHost, at device.ID) error {
	if w.chance(Builds, 20) {
		return fault.New(fault.Internal, "the program fails")
	}
	if m.agent != nil {
		e, _ := m.agent.state.Devices().At(at)
		w.cleaned[e.Provider] = true
	}
	w.report.Happened["device cleaned"]++
	return nil
}
