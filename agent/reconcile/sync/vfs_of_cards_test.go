package sync

import (
	"testing"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
)

// An observation that began before the VFs of a PF changed is discarded, and another one begins.
func TestObservationDuringChangeOfVFs(t *testing.T) {
	core := state.NewCore(state.Config{}, journal.State{})
	s := NewSyncer(core)
	observes := func() (n int) {
		for _, e := range core.Out {
			if _, is := e.(state.Observe); is {
				n++
			}
		}
		return n
	}
	s.Advance()
	core.VFEpoch++
	s.Observed(state.Observed{})
	if s.Advance(); observes() != 2 || s.Begun || s.Restored {
		t.Errorf("%d observations, begun %t", observes(), s.Begun)
	}
}
