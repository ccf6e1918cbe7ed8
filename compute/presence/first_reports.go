package presence

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// reportsWithin is the longest time between two reports of a living agent.
const reportsWithin = time.Minute

// AwaitReports starts to wait for the first reports of the hosts whose agents were alive when the previous process
// ended. It does not block. Until they have reported, or until StopAwaiting, no step writes to Placement for a server
// that an earlier process has created; then the returned channel is closed. Run calls both. Until a host reports, its
// last report is what is known of its guests; that does not make the host alive.
func (a *Agents) AwaitReports(ctx context.Context) (reported <-chan struct{}, err error) {
	hosts, err := a.store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	dead, err := a.store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range hosts {
		if o := a.of(h.Name); !o.reported {
			a.observe(o, h)
		}
	}
	a.awaited = map[string]bool{}
	for _, host := range recent(hosts, dead, a.Silence+reportsWithin) {
		if !a.of(host).reported {
			a.awaited[host] = true
		}
	}
	a.openGate()
	return a.gate, nil
}

// firstReportsWithin is the default of Options.FirstReports.
const firstReportsWithin = 30 * time.Second

// FirstReports is how long after the start compute waits for the reports of agents.
const FirstReports = 15 * time.Second

// StopAwaiting ends the wait for first reports, and returns the hosts that have not reported.
func (a *Agents) StopAwaiting() (missing []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	missing = slices.Sorted(maps.Keys(a.awaited))
	a.awaited = map[string]bool{}
	a.openGate()
	return missing
}

// Created records servers that this process is about to create: they are in no backup that is older than this process.
// The times of their creation do not show that, because the wall clock may have been set. Servers are only remembered
// as long as they may be placed on hosts that have not reported.
func (a *Agents) Created(servers []lifecycle.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if opened(a.gate) && a.now()-a.missed >= a.FirstReports {
		return
	}
	for _, s := range servers {
		a.young[s.ID] = true
	}
}

// CreatedHere reports whether this process has created a server before the gate was opened, or within
// Options.FirstReports.
func (a *Agents) CreatedHere(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.young[id]
}

// Gate returns the channel that is closed when the awaited hosts have reported, or when StopAwaiting is called.
func (a *Agents) Gate() <-chan struct{} { return a.gate }

// recent lists the hosts whose last report is not much older than the newest one.
func recent(hosts []schedule.Host, dead []string, silence time.Duration) (names []string) {
	var newest time.Time
	for _, h := range hosts {
		if h.Seen.After(newest) {
			newest = h.Seen
		}
	}
	for _, h := range hosts {
		if newest.Sub(h.Seen) < silence && !slices.Contains(dead, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// AwaitsFirst reports whether no host has reported to this process yet and it has started less than FirstReports ago.
func (a *Agents) AwaitsFirst() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.hosts {
		if o.reported {
			return false
		}
	}
	return a.Since() < FirstReports
}
