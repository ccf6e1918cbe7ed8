package presence

import (
	"context"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// StartFailure is why the present start of an agent cannot report its host yet.
type StartFailure struct {
	Why   string        // as the agent sent it
	Quiet time.Duration // since it was sent last
	Since time.Time     // when a failure was sent first, without a report since
}

// StartFailed records why a start of an agent cannot report its host, until the host reports. What the last report of
// an earlier start says of guests and devices stays. It does not count as a sign of life of the admitted start, which
// may be another one. It returns fault.Conflict because of *Occupied if another start serves the host.
func (a *Agents) StartFailed(ctx context.Context, host string, from schedule.Sender, why string) error {
	known, err := a.store.Host(ctx, host)
	switch {
	case err == nil && known.Instance == from.Instance && known.Start == from.Start:
		return nil // its first report has overtaken this
	case err == nil:
		err = a.admit(known, from)
	case fault.Is(err, fault.NotFound):
		err = nil
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(host)
	if a.failureOf(o).Why == "" {
		o.failedSince = a.Now()
	}
	o.failed, o.failedAt = why, a.Since()
	return nil
}

// StartFailures returns why the starts of agents cannot report their hosts, by host, unless they are silent.
func (a *Agents) StartFailures() map[string]StartFailure {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]StartFailure{}
	for host, o := range a.hosts {
		if failure := a.failureOf(o); failure.Why != "" {
			out[host] = failure
		}
	}
	return out
}

// StartFailure returns why the present start of a host's agent cannot report it; Why is empty if it has, or is silent.
func (a *Agents) StartFailure(host string) StartFailure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.hosts[host]; o != nil {
		return a.failureOf(o)
	}
	return StartFailure{}
}

// failureOf returns the failure that an agent has sent within Silence; otherwise Why is empty. a.mu is held.
func (a *Agents) failureOf(o *observed) StartFailure {
	if o.failed == "" || a.now()-o.failedAt >= a.Silence {
		return StartFailure{}
	}
	return StartFailure{o.failed, max(0, a.now()-o.failedAt), o.failedSince}
}
