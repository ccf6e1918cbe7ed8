package conductor

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// presence is what compute has observed of the hosts' agents since it began. It measures with the monotonic clock: an
// administrator or a time server may set the wall clock at any moment, and no host becomes silent or alive by that. It
// is not stored, so after a restart of compute every silence begins again.
type presence struct {
	clock func() time.Duration // since compute began; it never goes back

	mu    sync.Mutex
	hosts map[string]*observed
	odd   map[string]*observed // the hosts that are behind, or have unassigned guests
	gate  chan struct{}        // closed when the hosts that compute waits for after its start have reported
	waits map[string]bool
}

// observed is what is known of one host.
type observed struct {
	sign     time.Duration // last report, or end of a stream
	report   time.Duration // last report
	reported bool
	streams  map[string]int     // open ones, by the start that follows them
	buried   time.Duration      // when an operator declared it dead; zero: never, or before compute began
	behind   bool               // its agent does not follow the assignments
	guests   []schedule.Present // that exist there
}

func newPresence() *presence {
	began := time.Now()
	return &presence{clock: func() time.Duration { return time.Since(began) }, hosts: map[string]*observed{}, odd: map[string]*observed{},
		gate: make(chan struct{})}
}

func (p *presence) of(host string) *observed {
	o := p.hosts[host]
	if o == nil {
		o = &observed{streams: map[string]int{}}
		p.hosts[host] = o
	}
	return o
}

// reported records a report that was stored.
func (p *presence) reported(h schedule.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(h.Name)
	o.sign, o.report, o.reported = p.clock(), p.clock(), true
	o.behind, o.guests = h.Behind != "", h.Present
	if delete(p.odd, h.Name); o.behind || slices.ContainsFunc(o.guests, unassigned) {
		p.odd[h.Name] = o
	}
	delete(p.waits, h.Name)
	p.openGate()
}

// opened records an open stream of assignments until the returned function is called.
func (p *presence) opened(host, start string) (closed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).streams[start]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		o := p.of(host)
		if o.streams[start]--; o.streams[start] == 0 {
			delete(o.streams, start)
		}
		o.sign = p.clock()
	})
}

// signs returns what admission judges by: the signs of the admitted start of a host's agent.
func (p *presence) signs(host, start string) schedule.Liveness {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	return schedule.Liveness{Streams: o.streams[start], Quiet: p.clock() - o.sign}
}

// alive returns the signs of any start of a host's agent.
func (p *presence) alive(host string) (connected bool, quiet time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	return len(o.streams) > 0, p.clock() - o.sign
}

// buried records that an operator has declared a host dead.
func (p *presence) buried(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(host).buried = p.clock()
}

// returned reports whether the agent of a host that was declared dead is connected, or has reported since.
func (p *presence) returned(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(host)
	return len(o.streams) > 0 || o.reported && o.report > o.buried
}

// firstReportsWithin is how long after compute's start a host that has not reported yet counts as one that will.
const firstReportsWithin = 30 * time.Second

// sinceReport returns the age of the host's last report. A host that has not reported since compute began counts as
// fresh for a short while and as silent after it: nothing is known of how old its last report is.
func (p *presence) sinceReport(host string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	switch o := p.of(host); {
	case o.reported:
		return now - o.report
	case now < firstReportsWithin:
		return 0
	}
	return now + schedule.Silence
}

// anyReported reports whether any host has reported since compute began.
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

// await makes the gate open when these hosts have reported.
func (p *presence) await(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = map[string]bool{}
	for _, host := range hosts {
		if o := p.hosts[host]; o == nil || !o.reported {
			p.waits[host] = true
		}
	}
	p.openGate()
}

// stopWaiting opens the gate and returns the hosts that have not reported.
func (p *presence) stopWaiting() (missing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing = slices.Sorted(maps.Keys(p.waits))
	p.waits = map[string]bool{}
	p.openGate()
	return missing
}

// openGate closes the channel once nobody is waited for. p.mu is held.
func (p *presence) openGate() {
	if p.waits == nil || len(p.waits) > 0 {
		return
	}
	select {
	case <-p.gate:
	default:
		close(p.gate)
	}
}

// conflict is a host whose guests contradict the record of a server.
type conflict struct {
	host   string
	behind bool   // its agent follows newer assignments than compute's database has; else it has a guest that compute has not placed there
	guest  string // id of the server's guest there; empty: there is none
}

// conflicts lists the hosts that contradict the record of a server.
func (p *presence) conflicts(s lifecycle.Server) []conflict {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []conflict
	for host, o := range p.odd {
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

// guestOf returns the id of a guest of the server among those of a host, and the server's own when there is none.
func guestOf(s lifecycle.Server, guests []schedule.Present) string {
	for _, g := range guests {
		if g.Server == s.ID {
			return g.ID
		}
	}
	return s.ID
}

func unassigned(g schedule.Present) bool { return !g.Assigned }
