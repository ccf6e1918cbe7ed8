package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Times are how old audits become. Zero fields have the defaults.
type Times struct {
	// how old the last audit of a host must be when a report of the host starts another one, default 45 s: agents report
	// at least once a minute
	Every time.Duration
	Again time.Duration // the same if it has found something, or Placement may have been restored; default 5 s
	// how old the last audit of a host may become without a report, if it has found something or can be repeated with one
	// request because Placement reports the states of trees; default 4 s
	Soon time.Duration
	Poll time.Duration // how often Run looks for such hosts, default 1 s
}

// WithDefaults returns the times with defaults for zero fields.
func (t Times) WithDefaults() Times {
	t.Every, t.Again = cmp.Or(t.Every, 45*time.Second), cmp.Or(t.Again, 5*time.Second)
	t.Soon, t.Poll = cmp.Or(t.Soon, 4*time.Second), cmp.Or(t.Poll, time.Second)
	return t
}

const (
	perPoll = 20 // how many hosts QueueOld queues at most

	// how long the audit of a whole host stays valid while Placement reports the same state of its tree
	unchangedFor = 10 * time.Minute
)

// audited is the last audit of a host.
type audited struct {
	at    time.Time // when the whole host was audited
	root  time.Time // when its root provider was audited, alone or with the whole host, or was found unchanged
	found Audit

	tree      provider.ID // the root provider that was audited
	treeState string      // before it was audited; empty: Placement has none, or allocations are missing

	whole      time.Time // when all providers of the host were compared
	compared   time.Time // when at least the root was
	wholeState string    // the state of the tree before that

	missingSince time.Time // since when allocations are missing
}

// recordTree records the state of a tree that an audit has found complete.
func (a *audited) recordTree(root provider.ID, found Audit) {
	if a.tree, a.treeState = root, found.treeState; len(found.Missing) > 0 {
		a.treeState = ""
	}
}

// New returns an auditor that has audited no host.
func New(store Store, placement Placement, options Options) *Auditor {
	options.Times = options.Times.WithDefaults()
	return &Auditor{Options: options, store: store, placement: placement, last: map[string]audited{},
		hosts: map[string]schedule.Host{}, queued: map[string]time.Time{}, waits: map[string]bool{},
		wake: make(chan struct{}, 1)}
}

// HostReported queues an audit of a host that has reported, unless its last one is recent. It does not wait for it.
func (a *Auditor) HostReported(host schedule.Host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts[host.Name] = host
	last, age := a.last[host.Name], a.Times.Every
	if len(last.found.Missing)+len(last.found.Foreign) > 0 || last.at.Before(a.suspected) {
		age = a.Times.Again
	}
	if a.waits[host.Name] || a.Now().Sub(last.at) < age {
		return
	}
	a.queue(host)
}

// queue queues an audit of a host. a.mu is held.
func (a *Auditor) queue(host schedule.Host) {
	a.due, a.waits[host.Name] = append(a.due, host), true
	a.queued[host.Name] = a.Now()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// QueueOld queues audits of the hosts whose last one is too old, the oldest first and at most perPoll. So conditions
// follow a change in Placement, such as the remedy of an operator, without a report of the host.
func (a *Auditor) QueueOld() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Now()
	var old []waitingHost
	for name := range a.hosts {
		last, age := a.last[name], a.Times.Every
		if last.wholeState != "" || len(last.found.Missing)+len(last.found.Foreign) > 0 {
			age = a.Times.Soon
		}
		if !a.waits[name] && now.Sub(last.at) >= age && now.Sub(a.queued[name]) >= age {
			old = append(old, waitingHost{name, a.queued[name]})
		}
	}
	slices.SortFunc(old, func(x, y waitingHost) int { return x.queued.Compare(y.queued) })
	for _, one := range old[:min(len(old), perPoll)] {
		a.queue(a.hosts[one.name])
	}
}

// waitingHost is a host and when it was queued last.
type waitingHost struct {
	name   string
	queued time.Time
}

// Conditions returns the conditions of a host that follow from its last audit, and from what SetReported has set.
func (a *Auditor) Conditions(host string) []condition.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[host]
	list := last.found.conditions(last.missingSince)
	if a.Now().Before(a.reportedUntil) && a.reported[host].Count > 0 {
		list = append(list, a.reported[host].condition().At(a.reportedSince[host]))
	}
	return list
}

// HostForeign returns the consumers that have resources of a host without being placed there, as its last audit has
// found them.
func (a *Auditor) HostForeign(host string) []Foreign {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[host].found.Foreign
}

// Run audits the hosts that have reported until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	tick := time.NewTicker(a.Times.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.QueueOld()
			continue
		case <-a.wake:
		}
		for ctx.Err() == nil && a.AuditNext(ctx) {
		}
	}
}

// AuditNext audits the host that has waited longest since its report. It returns false if no host waits.
func (a *Auditor) AuditNext(ctx context.Context) bool {
	host, waits := a.next()
	if !waits {
		return false
	}
	if _, err := a.auditHost(ctx, host); err != nil && ctx.Err() == nil {
		a.Log.Info("host not audited, will retry with its next report", "host", host.Name, "error", err)
	}
	return true
}

