package httpserver

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connLimiter is a listener that limits the open connections, in total and for each address. At the total limit, a new
// connection replaces one that waits for its client (see evictionRank). If no connection can be replaced, new ones wait
// in the kernel's queue. A connection beyond the limit of its address replaces one from the same address, or is closed
// at once, because it must not block other addresses.
type connLimiter struct {
	net.Listener
	maxTotal      int
	maxForAddress func(address netip.Prefix) int // 0: any number
	stalledAfter  time.Duration                  // a header or body that is incomplete for this long is stalled
	log           *slog.Logger

	mu          sync.Mutex
	changed     sync.Cond // with mu; signalled when a connection may be admitted
	open        map[*limitedConn]bool
	byAddress   map[netip.Prefix]int
	lastWarning time.Time // when a refused connection was last logged
	shutdown    bool
}

const (
	stallPollInterval = 100 * time.Millisecond // how often a waiting connection checks for stalled ones
	warnInterval      = time.Minute            // how often refused connections are logged
)

func newConnLimiter(l net.Listener, lim limits, log *slog.Logger) *connLimiter {
	c := &connLimiter{Listener: l, maxTotal: lim.maxTotal, maxForAddress: lim.maxForAddress,
		stalledAfter: lim.stalledAfter, log: log, open: map[*limitedConn]bool{}, byAddress: map[netip.Prefix]int{}}
	c.changed.L = &c.mu
	return c
}

// connActivity is what a connection currently does.
type connActivity int

const (
	connFresh  connActivity = iota // no request has arrived yet, or only a part of its header
	connIdle                       // between two requests; a part of the next header may have arrived
	connActive                     // the server handles a request
	connUpload                     // the server waits for bytes of a request's body
)

// limitedConn is a connection that counts against the limits until it is closed. limiter.mu guards state and since.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	address netip.Prefix
	state   connActivity
	since   time.Time // when state was last set
	release func()

	seen    atomic.Bool     // the server has read from it
	turns   *handshakeTurns // once hasTurn was set
	hasTurn atomic.Bool     // the server computes its part of the TLS handshake
}

// Close implements net.Conn.
func (g *limitedConn) Close() error {
	defer g.release()
	g.endTurn()
	return g.Conn.Close()
}

// setState records what a connection does. A nil limitedConn is a connection in memory.
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

// Read implements net.Conn.
func (g *limitedConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 && !g.seen.Load() {
		g.seen.Store(true)
	}
	return n, err
}

// waits reports whether bytes have arrived of which the server has read none: it is late, not the client.
func (g *limitedConn) waits() bool {
	return !g.seen.Load() && unread(g.Conn) > 0
}

// evictionRank returns the order in which connections are closed for new ones, lowest first; ok is false for one that
// is not closed. First come connections with a stalled header, then idle ones, which HTTP lets a server close at any
// time, then those with a stalled body. One that was just opened is not closed: its request may be on the way. Nor is
// one whose request has arrived and waits for a processor.
func (g *limitedConn) evictionRank(now time.Time) (rank int, ok bool) {
	stalled := now.Sub(g.since) >= g.limiter.stalledAfter
	switch {
	case g.state == connFresh && stalled && !g.waits():
		return 0, true
	case g.state == connIdle:
		return 1, true
	case g.state == connUpload && stalled:
		return 2, true
	}
	return 0, false
}

// addressOf returns what counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address. It returns the
// zero Prefix for a connection without an IP address, which comes from this machine.
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

// Accept implements net.Listener. It returns the next connection once the limits allow it.
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
			_ = conn.Close() // nothing was read from it
		case listenerClosed:
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
}

type admission int

const (
	admitted       admission = iota
	refused                  // its address is at its limit, and none of its connections can be replaced
	listenerClosed           // the listener is closed
)

// acquire waits until the limits allow the connection, and counts it.
func (c *connLimiter) acquire(g *limitedConn) admission {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.shutdown {
		limit := c.maxForAddress(g.address)
		switch {
		case limit > 0 && c.byAddress[g.address] >= limit:
			if !c.evict(func(other *limitedConn) bool { return other.address == g.address }) {
				c.logRefusal(g.address, limit)
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

// awaitChange returns at a change or after stallPollInterval, because no event reports that a connection has stalled.
// The caller holds mu; awaitChange releases it while it waits.
func (c *connLimiter) awaitChange() {
	timer := time.AfterFunc(stallPollInterval, c.changed.Broadcast)
	defer timer.Stop()
	c.changed.Wait()
}

// evict closes the connection with the lowest evictionRank among those that match, and reports whether there is one.
// The caller holds mu; evict releases it while it closes the connection.
func (c *connLimiter) evict(match func(*limitedConn) bool) bool {
	var victim *limitedConn
	lowest, now := 0, time.Now()
	for g := range c.open {
		rank, ok := g.evictionRank(now)
		if !ok || !match(g) {
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

// logRefusal logs that connections of an address are refused, at most once per warnInterval. The caller holds mu.
func (c *connLimiter) logRefusal(address netip.Prefix, limit int) {
	if now := time.Now(); now.Sub(c.lastWarning) >= warnInterval {
		c.lastWarning = now
		c.log.Warn("connections refused: too many requests from one address; see [berth] max_connections_per_address",
			"address", address, "limit", limit)
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

// limitedConnOf returns the connection of the limiter that a connection of the server is, or that its TLS uses; nil if
// there is none.
func limitedConnOf(conn net.Conn) *limitedConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	limited, _ := conn.(*limitedConn)
	return limited
}

// connState records state changes; it is http.Server.ConnState. A connection becomes active when the complete header of
// a request has arrived.
func (c *connLimiter) connState(conn net.Conn, state http.ConnState) {
	g := limitedConnOf(conn)
	switch state {
	case http.StateActive:
		g.setState(connActive)
	case http.StateIdle:
		g.setState(connIdle)
	}
}
