package presence

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// Connected records that an agent has an open stream of assignments, until the returned function is called.
func (a *Agents) Connected(host string) (closed func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(host)
	o.streams++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		o.streams--
	})
}

// Alive records a sign of life of the admitted start of a host's agent. It returns fault.Conflict if another start
// serves the host, and fault.NotFound if the host has not reported to this process.
func (a *Agents) Alive(ctx context.Context, host string, from schedule.Sender) error {
	if err := a.CheckAdmitted(ctx, host, from.Instance, from.Start); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(host)
	if !o.reported {
		return fault.New(fault.NotFound, "host %s has not reported since compute's start; "+
			"send the report of the host", host)
	}
	o.sign = a.Since()
	return nil
}

// LastSign returns whether the agent of a host has an open stream, and the time since its last sign of life. The time
// is measured with the monotonic clock, at most since compute's start. An open stream does not make the agent alive.
func (a *Agents) LastSign(host string) (connected bool, quiet time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(host)
	return o.streams > 0, o.quiet(a.now())
}

// IsSilent reports whether the last sign of life of a host is older than SilentAfter, measured with the monotonic
// clock.
func (a *Agents) IsSilent(host string) bool { return a.SinceReport(host) >= a.Silence }

// SilentAfter returns the age of its last sign of life from which on a host counts as silent.
func (a *Agents) SilentAfter() time.Duration { return a.Silence }

// SinceReport returns the age of the host's last report or sign of life. A host that has not reported since this
// process started counts as fresh for Options.FirstReports and as older than Silence after it, because the age of its
// last report is unknown.
func (a *Agents) SinceReport(host string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now() - a.missed
	switch o := a.of(host); {
	case o.reported:
		return o.quiet(a.now())
	case now < a.FirstReports:
		return 0
	}
	return now + a.Silence
}

// WhyAlive returns why the agent of a host counts as alive, as a clause; empty if it is silent, or if an operator has
// declared the host dead.
func (a *Agents) WhyAlive(ctx context.Context, name string) (reports string, err error) {
	dead, err := a.store.Dead(ctx)
	if err != nil || slices.Contains(dead, name) {
		return "", err
	}
	host, err := a.store.Host(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if failed := a.StartFailure(host.Name).Why; failed != "" {
		return "its agent runs, and cannot report the host: " + failed, nil
	}
	if _, quiet := a.LastSign(host.Name); quiet < a.Silence {
		return fmt.Sprintf("its agent has been silent for %d s, and counts as alive until %.0f s",
			int(quiet.Seconds()), a.Silence.Seconds()), nil
	}
	return "", nil
}

// MarkDead records that an operator has declared a host dead.
func (a *Agents) MarkDead(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(host).declaredDead = a.Since()
}

// Returned reports whether the agent of a host that was declared dead has reported since.
func (a *Agents) Returned(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(host)
	return o.reported && o.sign > o.declaredDead
}

// DownIsKnownFor is how long after the last sign of life of its agent a hypervisor that was down counts as down.
const DownIsKnownFor = 3 * host.AliveInterval

// HypervisorDown returns why the hypervisor of a host can build no guests, as its agent reported; empty if it can, or
// if that is not known now, because the agent has not reported to this process or gives no signs of life.
func (a *Agents) HypervisorDown(host string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.hosts[host]; o != nil && o.reported && o.quiet(a.now()) <= DownIsKnownFor {
		return o.down
	}
	return ""
}
