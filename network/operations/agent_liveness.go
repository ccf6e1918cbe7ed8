package operations

import (
	"sync"
	"time"

	"github.com/openberth/berth/network/store"
)

// AgentDownTime is how long an agent counts as alive after its last report: Neutron's default of agent_down_time.
const AgentDownTime = 75 * time.Second

// liveness knows since when agents are silent. A change of the wall clock makes no agent silent: the times of reports
// that this process has received are compared by the monotonic clock. A process that has just started may have missed
// reports, so no agent is silent then. Reports that another process has received are known by the database only.
type liveness struct {
	mu      sync.Mutex
	started time.Time
	reports map[string]time.Time // by the id of the agent
}

func newLiveness(now time.Time) *liveness {
	return &liveness{started: now, reports: map[string]time.Time{}}
}

// reported records a report of an agent.
func (l *liveness) reported(id string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports[id] = now
}

// recent reports whether this process has received a report of an agent within AgentDownTime.
func (l *liveness) recent(id string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, received := l.reports[id]
	return received && now.Sub(at) < AgentDownTime
}

// silent reports whether an agent has not reported itself for AgentDownTime.
func (l *liveness) silent(a store.Agent, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.started
	if at, received := l.reports[a.ID]; received && at.After(last) {
		last = at
	}
	return now.Sub(last) >= AgentDownTime && now.Sub(time.UnixMicro(a.Heartbeat)).Abs() >= AgentDownTime
}
