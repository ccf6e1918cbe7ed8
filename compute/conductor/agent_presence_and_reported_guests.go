package conductor

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// firstReports is how long after the start compute waits for the reports of agents.
const firstReports = 15 * time.Second

// presence records what this process has observed of the hosts' agents since it started. It measures with the monotonic
// clock, so that no host becomes silent or alive when the wall clock is set. It is not stored, so every silence starts
// again when compute restarts.
type presence struct {
	clock func() time.Duration // time since this process started; monotonic

	mu           sync.Mutex
	hosts        map[string]*observed
	inconsistent map[string]*observed // the hosts that are behind, or have unassigned guests
	gate         chan struct{}        // closed when the hosts that compute waits for after its start have reported
	awaited      map[string]bool
	young        map[string]bool // servers that this process has created while the gate is closed
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
	search       *search            // for servers that wait for it; nil: none yet
	declaredDead time.Duration      // when an operator declared it dead; 0: never, or before this process started
	behind       bool               // its agent does not follow the assignments
	down         string             // why its hypervisor can build no guests; empty: it can
	failed       string             // why the present start of its agent cannot report it; empty: it has reported
	failedAt     time.Duration      // when failed was received
	guests       []schedule.Present // that exist on the host
}

func newPresence() *presence {
	started := time.Now()
	return &presence{clock: func() time.Duration { return time.Since(started) },
		hosts: map[string]*observed{}, inconsistent: map[string]*observed{}, gate: make(chan struct{}),
		young: map[string]bool{}}
}

func (p *presence) of(host string) *observed {
	o := p.hosts[host]
	if o == nil {
		o = &observed{sign: p.missed}
		p.hosts[host] = o
	}
	return o
}

// reported records a report that was stored.
func (p *presence) reported(h schedule.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(h.Name)
	o.sign, o.reported, o.failed = p.clock(), true, ""
	p.observe(o, h)
	delete(p.awaited, h.Name)
	p.openGate()
}

// observe records which guests a report contains, and whether its agent follows the assignments. p.mu is held.
func (p *presence) observe(o *observed, h schedule.Host) {
	o.behind, o.guests, o.down = h.NotFollowed != "", h.Present, h.Down
	if delete(p.inconsistent, h.Name); o.behind || slices.ContainsFunc(o.guests, unassigned) {
		p.inconsistent[h.Name] = o
	}
}

// recall records the guests of stored reports: until a host reports to this process, its last report is what is known
// of its guests. It does not make the host alive.
func (p *presence) recall(hosts []schedule.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range hosts {
		if o := p.of(h.Name); !o.reported {
			p.observe(o, h)
		}
	}
}

// alive records a sign of life of a host's agent. It returns false if the host has not reported to this process.
func (p *presence) alive(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	if o.reported {
		o.sign = p.clock()
	}
	return o.reported
}

// StartFailure is why the present start of an agent cannot report its host yet.
type StartFailure struct {
	Why   string        // as the agent sent it
	Quiet time.Duration // since it was sent last
}

// startFailed records that a start has failed. It does not count as a sign of life of the admitted
// start, which may be another one.
func (p *presence) startFailed(host, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	o.failed, o.failedAt = why, p.clock()
}

// startFailure returns the failure that the agent of a host has sent within a time; otherwise Why is empty.
func (p *presence) startFailure(host string, within time.Duration) StartFailure {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.hosts[host]
	if o == nil || o.failed == "" || p.now()-o.failedAt >= within {
		return StartFailure{}
	}
	return StartFailure{o.failed, max(0, p.now()-o.failedAt)}
}

// failedStarts returns the names of the hosts whose start has failed, sorted.
func (p *presence) failedStarts() (hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, o := range p.hosts {
		if o.failed != "" {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// streamOpened records an open stream of assignments until the returned function is called.
func (p *presence) streamOpened(host string) (closed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	o.streams++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		o.streams--
	})
}

// lastSign returns whether a host's agent has an open stream, and the time since its last sign of life.
func (p *presence) lastSign(host string) (connected bool, quiet time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	return o.streams > 0, p.quiet(o)
}

// markDead records that an operator has declared a host dead.
func (p *presence) markDead(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).declaredDead = p.clock()
}

// returned reports whether the agent of a host that was declared dead has reported since.
func (p *presence) returned(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	return o.reported && o.sign > o.declaredDead
}

// firstReportsWithin is how long after compute's start a host that has not reported yet counts as fresh.
const firstReportsWithin = 30 * time.Second

// sinceReport returns the age of the host's last report or sign of life. A host that has not reported since this
// process started counts as fresh for firstReportsWithin and as older than silence after it, because the age of its
// last report is unknown.
func (p *presence) sinceReport(host string, silence time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now() - p.missed
	switch o := p.of(host); {
	case o.reported:
		return p.quiet(o)
	case now < firstReportsWithin:
		return 0
	}
	return now + silence
}

