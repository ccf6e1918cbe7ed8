package cloud

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
	header   time.Duration // to send the head of a request
	read     time.Duration // to send each partBytes of a body, or its rest
	idle     time.Duration // between two requests
	grace    time.Duration // to take any part of an answer, however small
	rate     int           // bytes per second; who takes a large part slower than that, after the grace, is cut off
	shutdown time.Duration // for requests that run when the server is told to stop
	most     int           // connections at a time
	share    func(address netip.Prefix) int
}

// usual are the limits of all services. A body may arrive at 1 KiB/s, the rate of a modem, and stop for twenty seconds.
func usual() limits {
	return limits{header: 10 * time.Second, read: 20 * time.Second, idle: 2 * time.Minute, grace: 30 * time.Second, rate: 32 << 10,
		shutdown: 10 * time.Second, most: usualConnections, share: Connections{Most: usualConnections}.share}
}

const (
	headerBytes = 64 << 10
	partBytes   = 20 << 10 // of a body
)

// usualConnections is [berth] max_connections where nobody says otherwise: each agent holds one to compute.
const usualConnections = 16384

// Connections is how many connections an API has open at a time.
type Connections struct {
	Most       int // [berth] max_connections
	PerAddress int // [berth] max_connections_per_address; 0: as many as Most
	Local      int // the same for loopback addresses
}

// share is how many of them one address may have; 0: all.
func (c Connections) share(address netip.Prefix) int {
	if !address.IsValid() || address.Addr().IsLoopback() {
		return c.Local
	}
	return c.PerAddress
}

// Listen opens the TCP address that a flag gives, such as "127.0.0.1:8778". With noauth2, where each caller is who he says he
// is, an address that others can reach is refused.
func Listen(flag, address string, noauth bool) (net.Listener, error) {
	const op = "cloud.Listen"
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "%s %s: %w; write it as 127.0.0.1:8778", flag, address, err)
	}
	if noauth && !resolved.IP.IsLoopback() {
		return nil, fault.New(fault.Forbidden, op,
			"%s %s is not a loopback address, and with auth_strategy = noauth2 anybody who reaches it is admin; listen on 127.0.0.1 or [::1]", flag, address)
	}
	// Listen on what was looked at: a name could resolve to something else the second time.
	config := net.ListenConfig{Control: noticeSilence}
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
const heapFloor = 32 << 20

// Serve answers on the listener until ctx ends. Requests that run then are finished, within ten seconds; streams
// (answers that were flushed before their end) are ended at once, for they never end by themselves. Slow clients are
// cut off. The number of connections is limited, in all and from one address. A further connection waits, or takes the
// place of one that waits for its client.
func Serve(ctx context.Context, l net.Listener, h http.Handler, connections Connections, log *slog.Logger) error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	may := usual()
	may.most, may.share = connections.Most, connections.share
	return serve(ctx, l, h, log, may)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, may limits) error {
	const op = "cloud.Serve"
	crowd := newCrowd(l, may, log)
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{Handler: paced(ctx, h, may), ReadHeaderTimeout: may.header, IdleTimeout: may.idle,
		MaxHeaderBytes: headerBytes, BaseContext: func(net.Listener) context.Context { return base }, ConnContext: withGuest,
		ConnState: crowd.note, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(crowd) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, op, err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), may.shutdown)
	defer cancel()
	err := s.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.New(fault.Unavailable, op, "requests were cut off: they were not finished %s after the server was told to stop", may.shutdown)
	}
	if closed := s.Close(); err == nil && closed != nil {
		err = closed
	}
	if served := <-ended; served != nil && !errors.Is(served, http.ErrServerClosed) && err == nil {
		err = served
	}
	return fault.Wrap("", op, err)
}
