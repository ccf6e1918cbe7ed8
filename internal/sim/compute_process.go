package sim

import (
	"time"

	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/placement/placementtest"
)

// process is one process of compute: the production conductor over the simulation's store and Placement. When it has
// ended, all its calls fail, so that nothing of its memory has an effect.
type process struct {
	*kernel
	conductor *conductor.Conductor
	epoch     epoch
	began     time.Duration
	ended     bool
	safe      bool            // no faults are injected
	late      time.Duration   // how old the heartbeat that is being stored is
	reported  <-chan struct{} // closed when the awaited hosts have reported
	awaited   []string        // hosts that may report soon after the start
	opened    bool            // the simulation has seen that reported is closed
}

// since is the time since a process started, by a clock that is never set.
func (p *process) since() time.Duration {
	at := p.clock - p.late
	if p.broken == WallClock {
		return at - p.began + p.skewAt(at) - p.skewAt(p.began)
	}
	return at - p.began
}

// fault is the fault that is injected into a call of a process of compute: its end before or after the effect of the
// call, or a lost answer.
func (p *process) fault() (before, after error) {
	switch {
	case p.ended:
		return errDown, nil
	case p.safe:
		return nil, nil
	case p.chance(Ends, 20000):
		p.report.Happened["compute ended in a call"]++
		p.ended = true
	case !p.chance(Answers, 300):
		return nil, nil
	}
	if p.halfTheTime() {
		return errDown, nil
	}
	return nil, errDown
}

// placementFault is fault for a call of Placement.
func (p *process) placementFault(call placementtest.Call) (before, after error) {
	if before, after = p.fault(); before == nil && call.Op == "Reshape" {
		p.report.Happened["room made"]++
	}
	return before, after
}
