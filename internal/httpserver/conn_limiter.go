package httpserver

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// crowd limits how many connections are open, in all and from one address. When all places are taken, a new connection
// replaces one that waits for its client (see rank). While the server works on a request on every connection, new ones
// wait in the kernel's queue. A connection beyond the share of its address replaces one from the same address, or is
// closed at once: it must not block other addresses.
type connLimiter struct {
	net.Listener
	maxTotal      int
	maxForAddress func(address netip.Prefix) int // how many connections one address may have; 0: any number
	log           *slog.Logger

	mu          sync.Mutex
	changed     sync.Cond // of mu: something has changed
	open        map[*limitedConn]bool
	byAddress   map[netip.Prefix]int
	lastWarning time.Time // when a refusal was last logged
	shutdown    bool
}

const (
	stalledAfter      = time.Second            // a head or body that is incomplete for so long is stalled
	stallPollInterval = 100 * time.Millisecond // how often a new connection looks for stalled ones
	warnInterval      = time.Minute            // how often refused connections are logged
)

func newConnLimiter(l net.Listener, may limits, log *slog.Logger) *connLimiter {
	c := &connLimiter{Listener: l, maxTotal: may.maxTotal, maxForAddress: may.maxForAddress, log: log,
		open: map[*limitedConn]bool{}, byAddress: map[netip.Prefix]int{}}
	c.changed.L = &c.mu
	return c
}

// guestState is what a connection does.
type connActivity int

const (
	connFresh  connActivity = iota // no request has arrived on it, or only a part of its head
	connIdle                       // between two requests; a part of the next head may have arrived
	connActive                     // the server works on a request
	connUpload                     // the server waits for bytes of a request's body
)

// guest is a connection that has a place until it is closed. The crowd's mu guards state and since.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	address netip.Prefix
	state   connActivity
	since   time.Time // when state was last set
	release func()
}

// Close implements net.Conn.
func (g *limitedConn) Close() error {
	defer g.release()
	return g.Conn.Close()
}

// set records what a connection does. A nil guest is a connection in memory.
func (g *limitedConn) setState(state connActivity) {
	if g == nil {
		return
	}
	c := g.limiter
	c.mu.Lock()
	defer c.mu.Unlock()
	g.state, g.since = state, time.Now()
	if state == connIdle {
		c.changed.Broadcast()
	}
}

// rank says how well a connection can be missed, the lowest best; ok is false for one that keeps its place. Connections
// on which a head has stalled come first. Next are idle ones, which HTTP lets a server close at any time, and those
// whose client has stopped in the middle of a body. Last come those that were just opened.
func (g *limitedConn) evictionRank(now time.Time) (rank int, ok bool) {
	stalled := now.Sub(g.since) >= stalledAfter
	switch {
	case g.state == connFresh && stalled:
		return 0, true
	case g.state == connIdle:
		return 1, true
	case g.state == connUpload && stalled:
		return 2, true
	}
	return 3, g.state == connFresh
}

// addressOf is what counts as one client: an IPv4 address, or the 64 bits of an IPv6 network. A connection that has no
// IP address has the zero Prefix: it comes from this machine.
func addressOf(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() && !ip.IsLoopback() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// Accept implements net.Listener. The connection at hand waits until it has a place.
func (c *connLimiter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g := &limitedConn{Conn: conn, limiter: c, address: addressOf(conn)}
		g.release = sync.OnceFunc(func() { c.release(g) })
		switch c.acquire(g) {
		case admitted:
			return g, nil
		case refused:
			_ = conn.Close() // nothing of it was read
		case listenerClosed:
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
}

type admission int

const (
	admitted       admission = iota
	refused                  // its address has its share of connections, and the server works on each
	listenerClosed           // the listener is closed
)

// enter waits for a place.
func (c *connLimiter) acquire(g *limitedConn) admission {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.shutdown {
		share := c.maxForAddress(g.address)
		switch {
		case share > 0 && c.byAddress[g.address] >= share:
			if !c.evict(func(other *limitedConn) bool { return other.address == g.address }) {
				c.logRefusal(g.address, share)
				return refused
			}
		case len(c.open) >= c.maxTotal:
			if !c.evict(func(*limitedConn) bool { return true }) {
				c.awaitChange()
			}
		default:
			c.open[g] = true
			c.byAddress[g.address]++
			g.state, g.since = connFresh, time.Now()
			return admitted
		}
	}
	return listenerClosed
}

// wait returns when something has changed, or after a while: connections stall without a sign. mu is held, but not
// while it waits.
func (c *connLimiter) awaitChange() {
	again := time.AfterFunc(stallPollInterval, c.changed.Broadcast)
	defer again.Stop()
	c.changed.Wait()
}

// evict closes the connection that can best be missed of those that are asked for, and reports whether there is one. It
// is called with mu held, and is without it for a moment.
func (c *connLimiter) evict(among func(*limitedConn) bool) bool {
	var victim *limitedConn
	lowest, now := 0, time.Now()
	for g := range c.open {
		rank, ok := g.evictionRank(now)
		if !ok || !among(g) {
			continue
		}
		if victim == nil || rank < lowest || rank == lowest && g.since.Before(victim.since) {
			victim, lowest = g, rank
		}
	}
	if victim == nil {
		return false
	}
	c.mu.Unlock()
	_ = victim.Close() // it may be closed already
	c.mu.Lock()
	return true
}

// warn logs that connections of an address are refused, from time to time. mu is held.
func (c *connLimiter) logRefusal(address netip.Prefix, share int) {
	if now := time.Now(); now.Sub(c.lastWarning) >= warnInterval {
		c.lastWarning = now
		c.log.Warn("connections refused: too many requests from one address; see [berth] max_connections_per_address",
			"address", address, "limit", share)
	}
}

func (c *connLimiter) release(g *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open[g] {
		return
	}
	delete(c.open, g)
	if c.byAddress[g.address]--; c.byAddress[g.address] == 0 {
		delete(c.byAddress, g.address)
	}
	c.changed.Broadcast()
}

// Close implements net.Listener.
func (c *connLimiter) Close() error {
	c.mu.Lock()
	c.shutdown = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}

// note is http.Server's ConnState. A connection becomes active when the head of a request has arrived whole.
func (c *connLimiter) connState(conn net.Conn, state http.ConnState) {
	g, ok := conn.(*limitedConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		g.setState(connActive)
	case http.StateIdle:
		g.setState(connIdle)
	}
}
