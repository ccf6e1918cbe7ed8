package conduct

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// How old a comparison of a host with Placement may be when the next report of the host comes. Agents report at least once a minute.
const (
	auditEvery = 45 * time.Second // when it found nothing
	auditAgain = 5 * time.Second  // when it found something, which agents or operators may have put right
)

// mostAudited is how many hosts one round of scheduling compares with Placement before it waits.
const mostAudited = 16

// auditor remembers the last audit of each host, and which hosts have reported since.
type auditor struct {
	mu        sync.Mutex
	last      map[string]audited
	due       []schedule.Host // whose reports ask for an audit, in order, each once
	wake      chan struct{}   // has room for one
	suspected time.Time       // audits from before are out of date: Placement may have been restored
}

// audited is what is remembered of a host.
type audited struct {
	at    time.Time // of the last comparison of the whole host
	roots time.Time // of the last comparison of its root provider, or of the whole host
	found Audit
}

func newAuditor() *auditor {
	return &auditor{last: map[string]audited{}, wake: make(chan struct{}, 1)}
}

// HostReported has the servers on a host compared with Placement, if that was not done just now. It returns at once.
func (c *Conductor) HostReported(host schedule.Host) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	last, age := a.last[host.Name], auditEvery
	if len(last.found.Missing)+len(last.found.Foreign) > 0 {
		age = auditAgain
	}
	waits := slices.ContainsFunc(a.due, func(h schedule.Host) bool { return h.Name == host.Name })
	if waits || c.now().Sub(last.at) < age && !last.at.Before(a.suspected) {
		return
	}
	a.due = append(a.due, host)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// HostConditions are the conditions of a host that its last audit has found.
func (c *Conductor) HostConditions(host string) []string {
	c.audits.mu.Lock()
	defer c.audits.mu.Unlock()
	return c.audits.last[host].found.sentences()
}

// HostAudit compares the servers on a host with Placement now; fault.NotFound when no agent has reported for the host.
func (c *Conductor) HostAudit(ctx context.Context, name string) (Audit, error) {
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	return c.auditWhole(ctx, host)
}

// auditReported compares the hosts that have reported until ctx ends.
func (c *Conductor) auditReported(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.audits.wake:
		}
		for host, ok := c.audits.next(); ok && ctx.Err() == nil; host, ok = c.audits.next() {
			if _, err := c.auditWhole(ctx, host); err != nil && ctx.Err() == nil {
				c.Log.Info("host not compared with Placement, the next report asks again", "host", host.Name, "error", err)
			}
		}
	}
}

func (a *auditor) next() (host schedule.Host, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return host, false
	}
	host, a.due = a.due[0], a.due[1:]
	return host, true
}

// auditWhole compares all providers of a host, and remembers what it has found.
func (c *Conductor) auditWhole(ctx context.Context, host schedule.Host) (Audit, error) {
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	of := []provider.ID{host.Provider}
	for _, d := range host.Devices {
		if d.Provider != "" && !slices.Contains(of, d.Provider) {
			of = append(of, d.Provider)
		}
	}
	at := c.now()
	found, err := c.audit(ctx, host.Name, of, true)
	if err == nil {
		c.remember(host.Name, audited{at: at, roots: at, found: found})
	}
	return found, err
}

// remember keeps an audit. What is missing on one host raises the suspicion that Placement was restored from a backup.
func (c *Conductor) remember(host string, now audited) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.last[host].found
	a.last[host] = now
	if len(now.found.Missing) > 0 && len(before.Missing) == 0 {
		a.suspected = c.now()
		c.Log.Warn("Placement lacks allocations of servers", "host", host, "consumers", len(now.found.Missing))
	}
}

// suspect makes all audits until now out of date: Placement did not answer, so it may have been restored from a backup meanwhile.
func (c *Conductor) suspect(err error) {
	if !fault.Is(err, fault.Unavailable) {
		return
	}
	c.audits.mu.Lock()
	defer c.audits.mu.Unlock()
	c.audits.suspected = c.now()
}

// forget drops what is remembered of a host.
func (a *auditor) forget(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, host)
}

// lacks reports whether Placement lacks allocations of servers on a host, as far as is remembered. known is false when the last comparison is older
// than a minute, or than the last report of the host.
func (c *Conductor) lacks(host schedule.Host) (lacks, known bool) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[host.Name]
	known = c.now().Sub(last.roots) < time.Minute && !last.roots.Before(host.Seen) && !last.roots.Before(a.suspected)
	return len(last.found.Missing) > 0, known
}

// auditRoot compares the root provider of a host, and reports whether Placement lacks allocations of servers there.
func (c *Conductor) auditRoot(ctx context.Context, host string, root provider.ID) (lacks bool, err error) {
	at := c.now()
	found, err := c.audit(ctx, host, []provider.ID{root}, false)
	if err != nil {
		return false, err
	}
	c.audits.mu.Lock()
	last := c.audits.last[host]
	c.audits.mu.Unlock()
	last.roots = at
	if len(found.Missing) > 0 {
		last.found.Host, last.found.Missing = host, found.Missing
	}
	c.remember(host, last)
	return len(found.Missing) > 0, nil
}
