package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// restorer gives PFs that guests had as a whole their VFs again, when nothing holds them any more. A failure is
// repeated with growing waits: the kernel may still bind the driver of the PF.
type restorer struct {
	*state.Core
	failures map[device.ID]int
	retryAt  map[device.ID]time.Time
}

// seenTime is how long an observation of restored VFs is waited for before they are restored again.
const seenTime = time.Minute

// due lists the PFs to restore that are on the host, by address.
func (r *restorer) due() (list []device.ID) {
	if r.Fenced {
		return nil
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.State.VFs()), device.ID.Compare) {
		there := slices.ContainsFunc(r.Scanned, func(d pci.Device) bool { return device.PCI(d.Address) == id })
		if there && !r.Restoring[id] && !state.CardHeld(r.Core, id) {
			list = append(list, id)
		}
	}
	return list
}

// advance begins to restore the PFs for which that is due.
func (r *restorer) advance() {
	for _, id := range r.due() {
		if !r.Now.Before(r.retryAt[id]) {
			r.Restoring[id] = true
			r.DoAfterWrite(state.RestoreVFs{PF: id, Count: r.State.VFs()[id]})
		}
	}
}

// deadline returns the time at which advance has something to do; zero if it has nothing.
func (r *restorer) deadline() (at time.Time) {
	for _, id := range r.due() {
		at = state.Earlier(at, r.retryAt[id])
	}
	return at
}

// ended records the result. The record of the VFs remains until they are observed.
func (r *restorer) ended(e state.VFsRestored) {
	delete(r.Restoring, e.PF)
	r.VFEpoch++
	r.Wake, r.WantSync = true, true
	pf := e.PF.String()
	if e.Err == nil {
		delete(r.failures, e.PF)
		r.retryAt[e.PF] = r.Now.Add(seenTime)
		r.Condition(condition.VFs, pf)
		return
	}
	r.failures[e.PF]++
	r.retryAt[e.PF] = r.Now.Add(r.Backoff(r.failures[e.PF]))
	r.Condition(condition.VFs, pf, fmt.Sprintf("%s is free and does not have its %d VFs again, so it is given as a whole "+
		"only: %s; bind it to its driver, or set its sriov_numvfs", pf, r.State.VFs()[e.PF], fault.TextOf(e.Err)))
}
