package guests

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// HypervisorChecked records the result of a check of the hypervisor. While it fails, compute places no server here, and
// no server is begun of which nothing exists here, so that it can go to another host. Everything that waits is tried
// at once when the hypervisor answers again.
func HypervisorChecked(w *Works, err error) {
	why := ""
	if err != nil {
		why = fault.TextOf(err)
	}
	if why == w.Down {
		return
	}
	w.Down, w.Wake = why, true
	w.ReportChanged()
	if why != "" {
		w.Condition(condition.Hypervisor, "", "the hypervisor can build no guests, so no server is placed here: "+why)
		return
	}
	w.Condition(condition.Hypervisor, "")
	w.WantSync = true
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		j := w.byID[id]
		j.buildFailures, j.retryAt = 0, time.Time{}
		if j.attempt == nil {
			continue
		}
		switch j.attempt.effect.(type) { // a request from before may never be answered; each of these can be repeated
		case state.Build, state.Destroy, state.Rename:
			w.cancel(id)
		}
	}
}

// mustWait reports whether a server must not be begun: the hypervisor can build no guests, and nothing of the server
// exists here.
func mustWait(w *Works, id string) bool {
	if w.Down == "" {
		return false
	}
	_, exists := w.Guests[id]
	_, claimed := w.State.Of(id)
	return !exists && !claimed
}

// checkHypervisor returns Unavailable while the hypervisor can build no guests.
func checkHypervisor(c *state.Core) error {
	if c.Down == "" {
		return nil
	}
	return fault.New(fault.Unavailable, "waiting for the hypervisor: %s", c.Down)
}
