package conductor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// How old the last audit of a host must be when a report of the host starts another one. Agents report at least once a
// minute.
const (
	auditEvery = 45 * time.Second
	auditAgain = 5 * time.Second // if allocations are missing, or Placement may have been restored
)

// maxAudited is how many hosts one round of scheduling audits before it is retried.
const maxAudited = 16

// auditor keeps the last audit of each host, and the hosts that are to be audited.
type auditor struct {
	mu        sync.Mutex
	last      map[string]audited
	due       []schedule.Host // in the order of their reports; each host once
	wake      chan struct{}   // has room for one
	suspected time.Time       // audits from before this moment are out of date: Placement may have been restored
}

// audited is the last audit of a host.
type audited struct {
	at    time.Time // when the whole host was audited
	root  time.Time // when its root provider was audited, alone or with the whole host
	found Audit
}

func newAuditor() *auditor {
	return &auditor{last: map[string]audited{}, wake: make(chan struct{}, 1)}
}

// HostReported starts an audit of a host that has reported, unless its last one is recent. It does not wait for the
// audit.
func (c *Conductor) HostReported(host schedule.Host) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	last, age := a.last[host.Name], auditEvery
	if len(last.found.Missing) > 0 || last.at.Before(a.suspected) {
		age = auditAgain
	}
	waits := slices.ContainsFunc(a.due, func(h schedule.Host) bool { return h.Name == host.Name })
	if waits || c.now().Sub(last.at) < age {
		return
	}
	a.due = append(a.due, host)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// HostConditions returns the conditions of a host that follow from its last audit.
func (c *Conductor) HostConditions(host string) []string {
	c.audits.mu.Lock()
	defer c.audits.mu.Unlock()
	return c.audits.last[host].found.conditions()
}

// HostAudit audits a host now. It returns fault.NotFound if no agent has reported for it.
func (c *Conductor) HostAudit(ctx context.Context, name string) (Audit, error) {
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	return c.auditHost(ctx, host)
}

// auditReported audits the hosts that have reported until ctx ends.
func (c *Conductor) auditReported(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.audits.wake:
		}
		for ctx.Err() == nil && c.AuditNext(ctx) {
		}
	}
}

// AuditNext audits the host that has waited longest since HostReported. It returns false if no host waits.
func (c *Conductor) AuditNext(ctx context.Context) bool {
	host, waits := c.audits.next()
	if !waits {
		return false
	}
	if _, err := c.auditHost(ctx, host); err != nil && ctx.Err() == nil {
		c.Log.Info("host not audited, will retry with its next report", "host", host.Name, "error", err)
	}
	return true
}

// next takes the first host that is to be audited.
func (a *auditor) next() (host schedule.Host, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return host, false
	}
	host, a.due = a.due[0], a.due[1:]
	return host, true
}

// auditHost audits all providers of a host that its report names, and keeps the result.
func (c *Conductor) auditHost(ctx context.Context, host schedule.Host) (Audit, error) {
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	on := []provider.ID{host.Provider}
	for _, d := range host.Devices {
		if d.Provider != "" && !slices.Contains(on, d.Provider) {
			on = append(on, d.Provider)
		}
	}
	at := c.now()
	found, err := c.audit(ctx, host.Name, on, true)
	if err == nil {
		c.keepAudit(host.Name, func(a *audited) { a.at, a.root, a.found = at, at, found })
	}
	return found, err
}

// auditRoot audits the root provider of a host, keeps the result, and returns whether allocations are missing.
func (c *Conductor) auditRoot(ctx context.Context, host string, root provider.ID) (missing bool, err error) {
	at := c.now()
	found, err := c.audit(ctx, host, []provider.ID{root}, false)
	if err != nil {
		return false, err
	}
	c.keepAudit(host, func(a *audited) {
		a.root = at
		if len(found.Missing) > 0 {
			a.found.Host, a.found.Missing = host, found.Missing
		}
	})
	return len(found.Missing) > 0, nil
}

// keepAudit keeps an audit. If allocations are missing that were there before, all older audits become out of date.
func (c *Conductor) keepAudit(host string, update func(*audited)) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.last[host]
	before := len(one.found.Missing)
	update(&one)
	a.last[host] = one
	if n := len(one.found.Missing); n > 0 && before == 0 {
		a.suspected = c.now()
		c.Log.Warn("allocations missing in Placement", "host", host, "consumers", n)
	}
}

// noteUnavailable makes all audits out of date if err is fault.Unavailable: Placement may have been restored from a
// backup.
func (c *Conductor) noteUnavailable(err error) {
	if !fault.Is(err, fault.Unavailable) {
		return
	}
	c.audits.mu.Lock()
	defer c.audits.mu.Unlock()
	c.audits.suspected = c.now()
}

// missing returns whether the last audit of a host has found missing allocations. fresh is false if the root of the
// host was audited more than a minute ago, or before its last report.
func (c *Conductor) missing(host schedule.Host) (missing, fresh bool) {
	a := c.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[host.Name]
	fresh = c.now().Sub(last.root) < time.Minute && !last.root.Before(host.Seen) && !last.root.Before(a.suspected)
	return len(last.found.Missing) > 0, fresh
}

// forget deletes the audit of a host.
func (a *auditor) forget(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, host)
}
