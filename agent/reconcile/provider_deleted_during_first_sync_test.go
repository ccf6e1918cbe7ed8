package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/reconcile/sync"
	"github.com/openberth/berth/fault"
)

// A provider is deleted while the first sync writes it, as often as the sync is repeated, as when Placement's database
// is restored. The agent does not stop: it serves its guests, and a later sync writes the provider.
func TestProviderDeletedDuringTheFirstSync(t *testing.T) {
	d := newDriver(t)
	writes := func(e state.Effect) bool { _, is := e.(state.WriteProvider); return is }
	failures := 0
	for d.settle(writes); failures < sync.PlanTries; d.advanceTime(time.Second, writes) {
		if i := slices.IndexFunc(d.pending, writes); i >= 0 {
			d.pending = slices.Delete(d.pending, i, i+1)
			d.deliver(state.ProviderWritten{Err: fault.New(fault.NotFound, "no such provider")})
			failures++
		}
	}
	d.advanceTime(time.Hour, nil)
	d.assign(1, "s1")
	d.settle(nil)
	if _, written := d.tree.Root(); len(d.guests) != 1 || !written {
		t.Errorf("guests %v, the provider is written: %v", d.guests, written)
	}
}
