package guests

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/fault"
)

// removeVFs returns the effect that removes the VFs of the PFs that a guest gets as a whole; nil if that is done, or
// there are none. It precedes each change of the guest: after a restart of the host the PF may have VFs again.
// Unavailable: the VFs of the previous holder's PF are being restored.
func removeVFs(w *Works, a *attempt, held []device.Claim) (state.Effect, error) {
	if a.ready.cards {
		return nil, nil
	}
	pfs := state.WholeCards(w.Core, held)
	if len(pfs) == 0 {
		return nil, nil
	}
	for _, pf := range pfs {
		if w.Restoring[pf] {
			return nil, fault.New(fault.Unavailable, "the VFs of %s are being restored; waiting until that has ended", pf)
		}
	}
	return state.RemoveVFs{Work: a.want.ID, PFs: pfs}, nil
}

// vfsRemoved records the result of RemoveVFs.
func vfsRemoved(w *Works, j *work, err error) error {
	w.VFEpoch++ // an observation from before may have the VFs
	w.WantSync = true
	if err != nil {
		return w.buildFailed(j, err)
	}
	j.attempt.ready.cards = true
	return nil
}
