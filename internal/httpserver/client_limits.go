package httpserver

import (
	"net/netip"
	"time"
)

// limits bound the time and the connections that clients may use.
type limits struct {
	headerTimeout   time.Duration // for a client to send the header of a request; for a TLS handshake
	readTimeout     time.Duration // for a client to send chunkBytes of a body, or the rest of it
	idleTimeout     time.Duration // between two requests
	stalledAfter    time.Duration // without a byte of a header or body, until a new connection may replace this one
	writeGrace      time.Duration // for a client to receive a write of any size
	writeRate       int           // bytes per second; adds to writeGrace for large writes
	shutdownTimeout time.Duration // for running requests after the server began to stop
	maxTotal        int           // open connections
	maxForAddress   func(address netip.Prefix) int
}

// defaultLimits returns the limits of all services. A body may arrive at 1 KiB/s, the rate of a modem, and pause for
// twenty seconds.
func defaultLimits() limits {
	return limits{
		headerTimeout:   10 * time.Second,
		readTimeout:     20 * time.Second,
		idleTimeout:     2 * time.Minute,
		stalledAfter:    time.Second,
		writeGrace:      30 * time.Second,
		writeRate:       32 << 10,
		shutdownTimeout: 10 * time.Second,
		maxTotal:        DefaultMaxConnections,
		maxForAddress:   ConnLimits{Total: DefaultMaxConnections}.forAddress,
	}
}

const (
	maxHeaderBytes = 64 << 10
	chunkBytes     = 20 << 10 // of a body
)

// DefaultMaxConnections is the default of [berth] max_connections. Each agent has two connections to compute: the
// stream of its assignments, and one for its reports and signs of life.
const DefaultMaxConnections = 32768

// ConnLimits limits the open connections of one API.
type ConnLimits struct {
	Total       int // [berth] max_connections
	PerAddress  int // [berth] max_connections_per_address; 0: as many as Total
	PerLoopback int // the same for loopback addresses
}

// forAddress returns how many connections one address may have; 0: any number.
func (c ConnLimits) forAddress(address netip.Prefix) int {
	if !address.IsValid() || address.Addr().IsLoopback() {
		return c.PerLoopback
	}
	return c.PerAddress
}
