package sim

import (
	"context"
	"errors"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// perform performs an effect of an agent and returns the event that ends it.
func (am *agentModel) perform(m *simHost, f *effect) state.Event {
	am.mark(m)
	switch e := f.Effect.(type) {
	case state.WriteJournal:
		return state.Written{Err: am.write(m, e.Entries)}
	case state.Admit:
		return state.Admitted{Err: am.request(m, f, 20, func() error { return am.compute.admit(m, e.Sender) })}
	case state.ReportHost:
		return state.HostReported{Err: am.request(m, f, 60, func() error { return am.compute.takeReport(m, e.Report) })}
	case state.SendAlive:
		return state.AliveSent{Err: am.request(m, f, 60, func() error { return am.compute.takeAlive(m, e.Alive) })}
	case state.WriteProvider:
		generation, err := am.writeProvider(m, e)
		return state.ProviderWritten{Generation: generation, Err: err}
	case state.RestoreVFs:
		return state.VFsRestored{PF: e.PF, Err: am.call(func() error { return am.hypervisor.restoreVFs(m, e.PF) })}
	case state.CleanDevice:
		return state.CleanEnded{Err: am.cleanDevice(m, e.Device)}
	}
	if _, is := f.Effect.(state.Observe); is {
		am.heartbeat(m)
		am.hypervisor.compareVFs(m)
		if m.agent != nil {
			m.agent.observed = am.placement.restores
		}
	}
	if event := am.read(m, f.Effect, am.tree(m)); event != nil {
		return event
	}
	done := am.performWork(m, f)
	done.Work = state.WorkOf(f.Effect)
	return done
}

// read performs an effect that only reads; nil for another effect.
func (am *agentModel) read(m *simHost, e state.Effect, tree loop.Tree) state.Event {
	switch e := e.(type) {
	case state.Observe:
		o := state.Observation{Machine: m.machine(), Guests: am.hypervisor.answerGuests(m),
			Capacity: m.capacity()}
		if a := m.agent; am.broken == Unlooked && a != nil {
			if a.facts == nil {
				a.facts = &o
			}
			o.Machine = a.facts.Machine
		}
		err := tree.Observe(background, e, &o)
		return state.Observed{Observation: o, Err: err}
	case state.ReadUses:
		uses, err := tree.ReadUses(background, e)
		return state.UsesRead{Uses: uses, Err: err}
	case state.ReadAllocations:
		am.notePlaced(m, e.Consumers)
		allocations, err := tree.ReadAllocations(background, e.Consumers)
		return state.AllocationsRead{Allocations: allocations, Err: err}
	}
	return nil
}

// performWork performs an effect of a work. One that is cancelled ends with a fault, performed or not, or is performed
// before the cancellation has an effect.
func (am *agentModel) performWork(m *simHost, f *effect) (done state.WorkDone) {
	cancelled := fault.Wrap(fault.Unavailable, context.Canceled)
	if f.cancelled && am.halfTheTime() {
		return state.WorkDone{Err: cancelled}
	}
	switch e := f.Effect.(type) {
	case state.ReadAllocation:
		done.Allocation, done.Err = am.tree(m).Placement.Allocation(background, resource.ConsumerID(e.Work))
	case state.Build:
		done.Err = am.hypervisor.callBuild(m, e.Guest)
	case state.RemoveVFs:
		done.Err = am.call(func() error { return am.hypervisor.removeVFs(m, e.PFs) })
	case state.ConfigureVFs:
		done.Err = am.call(func() error { return am.hypervisor.configureVFs(m, e) })
	case state.ResetVFs:
		done.Err = am.call(func() error { return am.hypervisor.resetVFs(m, e.Devices) })
	case state.Rename:
		done.Err = am.call(func() error { return am.hypervisor.renameGuest(m, e.Was, e.ID, e.Server) })
	case state.Migrate:
		done.Err = am.call(func() error { return am.hypervisor.migrateGuest(m, e.Work, e.To) })
	case state.SettleMigration:
		done.Err = am.call(func() error { done.Departed = m.guests[e.ID] != nil && m.guests[e.ID].Departed; return nil })
	case state.Destroy:
		done.Err = am.call(func() error { am.hypervisor.destroyGuest(m, e.ID, f.named); return nil })
	case state.EndUpload:
		done.Err = am.call(func() error {
			if g := m.guests[e.ID]; g != nil {
				g.Uploads = ""
			}
			return nil
		})
	case state.Upload:
		done.Err = am.call(func() (err error) { done.Image, err = am.images.uploadDisk(m, e); return err })
	case state.ListGuests:
		done.Err = am.call(func() error { done.Guests = am.hypervisor.answerGuests(m); return nil })
	case state.ReportGuest:
		done.Err = am.reportGuest(m, f, e)
	}
	if f.cancelled && am.halfTheTime() {
		return state.WorkDone{Err: cancelled}
	}
	return done
}

// reportGuest sends the report of a guest to compute. It may be lost, come late or twice, or its answer may be lost.
func (am *agentModel) reportGuest(m *simHost, f *effect, e state.ReportGuest) error {
	event, err := record.ToGuestEvent(m.name, e.ID, e.Guest)
	if err != nil {
		am.violation(m, "report: %v", err)
		return err
	}
	am.phaseReported(m, e)
	if am.broken == Silent && e.Guest.Phase == host.Gone {
		return nil
	}
	seldom := 120
	if am.broken == Uncounted || am.broken == Anyone {
		seldom = 3
	}
	report := lifecycle.Report{Host: m.name, Instance: e.Guest.Instance, Number: e.Guest.Number, Event: event}
	return am.request(m, f, 60, func() error {
		if am.chance(Messages, seldom) {
			am.delayed = append(am.delayed, delayedReport{m, e.ID, e.Guest.Start, report})
			return errDown
		}
		err := am.compute.reportGuest(e.ID, e.Guest.Start, report)
		if am.chance(Messages, 60) {
			err = am.compute.reportGuest(e.ID, e.Guest.Start, report)
		}
		if _, late := errors.AsType[*host.Late](err); late {
			am.report.Happened["counted on"]++
		}
		if m.agent != nil && err == nil {
			m.agent.confirmed[e.ID] = e.Guest.Phase != host.Gone && e.Guest.Phase != host.Failed
		}
		return err
	})
}

// phaseReported notes which guests are reported as built, and counts the phases that few guests reach.
func (am *agentModel) phaseReported(m *simHost, e state.ReportGuest) {
	switch e.Guest.Phase {
	case host.Running, host.Stopped:
		delete(m.built, e.ID)
	case host.Failed:
		am.report.Happened["given up"]++
	case host.Refused:
		am.report.Happened["refused"]++
	}
}

// writeProvider performs one step of a plan in Placement. Another client may write to the tree just before.
func (am *agentModel) writeProvider(m *simHost, e state.WriteProvider) (int, error) {
	if am.chance(Foreign, 100) {
		am.placement.nudge(m)
	}
	before, existed := am.placement.Provider(e.Step.Provider)
	generation, err := am.tree(m).WriteProvider(background, e)
	_, moves := e.Step.InventorySets[m.root] // between the root and the providers of nodes
	if moves && err == nil {
		am.report.Happened["NUMA nodes moved"]++
	}
	for c := range e.Reshape.Allocations {
		if err == nil && !moves {
			am.checkShared(m, c)
			am.report.Happened["allocation written back"]++
		}
	}
	now, exists := am.placement.Provider(e.Step.Provider)
	switch {
	case e.Step.Op == treeplan.PutInventories && now.Generation != before.Generation:
		am.placement.checkReserved(before, now.Inventories)
		am.placement.noteLowered(now, m.agent.observed != am.placement.restores)
	case exists && !existed && now.Parent == "":
		am.placement.setZone(m, now)
	}
	return generation, err
}

// cleanDevice runs the operator's program that cleans a device for one-time use.
func (am *agentModel) cleanDevice(m *simHost, at device.ID) error {
	if am.chance(Builds, 20) {
		return fault.New(fault.Internal, "the program fails")
	}
	if m.agent != nil {
		e, _ := m.agent.state.Devices().At(at)
		am.placement.cleaned[e.Provider] = true
	}
	am.report.Happened["device cleaned"]++
	return nil
}