// anyReported reports whether any host has reported since this process started.
func (p *presence) anyReported() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.hosts {
		if o.reported {
			return true
		}
	}
	return false
}

// waitFor opens the gate as soon as these hosts have reported. It does not block.
func (p *presence) waitFor(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited = map[string]bool{}
	for _, host := range hosts {
		if o := p.hosts[host]; o == nil || !o.reported {
			p.awaited[host] = true
		}
	}
	p.openGate()
}

// stopWaiting opens the gate and returns the hosts that have not reported.
func (p *presence) stopWaiting() (missing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing = slices.Sorted(maps.Keys(p.awaited))
	p.awaited = map[string]bool{}
	p.openGate()
	return missing
}

// openGate closes the channel once all awaited hosts have reported. p.mu is held.
func (p *presence) openGate() {
	if p.awaited == nil || len(p.awaited) > 0 {
		return
	}
	select {
	case <-p.gate:
	default:
		close(p.gate)
		p.young = nil
	}
}

// created records servers that this process is about to create: they are in no backup that is older than this process.
// The times of their creation do not show that, because the wall clock may have been set.
func (p *presence) created(servers []lifecycle.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		if p.young != nil {
			p.young[s.ID] = true
		}
	}
}

// createdHere reports whether this process has created a server while the gate was closed.
func (p *presence) createdHere(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.young[id]
}

// conflict is a host whose guests contradict the record of a server.
type conflict struct {
	host   string
	behind bool   // its agent follows newer assignments than the database has; false: it has a guest not placed there
	guest  string // id of the server's guest there; empty: no guest
}

// conflicts lists the hosts that contradict the record of a server.
func (p *presence) conflicts(s lifecycle.Server) []conflict {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []conflict
	for host, o := range p.inconsistent {
		if s.Contradicts(host, o.behind, o.guests) {
			list = append(list, conflict{host, o.behind, guestOf(s, o.guests)})
		}
	}
	slices.SortFunc(list, func(a, b conflict) int { return slices.Compare([]string{a.host}, []string{b.host}) })
	return list
}

// guestsOf returns the guests that a host has reported.
func (p *presence) guestsOf(host string) []schedule.Present {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.hosts[host]; o != nil {
		return o.guests
	}
	return nil
}

// mayHave reports whether a host may have the guest of a server's own consumer: it has reported the guest, or it has
// not reported to this process. Then its guests are not known, because the database may have been restored from a
// backup before this process started.
func (p *presence) mayHave(host, server string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.hosts[host]
	if o == nil || !o.reported {
		return !p.young[server]
	}
	return slices.ContainsFunc(o.guests, func(g schedule.Present) bool { return g.ID == server })
}

// hasGuest reports whether the last report of a host has the guest of a server's own consumer.
func (p *presence) hasGuest(host string, s lifecycle.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.hosts[host]
	return o != nil && slices.ContainsFunc(o.guests, func(g schedule.Present) bool {
		return g.ID == s.ID || g.ID == s.PreviousConsumer && g.ID != ""
	})
}

// guestOf returns the id of a guest of the server among those of a host, or the server's id if there is none.
func guestOf(s lifecycle.Server, guests []schedule.Present) string {
	for _, g := range guests {
		if g.Server == s.ID {
			return g.ID
		}
	}
	return s.ID
}

func unassigned(g schedule.Present) bool { return !g.Assigned }

// followed is a point in the history of a host's assignments.
type followed struct {
	epoch    string
	revision int64
}

// unanswered is assignments that the agent of a host has not followed yet.
type unanswered struct {
	followed
	since time.Duration // by the clock of presence
}

// search is the last search for servers that wait for the agent of a host.
type search struct {
	revision   int64           // of the host's assignments then
	hypervisor bool            // the hypervisor could build no guests
	at         time.Duration   // by the clock of presence
	found      bool            // some wait
	told       map[string]bool // those whose history has an entry about it
}

// now returns the time up to which compute could receive reports. p.mu is held.
func (p *presence) now() time.Duration {
	now := p.clock()
	if p.watched && now-p.received > longestGap {
		return p.received
	}
	return now
}

// quiet returns the time since the last sign of life of a host, without times in which compute could not receive
// reports. p.mu is held.
func (p *presence) quiet(o *observed) time.Duration { return max(0, p.now()-o.sign) }

const (
	receivesEvery = 2 * time.Second  // how often compute checks that it can receive reports
	longestGap    = 10 * time.Second // between two successful checks, if it could receive reports in between
)
