package cloud

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// limits are what a client may take of a server's time.
type limits struct {
	header   time.Duration // to send the head of a request
	read     time.Duration // to send all of it
	idle     time.Duration // between two requests
	grace    time.Duration // to take any part of an answer, however small
	rate     int           // bytes per second; who takes a large part slower than that, after the grace, is cut off
	shutdown time.Duration // for requests that run when the server is told to stop
	most     int           // connections at a time
}

func usual() limits {
	return limits{header: 10 * time.Second, read: time.Minute, idle: 2 * time.Minute, grace: 30 * time.Second, rate: 32 << 10, shutdown: 10 * time.Second, most: usualConnections}
}

const headerBytes = 64 << 10

// usualConnections is [berth] max_connections where nobody says otherwise: each agent holds one to compute.
const usualConnections = 16384

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

// Serve answers on the listener until ctx ends. Requests that run then are finished, within ten seconds; streams (answers
// that were flushed before their end) are ended at once, for they never end by themselves. Slow clients are cut off. Only so many connections are open at a time;
// further ones wait.
func Serve(ctx context.Context, l net.Listener, h http.Handler, connections int, log *slog.Logger) error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	may := usual()
	may.most = connections
	return serve(ctx, l, h, log, may)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, may limits) error {
	const op = "cloud.Serve"
	crowd := newCrowd(l, may.most)
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{Handler: paced(ctx, h, may), ReadHeaderTimeout: may.header, ReadTimeout: may.read, IdleTimeout: may.idle, MaxHeaderBytes: headerBytes,
		BaseContext: func(net.Listener) context.Context { return base }, ConnState: crowd.note, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
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
