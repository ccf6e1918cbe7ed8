package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/fault"
)

// hypervisorChecked records the result of a check of the hypervisor. While it fails, compute places no server here, and
// no server is begun of which nothing exists here, so that it can go to another host. Everything that waits is tried
// at once when the hypervisor answers again.
func hypervisorChecked(w *works, err error) {
	why := ""
	if err != nil {
		why = fault.TextOf(err)
	}
	if why == w.down {
		return
	}
	w.down, w.wake = why, true
	w.reportChanged()
	if why != "" {
		w.condition("hypervisor", "the hypervisor can build no guests, so no server is placed here: "+why)
		return
	}
	w.condition("hypervisor")
	w.wantSync = true
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		j := w.byID[id]
		j.buildFailures, j.retryAt = 0, time.Time{}
		if j.attempt == nil {
			continue
		}
		switch j.attempt.effect.(type) { // a request from before may never be answered; each of these can be repeated
		case Build, Destroy, Rename:
			w.cancel(id)
		}
	}
}

// mustWait reports whether a server must not be begun: the hypervisor can build no guests, and nothing of the server
// exists here.
func mustWait(w *works, id string) bool {
	if w.down == "" {
		return false
	}
	_, exists := w.guests[id]
	_, claimed := w.state.Of(id)
	return !exists && !claimed
}

// checkHypervisor returns Unavailable while the hypervisor can build no guests.
func checkHypervisor(c *core) error {
	if c.down == "" {
		return nil
	}
	return fault.New(fault.Unavailable, "waiting for the hypervisor: %s", c.down)
}
