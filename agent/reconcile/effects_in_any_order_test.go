package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
)

// Servers are added and removed, effects end in any order, and the agent is ended between any two effects, with its
// last write done in part. In the end the guests, the disk and the assignments have the same servers. The driver checks
// each effect.
func TestEffectsInAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 3))
			d := newDriver(t)
			var ids []string
			for step := range int64(300) {
				switch n := chance.IntN(20); {
				case n == 0 && slices.ContainsFunc(d.pending, isStream):
					ids = pick(chance, ids, step)
					d.assign(step+1, ids...)
				case n == 1:
					d.crash(chance)
				case n < 4:
					d.now = d.now.Add(time.Duration(chance.IntN(20_000)) * time.Millisecond)
					d.deliver(state.Tick{})
				case len(d.pending) > 0:
					if i := chance.IntN(len(d.pending)); !isStream(d.pending[i]) {
						d.perform(i)
					}
				}
			}
			d.advanceTime(time.Minute, nil)
			d.assign(1000, ids...)
			d.advanceTime(5*time.Minute, nil)
			if got := d.state.Report(); len(d.guests) != len(ids) || len(d.disk.Claims()) != len(ids) ||
				!slices.Equal(d.disk.Servers(), slices.Sorted(slices.Values(ids))) || len(got.Conditions) > 0 {
				t.Errorf("assigned %v, guests %v, disk %v, conditions %v", ids, d.guests, d.disk.Servers(), got.Conditions)
			}
		})
	}
}

func isStream(e state.Effect) bool {
	_, is := e.(state.Watch)
	return is
}

// pick returns another set of at most two servers, since the host has two devices.
func pick(chance *rand.Rand, ids []string, step int64) []string {
	var next []string
	for _, id := range ids {
		if chance.IntN(2) == 0 {
			next = append(next, id)
		}
	}
	for len(next) < 2 && chance.IntN(3) > 0 {
		next = append(next, fmt.Sprintf("s%d-%d", step, len(next)))
	}
	return next
}

// crash ends the agent. A part of the write in progress is on the disk, and effects on the host may have happened.
func (d *driver) crash(chance *rand.Rand) {
	d.t.Helper()
	for _, e := range d.pending {
		switch e := e.(type) {
		case state.WriteJournal:
			d.disk = d.disk.With(e.Entries[:chance.IntN(len(e.Entries)+1)]...)
		case state.Build:
			if chance.IntN(2) == 0 {
				d.guests[e.Guest.ID] = e.Guest
			}
		case state.Destroy:
			if chance.IntN(2) == 0 {
				delete(d.guests, e.ID)
			}
		}
	}
	d.start()
}
