package reconcile

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// An agent that was cut off reports its guests again when the assignments have changed meanwhile. Another agent, on a
// copy of its directory, may have served the host: the server was shelved and has returned to the host with an equal
// assignment, and compute expects a report of its guest.
func TestGuestsAreReportedAgainAfterAReconnect(t *testing.T) {
	for name, c := range map[string]struct {
		revision int64 // of the assignments after the reconnect; those before have 1
		again    bool
	}{"changed meanwhile": {3, true}, "unchanged": {1, false}} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			d.settle(nil)
			d.assign(1, "s1")
			d.settle(nil)
			if d.phase() != host.Running {
				t.Fatal(d.phase())
			}
			before := len(d.reports)
			d.deliver(state.StreamEnded{Err: fault.New(fault.Unavailable, "cut off")})
			d.advanceTime(time.Minute, nil)
			d.assign(c.revision, "s1")
			d.settle(nil)
			if again := len(d.reports) > before; again != c.again || d.phase() != host.Running {
				t.Errorf("reported again: %v, phase %s", again, d.phase())
			}
			before = len(d.reports)
			d.assign(c.revision+1, "s1") // on the same stream
			d.settle(nil)
			if len(d.reports) != before {
				t.Errorf("reported on the same stream: %+v", d.reports[before:])
			}
		})
	}
}
