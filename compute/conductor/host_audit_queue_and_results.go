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

	// how old the last audit of a host may become without a report, if it has found something or can be repeated with one
	// request because Placement reports the states of trees; and how many hosts are audited in a second for this
	auditSoon = 4 * time.Second
	auditRate = 20

	// how long the audit of a whole host stays valid while Placement reports the same state of its tree
	auditUnchanged = 10 * time.Minute
)

// auditor keeps the last audit of each host, and the hosts that are to be audited.
type auditor struct {
	read func() reading

	mu        sync.Mutex
	last      map[string]audited
	hosts     map[string]schedule.Host // those that have reported to this process
	queued    map[string]time.Time     // when an audit was queued last
	due       []schedule.Host          // in the order of their reports; each host once
	waits     map[string]bool          // the names of the hosts in due
	wake      chan struct{}            // has room for one
	suspected time.Time                // audits from before this moment are out of date: Placement may have been restored
}

// audited is the last audit of a host.
type audited struct {
	at    time.Time // when the whole host was audited
	root  time.Time // when its root provider was audited, alone or with the whole host
	found Audit

	tree      provider.ID // the root provider that was audited
	treeState string      // before it was audited; empty: Placement has none, or allocations are missing

	whole      time.Time // when all providers of the host were compared
	wholeState string    // the state of the tree before that
}

// recordTree records the state of a tree that an audit has found complete.
func (a *audited) recordTree(root provider.ID, found Audit) {
	if a.tree, a.treeState = root, found.treeState; len(found.Missing) > 0 {
		a.treeState = ""
	}
}

func newAuditor(read func() reading) *auditor {
	return &auditor{read: read, last: map[string]audited{}, hosts: map[string]schedule.Host{},
		queued: map[string]time.Time{}, waits: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// reported queues an audit of a host that has reported, unless its last one is recent.
func (a *auditor) reported(host schedule.Host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts[host.Name] = host
	last, age := a.last[host.Name], auditEvery
	if len(last.found.Missing) > 0 || last.at.Before(a.suspected) {
		age = auditAgain
	}
	if a.waits[host.Name] || a.read().Now().Sub(last.at) < age {
		return
	}
	a.queue(host)
}

// queue queues an audit of a host. a.mu is held.
func (a *auditor) queue(host schedule.Host) {
	a.due, a.waits[host.Name] = append(a.due, host), true
	a.queued[host.Name] = a.read().Now()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// queueOld queues audits of the hosts whose last one is too old, the oldest first and at most auditRate. So conditions
// follow a change in Placement, such as the remedy of an operator, without a report of the host.
func (a *auditor) queueOld() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.read().Now()
	var old []string
	for name := range a.hosts {
		last, age := a.last[name], auditEvery
		if last.wholeState != "" || len(last.found.Missing)+len(last.found.Foreign) > 0 {
			age = auditSoon
		}
		if !a.waits[name] && now.Sub(last.at) >= age && now.Sub(a.queued[name]) >= age {
			old = append(old, name)
		}
	}
	slices.SortFunc(old, func(x, y string) int { return a.queued[x].Compare(a.queued[y]) })
	for _, name := range old[:min(len(old), auditRate)] {
		a.queue(a.hosts[name])
	}
}

// conditions returns the conditions of a host that follow from its last audit.
func (a *auditor) conditions(host string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[host].found.conditions()
}

// foreign returns the foreign consumers of the last audit of a host.
func (a *auditor) foreign(host string) []Foreign {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[host].found.Foreign
}

// run audits the hosts that have reported until ctx ends.
func (a *auditor) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.queueOld()
			continue
		case <-a.wake:
		}
		for ctx.Err() == nil && a.auditNext(ctx) {
		}
	}
}

