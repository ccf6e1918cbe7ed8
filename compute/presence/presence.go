// Package presence records which agents of hosts live, which guests they report, and which assignments they have
// followed, as this process has observed it since it started. It decides which start of an agent may serve a host.
//
// The files, from the bottom to the top: presence.go; late_report.go, guests.go, first_reports.go,
// followed_assignments.go and reception_gaps.go; liveness.go and admission.go, start_failures.go. failed_builds.go and
// image_caches.go are by themselves.
package presence

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// Store is what presence needs of the database; *store.Store implements it.
type Store interface {
	Host(ctx context.Context, name string) (schedule.Host, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Dead(ctx context.Context) ([]string, error)
	PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error
	// CheckReads returns nil if the database answers.
	CheckReads(ctx context.Context) error
}

// Options are the options of Agents.
type Options struct {
	// [DEFAULT] service_down_time: the age of the last sign of life of a host from which on it counts as silent
	Silence time.Duration
	// how long the agent of a host has to follow assignments; then servers that wait for it are placed elsewhere
	FollowWithin time.Duration
	// how long the admitted start of an agent has to reconnect; 0: schedule.Reconnect
	Reconnect time.Duration
	// how long after compute's start a host that has not reported yet counts as fresh; 0: 30 s
	FirstReports time.Duration
	// Since returns the time since this process started, by a monotonic clock.
	Since func() time.Duration
	// Now returns the time by the wall clock, which only people see; nil: time.Now.
	Now func() time.Time
}

// Agents records what this process has observed of the hosts' agents since it started. It measures with the monotonic
// clock, so that no host becomes silent or alive when the wall clock is set. It is not stored, so every silence starts
// again when compute restarts.
type Agents struct {
	Options
	imageCaches

	store Store

	mu           sync.Mutex
	hosts        map[string]*observed
	inconsistent map[string]*observed // the hosts that are behind, or have unassigned guests
	gate         chan struct{}        // closed when the hosts that compute waits for after its start have reported
	awaited      map[string]bool
	young        map[string]bool // servers that this process has created at its start
	watched      bool            // received is kept up to date
	received     time.Duration   // when compute could receive reports last
	missed       time.Duration   // how long in total it could not
}

// observed is the state of one host.
type observed struct {
	sign         time.Duration      // last report or sign of life
	reported     bool               // to this process
	streams      int                // open ones; for operators only
	followed     followed           // the newest assignments that its agent has followed
	waiting      *unanswered        // assignments that it has not followed yet; nil: none
	declaredDead time.Duration      // when an operator declared it dead; 0: never, or before this process started
	behind       bool               // its agent does not follow the assignments
	down         string             // why its hypervisor can build no guests; empty: it can
	failed       string             // why the present start of its agent cannot report it; empty: it has reported
	failedAt     time.Duration      // when failed was received
	failedSince  time.Time          // when a failure was received first, without a report since
	guests       []schedule.Present // that exist on the host
}

// New returns the presence of agents of which none has reported to this process.
func New(store Store, options Options) *Agents {
	options.FirstReports = cmp.Or(options.FirstReports, firstReportsWithin)
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Agents{Options: options, store: store, hosts: map[string]*observed{}, inconsistent: map[string]*observed{},
		gate: make(chan struct{}), young: map[string]bool{}, received: options.Since()}
}

func (a *Agents) of(host string) *observed {
	o := a.hosts[host]
	if o == nil {
		o = &observed{sign: a.missed}
		a.hosts[host] = o
	}
	return o
}

// Reported records a report that was stored.
func (a *Agents) Reported(h schedule.Host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(h.Name)
	o.sign, o.reported, o.failed = a.Since(), true, ""
	a.observe(o, h)
	delete(a.awaited, h.Name)
	a.openGate()
}

// Forget forgets what a host has reported: it will never return, or as a new host.
func (a *Agents) Forget(host string) {
	a.SetImageCache(host, nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.hosts, host)
	delete(a.inconsistent, host)
	delete(a.awaited, host)
	a.openGate()
}

// observe records which guests a report contains, and whether its agent follows the assignments. a.mu is held.
func (a *Agents) observe(o *observed, h schedule.Host) {
	o.behind, o.guests, o.down = h.NotFollowed != "", h.Present, h.Down
	if delete(a.inconsistent, h.Name); o.behind || slices.ContainsFunc(o.guests, unassigned) {
		a.inconsistent[h.Name] = o
	}
}

// now returns the time up to which compute could receive reports. a.mu is held.
func (a *Agents) now() time.Duration {
	now := a.Since()
	if a.watched && now-a.received > LongestGap {
		return a.received
	}
	return now
}

// quiet returns the time since the last sign of life of a host, without times in which compute could not receive
// reports. a.mu is held.
func (o *observed) quiet(now time.Duration) time.Duration { return max(0, now-o.sign) }

// LongestGap is the longest time between two successful calls of CheckReceives in which compute could receive reports.
const LongestGap = 10 * time.Second

func unassigned(g schedule.Present) bool { return !g.Assigned }

// openGate closes the channel once all awaited hosts have reported. a.mu is held.
func (a *Agents) openGate() {
	if a.awaited == nil || len(a.awaited) > 0 {
		return
	}
	if !opened(a.gate) {
		close(a.gate)
	}
}

// opened reports whether a gate has been opened.
func opened(gate <-chan struct{}) bool {
	select {
	case <-gate:
		return true
	default:
		return false
	}
}

// followed is a point in the history of a host's assignments.
type followed struct {
	epoch    string
	revision int64
}

// unanswered is assignments that the agent of a host has not followed yet.
type unanswered struct {
	followed
	since time.Duration // by the clock of Agents
	late  time.Time     // when the agent had no time left for them; zero: it still has, or that was not asked yet
}
