// Package httpserver serves an HTTP handler on a TCP listener. It limits open connections, in total and for each address,
// closes connections of slow clients, and finishes running requests on shutdown.
package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// limits are what a client may take of a server's time.
type limits struct {
	headerTimeout   time.Duration // to send the head of a request
	readTimeout     time.Duration // to send each partBytes of a body, or its rest
	idleTimeout     time.Duration // between two requests
	writeGrace      time.Duration // to take any part of an answer, however small
	writeRate       int           // bytes per second; who takes a large part slower than that, after the grace, is cut off
	shutdownTimeout time.Duration // for requests that run when the server is told to stop
	maxTotal        int           // connections at a time
	maxForAddress   func(address netip.Prefix) int
}

// usual are the limits of all services. A body may arrive at 1 KiB/s, the rate of a modem, and stop for twenty seconds.
func defaultLimits() limits {
	return limits{headerTimeout: 10 * time.Second, readTimeout: 20 * time.Second, idleTimeout: 2 * time.Minute, writeGrace: 30 * time.Second, writeRate: 32 << 10,
		shutdownTimeout: 10 * time.Second, maxTotal: DefaultMaxConnections, maxForAddress: ConnLimits{Total: DefaultMaxConnections}.forAddress}
}

const (
	maxHeaderBytes = 64 << 10
	chunkBytes     = 20 << 10 // of a body
)

// usualConnections is [berth] max_connections where nobody says otherwise: each agent holds one to compute.
const DefaultMaxConnections = 16384

// Connections is how many connections an API has open at a time.
type ConnLimits struct {
	Total       int // [berth] max_connections
	PerAddress  int // [berth] max_connections_per_address; 0: as many as Most
	PerLoopback int // the same for loopback addresses
}

// share is how many of them one address may have; 0: all.
func (c ConnLimits) forAddress(address netip.Prefix) int {
	if !address.IsValid() || address.Addr().IsLoopback() {
		return c.PerLoopback
	}
	return c.PerAddress
}

// Listen opens the TCP address that a flag gives, such as "127.0.0.1:8778". With noauth2, where each caller is who he says he
// is, an address that others can reach is refused.
func Listen(flag, address string, noauth bool) (net.Listener, error) {
	const op = "httpserver.Listen"
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "%s %s: %w; write it as 127.0.0.1:8778", flag, address, err)
	}
	if noauth && !resolved.IP.IsLoopback() {
		return nil, fault.New(fault.Forbidden, op,
			"%s %s is not a loopback address, and with auth_strategy = noauth2 anybody who reaches it is admin; listen on 127.0.0.1 or [::1]", flag, address)
	}
	// Listen on what was looked at: a name could resolve to something else the second time.
	config := net.ListenConfig{Control: setPeerTimeout}
	l, err := config.Listen(context.Background(), "tcp", resolved.String())
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot listen on %s: %w; another process may have it, choose another with %s", address, err, flag)
	}
	return l, nil
}

// LoopbackOnly refuses requests that name another host than this machine. With noauth2 a page in a browser could otherwise
// make its own name resolve to 127.0.0.1, and be admin.
func LoopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "with auth_strategy = noauth2 this service answers only to localhost, 127.0.0.1 and [::1]", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// heapFloor, in bytes, counts as heap and is never touched, so it takes no memory: but the collector comes when the heap has doubled, which with
// a small database would be many times in a second.
const heapBallast = 32 << 20

// Serve answers on the listener until ctx ends. Requests that run then are finished, within ten seconds; streams
// (answers that were flushed before their end) are ended at once, for they never end by themselves. Slow clients are
// cut off. The number of connections is limited, in all and from one address. A further connection waits, or takes the
// place of one that waits for its client.
func Serve(ctx context.Context, l net.Listener, h http.Handler, connections ConnLimits, log *slog.Logger) error {
	floor := make([]byte, heapBallast)
	defer runtime.KeepAlive(floor)
	may := defaultLimits()
	may.maxTotal, may.maxForAddress = connections.Total, connections.forAddress
	return serve(ctx, l, h, log, may)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, may limits) error {
	const op = "httpserver.Serve"
	crowd := newConnLimiter(l, may, log)
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{Handler: withDeadlines(ctx, h, may), ReadHeaderTimeout: may.headerTimeout, IdleTimeout: may.idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, BaseContext: func(net.Listener) context.Context { return base }, ConnContext: withConn,
		ConnState: crowd.connState, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(crowd) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, op, err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), may.shutdownTimeout)
	defer cancel()
	err := s.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.New(fault.Unavailable, op, "requests were cut off: they were not finished %s after the server was told to stop", may.shutdownTimeout)
	}
	if closed := s.Close(); err == nil && closed != nil {
		err = closed
	}
	if served := <-ended; served != nil && !errors.Is(served, http.ErrServerClosed) && err == nil {
		err = served
	}
	return fault.Wrap("", op, err)
}