// next takes the first host that is to be audited.
func (a *Auditor) next() (host schedule.Host, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return host, false
	}
	host, a.due = a.due[0], a.due[1:]
	delete(a.waits, host.Name)
	return host, true
}

// auditHost audits all providers of a host that its report names, and keeps the result.
func (a *Auditor) auditHost(ctx context.Context, host schedule.Host) (Audit, error) {
	ctx, stop, err := a.Leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	at := a.Now()
	if same, err := a.unchanged(ctx, host); err != nil {
		return Audit{}, err
	} else if same {
		a.keep(host.Name, func(last *audited) { last.at, last.root = at, at })
		return Audit{Host: host.Name}, nil
	}
	found, err := a.audit(ctx, host.Name, providersOf(host), true)
	if err == nil {
		a.date(&found, at)
		kept := found // callers change the elements of their lists
		kept.Foreign, kept.Missing = slices.Clone(found.Foreign), slices.Clone(found.Missing)
		a.keep(host.Name, func(last *audited) {
			last.at, last.root, last.whole, last.compared = at, at, at, at
			last.found, last.wholeState = kept, found.treeState
			last.recordTree(host.Provider, found)
		})
	}
	return found, err
}

// date sets since when the foreign consumers of an audit are known.
func (a *Auditor) date(found *Audit, at time.Time) {
	before := a.HostForeign(found.Host)
	for i := range found.Foreign {
		found.Foreign[i].Since = at
		for _, f := range before {
			if f.Consumer == found.Foreign[i].Consumer {
				found.Foreign[i].Since = f.Since
			}
		}
	}
}

// unchanged reports whether the last audit of a whole host has found no difference, and no client has written
// allocations on its tree since. compute's own records are compared with the root every Times.Every.
func (a *Auditor) unchanged(ctx context.Context, host schedule.Host) (bool, error) {
	a.mu.Lock()
	last, now := a.last[host.Name], a.Now()
	a.mu.Unlock()
	if last.wholeState == "" || last.tree != host.Provider || now.Sub(last.whole) > unchangedFor ||
		len(last.found.Missing)+len(last.found.Foreign) > 0 {
		return false, nil
	}
	state, err := a.placement.TreeState(ctx, host.Provider)
	switch {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case err != nil || state != last.wholeState:
		return false, err
	case now.Sub(last.compared) < a.Times.Every:
		return true, nil
	}
	found, err := a.audit(ctx, host.Name, []provider.ID{host.Provider}, false)
	if err != nil || found.treeState != last.wholeState || len(found.Missing) > 0 {
		return false, err
	}
	a.keep(host.Name, func(last *audited) { last.compared = now })
	return true, nil
}

// AuditRoot audits the root provider of a host, keeps the result, and returns whether allocations are missing.
func (a *Auditor) AuditRoot(ctx context.Context, host string, root provider.ID) (missing bool, err error) {
	at := a.Now()
	found, err := a.audit(ctx, host, []provider.ID{root}, false)
	if err != nil {
		return false, err
	}
	a.keep(host, func(last *audited) {
		last.root = at
		last.recordTree(root, found)
		if len(found.Missing) > 0 {
			last.found.Host, last.found.Missing = host, found.Missing
		}
	})
	return len(found.Missing) > 0, nil
}

// keep keeps an audit. If allocations are missing that were there before, all older audits become out of date.
func (a *Auditor) keep(host string, update func(*audited)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.last[host]
	before := len(one.found.Missing)
	update(&one)
	a.last[host] = one
	if n := len(one.found.Missing); n > 0 && before == 0 {
		a.suspected = a.Now()
		one.missingSince = a.suspected
		a.last[host] = one
		a.Log.Warn("allocations missing in Placement", "host", host, "consumers", n)
	}
}

// NoteUnavailable makes all audits out of date if err is fault.Unavailable: Placement may have been restored from a
// backup.
func (a *Auditor) NoteUnavailable(err error) {
	if !fault.Is(err, fault.Unavailable) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.suspected = a.Now()
}

// Missing returns whether the last audit of a host has found missing allocations. fresh is false if the root of the
// host was audited more than a minute ago, or before its last report, and the claim cannot name the state of the tree.
func (a *Auditor) Missing(host schedule.Host) (missing, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[host.Name]
	if last.treeState != "" && last.tree == host.Provider {
		return false, true
	}
	fresh = a.Now().Sub(last.root) < time.Minute && !last.root.Before(host.Seen) && !last.root.Before(a.suspected)
	return len(last.found.Missing) > 0, fresh
}

// TreeState returns the state of a tree at the last audit of its host, if no allocations were missing. While Placement
// reports the same state, apart from additions, none can be missing. It is empty if another audit is necessary.
func (a *Auditor) TreeState(host string, root provider.ID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.last[host]; last.tree == root {
		return last.treeState
	}
	return ""
}

// Forget deletes the audit of a host.
func (a *Auditor) Forget(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, host)
	delete(a.hosts, host)
	delete(a.queued, host)
}

// providersOf returns the root provider of a host and those of its devices.
func providersOf(h schedule.Host) []provider.ID {
	on := []provider.ID{h.Provider}
	for _, d := range h.Devices {
		if d.Provider != "" && !slices.Contains(on, d.Provider) {
			on = append(on, d.Provider)
		}
	}
	if h.NodesInPlacement {
		on = append(on, h.NodeProviders()...)
	}
	return on
}