// auditNext audits the host that has waited longest since its report. It returns false if no host waits.
func (a *auditor) auditNext(ctx context.Context) bool {
	host, waits := a.next()
	if !waits {
		return false
	}
	if _, err := a.auditHost(ctx, host); err != nil && ctx.Err() == nil {
		a.read().Log.Info("host not audited, will retry with its next report", "host", host.Name, "error", err)
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
	delete(a.waits, host.Name)
	return host, true
}

// auditHost audits all providers of a host that its report names, and keeps the result.
func (a *auditor) auditHost(ctx context.Context, host schedule.Host) (Audit, error) {
	ctx, stop, err := a.read().leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	at := a.read().Now()
	if same, err := a.unchanged(ctx, host); err != nil {
		return Audit{}, err
	} else if same {
		a.keep(host.Name, func(last *audited) { last.at, last.root = at, at })
		return Audit{Host: host.Name}, nil
	}
	found, err := a.read().audit(ctx, host.Name, providersOf(host), true)
	if err == nil {
		a.date(&found, at)
		a.keep(host.Name, func(last *audited) {
			last.at, last.root, last.whole, last.found, last.wholeState = at, at, at, found, found.treeState
			last.recordTree(host.Provider, found)
		})
	}
	return found, err
}

// date sets since when the foreign consumers of an audit are known.
func (a *auditor) date(found *Audit, at time.Time) {
	before := a.foreign(found.Host)
	for i := range found.Foreign {
		found.Foreign[i].Since = at
		for _, f := range before {
			if f.Consumer == found.Foreign[i].Consumer {
				found.Foreign[i].Since = f.Since
			}
		}
	}
}

// unchanged reports whether the last audit of a whole host has found no difference, an audit of its root finds none
// now, and no client has written allocations on its tree in between.
func (a *auditor) unchanged(ctx context.Context, host schedule.Host) (bool, error) {
	a.mu.Lock()
	last := a.last[host.Name]
	a.mu.Unlock()
	if last.wholeState == "" || last.tree != host.Provider || a.read().Now().Sub(last.whole) > auditUnchanged ||
		len(last.found.Missing)+len(last.found.Foreign) > 0 {
		return false, nil
	}
	found, err := a.read().audit(ctx, host.Name, []provider.ID{host.Provider}, false)
	return err == nil && found.treeState == last.wholeState && len(found.Missing) == 0, err
}

// auditRoot audits the root provider of a host, keeps the result, and returns whether allocations are missing.
func (a *auditor) auditRoot(ctx context.Context, host string, root provider.ID) (missing bool, err error) {
	at := a.read().Now()
	found, err := a.read().audit(ctx, host, []provider.ID{root}, false)
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
func (a *auditor) keep(host string, update func(*audited)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.last[host]
	before := len(one.found.Missing)
	update(&one)
	a.last[host] = one
	if n := len(one.found.Missing); n > 0 && before == 0 {
		a.suspected = a.read().Now()
		a.read().Log.Warn("allocations missing in Placement", "host", host, "consumers", n)
	}
}

// noteUnavailable makes all audits out of date if err is fault.Unavailable: Placement may have been restored from a
// backup.
func (a *auditor) noteUnavailable(err error) {
	if !fault.Is(err, fault.Unavailable) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.suspected = a.read().Now()
}

// missing returns whether the last audit of a host has found missing allocations. fresh is false if the root of the
// host was audited more than a minute ago, or before its last report, and the claim cannot name the state of the tree.
func (a *auditor) missing(host schedule.Host) (missing, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[host.Name]
	if last.treeState != "" && last.tree == host.Provider {
		return false, true
	}
	fresh = a.read().Now().Sub(last.root) < time.Minute && !last.root.Before(host.Seen) && !last.root.Before(a.suspected)
	return len(last.found.Missing) > 0, fresh
}

// treeState returns the state of a tree at the last audit of its host, if no allocations were missing. While Placement
// reports the same state, apart from additions, none can be missing. It is empty if another audit is necessary.
func (a *auditor) treeState(host string, root provider.ID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.last[host]; last.tree == root {
		return last.treeState
	}
	return ""
}

// forget deletes the audit of a host.
func (a *auditor) forget(host string) {
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
	return on
}
